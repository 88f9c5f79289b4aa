//! Tests of `process`.

use super::*;

#[cfg(target_os = "linux")]
#[test]
fn the_process_has_memory_time_and_files() {
    let mut page = Page::new();
    write_process(&mut page);
    let text = page.finish();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<f64>().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > 100_000.0, "{text}");
    assert!(value("process_cpu_seconds_total ") < 100_000.0, "{text}");
    assert!(value("process_open_fds ") >= 3.0, "{text}");
    assert!(value("process_max_fds ") >= value("process_open_fds "), "{text}");
}
