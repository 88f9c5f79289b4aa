//! How much memory this process has, as the kernel says.

use std::fs;

use crate::Failure;

/// Resident memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// Asks the kernel.
pub(crate) fn read() -> Result<Resident, Failure> {
    parse(&fs::read_to_string("/proc/self/status")?)
}

/// Reads `/proc/PID/status` of any process.
pub(crate) fn parse(status: &str) -> Result<Resident, Failure> {
    let field = |name: &str| -> Result<u64, Failure> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes = kilobytes.ok_or_else(|| format!("the kernel does not say {name}"))?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    };
    Ok(Resident { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_become_bytes() {
        let status = "Name:\tbench\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(status).unwrap(), Resident { now: 1 << 20, peak: 2 << 20 });
        assert!(parse("Name:\tbench\n").is_err());
    }
}
