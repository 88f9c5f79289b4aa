//! The run that is counted.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::Failure;
use crate::contender::{COUNTER, FLOOR, GOVERNOR, HARNESS, LOG};
use crate::floor::Floor;
use crate::harness::Harness;
use crate::ours::{Algorithm, OurBasis, OursTimed};
use crate::peers::Governor;
use crate::random::Random;
use crate::subject::{Subject, Timed};

const KEYS: u32 = 10_000;
const LIMIT: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Ten checks a millisecond are 600,000 a minute, so 60 for each key: below the limit, so almost
/// all are admitted. In the first minute nothing expires; from the second on one request does for
/// each that is admitted.
const CHECKS_PER_MILLISECOND: usize = 10;

/// Sends `checks` requests to `subject`.
pub(crate) fn run_child(subject: &str, checks: u64) -> Result<(), Failure> {
    let limit = u64::from(LIMIT.get());
    let admitted = match subject {
        HARNESS => churn(&Harness, checks),
        LOG => churn(&OursTimed::new(Algorithm::Log, limit)?, checks),
        COUNTER => churn(&OursTimed::new(Algorithm::Counter, limit)?, checks),
        GOVERNOR => churn(&Governor::timed(LIMIT), checks),
        FLOOR => churn(&Floor::new(LIMIT.get(), OurBasis::manual()), checks),
        _ => return Err(format!("no subject {subject:?}").into()),
    };
    println!("{admitted} of {checks} admitted");
    Ok(())
}

fn churn<S: Timed>(subject: &S, checks: u64) -> u64 {
    let mut random = Random::new(10);
    let mut scratch = <S as Subject>::Scratch::default();
    let (mut sent, mut admitted) = (0, 0);
    while sent < checks {
        let mut numbers = [0; CHECKS_PER_MILLISECOND];
        numbers.fill_with(|| random.below(KEYS));
        admitted += subject.check_block(&mut scratch, &numbers);
        subject.advance(Duration::from_millis(1));
        sent += CHECKS_PER_MILLISECOND as u64;
    }
    admitted
}
