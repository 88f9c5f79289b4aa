//! Metrics of the process, under the names that Prometheus clients use.

use std::fs;

use crate::exposition::{Kind, Page};

/// Adds the memory, processor time and open files of the process to a page. It adds nothing on
/// systems without `/proc`.
pub fn write_process(page: &mut Page) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    for (name, help, field) in [
        ("process_resident_memory_bytes", "Resident memory in bytes.", "VmRSS:"),
        ("process_virtual_memory_bytes", "Virtual memory in bytes.", "VmSize:"),
    ] {
        if let Some(kibibytes) = kibibytes(field) {
            page.family(name, Kind::Gauge, help);
            page.sample(&[], kibibytes * 1024);
        }
    }
    if let Some(ticks) = processor_ticks() {
        let help = "Processor time of all threads in seconds.";
        page.family("process_cpu_seconds_total", Kind::Counter, help);
        page.ratio(&[], ticks, TICKS_PER_SECOND);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        page.family("process_open_fds", Kind::Gauge, "Open file descriptors.");
        page.sample(&[], open.count() as u64);
    }
    if let Some(most) = open_files_max() {
        page.family("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.");
        page.sample(&[], most);
    }
}

/// The unit in which Linux reports times to programs, independent of the kernel's own tick.
const TICKS_PER_SECOND: u64 = 100;

/// Returns user and system time. The fields are counted from the last parenthesis, which ends the
/// program's name.
fn processor_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn open_files_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
