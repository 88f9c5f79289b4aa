//! The longest that a lock is held while ten million keys come, are swept and are saved.

use core::time::Duration;
use std::io::sink;

use crate::Failure;
use crate::options::Options;
use crate::ours::Crowd;

const KEYS: u64 = 10_000_000;

/// Runs the three stages and prints the longest hold up to the end of each.
///
/// The time is the wall's: on a machine that does other things too, a thread that is interrupted
/// while it holds a lock counts the interruption. So the stages are run three times, and the run
/// with the shortest of its longest holds is the one that tells about the program.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut best: Option<[Duration; 3]> = None;
    for round in 1..=3 {
        eprintln!("  holds: round {round} of 3");
        let holds = stages()?;
        if best.is_none_or(|best| holds[2] < best[2]) {
            best = Some(holds);
        }
    }
    for (stage, hold) in ["growth", "sweep", "snapshot"].iter().zip(best.unwrap_or_default()) {
        let nanos = hold.as_nanos();
        if options.json {
            println!(
                "{{\"bench\":\"holds\",\"workload\":\"log-10m\",\"up_to\":\"{stage}\",\"longest_ns\":{nanos}}}"
            );
        } else {
            println!("10 M keys, up to the end of the {stage}: longest hold {hold:?}");
        }
    }
    Ok(())
}

fn stages() -> Result<[Duration; 3], Failure> {
    let crowd = Crowd::new()?;
    for key in 0..KEYS {
        crowd.check(key);
    }
    let growth = crowd.longest_hold();
    crowd.sweep();
    let sweep = crowd.longest_hold();
    crowd.save(&mut sink())?;
    Ok([growth, sweep, crowd.longest_hold()])
}
