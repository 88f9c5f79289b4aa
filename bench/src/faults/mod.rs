//! Faults on real Redis servers: what callers see, how long recovery takes, and whether the limit
//! holds.
//!
//! Four limiters share one limit, each with its own connections, as four processes would. They check
//! one key more often than the limit allows before, during and after the fault.

mod load;
mod record;
mod report;
mod search;
mod stage;

pub(crate) use search::run as search;

use crate::Failure;
use crate::options::Options;
use crate::progress;

/// Stages every fault, or the one that is named, and prints a row for each.
pub(crate) fn run(options: &Options, name: Option<&str>) -> Result<(), Failure> {
    let faults: Vec<&stage::Fault> =
        stage::FAULTS.iter().filter(|fault| name.is_none_or(|name| name == fault.name)).collect();
    if faults.is_empty() {
        let names: Vec<&str> = stage::FAULTS.iter().map(|fault| fault.name).collect();
        let name = name.unwrap_or_default();
        return Err(format!("unknown fault {name:?}: use one of {}", names.join(", ")).into());
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = Vec::with_capacity(faults.len());
    for (index, fault) in faults.iter().enumerate() {
        progress::say(&format!("faults: {} ({}/{})", fault.name, index + 1, faults.len()));
        rows.push((*fault, runtime.block_on((fault.stage)())?));
    }
    report::print(options, &rows);
    Ok(())
}
