//! Counts over a restart, and over a crash.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use slidegate_testkit::server::poll;

use crate::process::{Daemon, Folder, command, free_ports, output, post};

fn config(folder: &Folder, extra: &str) -> String {
    let path = folder.path("state");
    format!(
        "slidegate: 1\nsnapshot:\n  path: {}\n  interval: 1s\n{extra}policies:\n  - name: api\n    quotas: [100/hour]\n",
        path.display()
    )
}

#[test]
fn a_restart_forgives_nothing() {
    let folder = Folder::new("restart");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 60), 60);
    let (ended, said) = daemon.terminate();
    assert!(ended.success(), "{said}");
    let daemon = Daemon::with_config(&path);
    daemon.hears("1 keys restored");
    assert_eq!(daemon.allowed("api", "k", 60), 40);
}

// What was done with a receipt is forgotten when the daemon stops. A receipt that returned its units
// must not return those of later requests.
#[test]
fn receipts_are_void_after_a_restart() {
    let folder = Folder::new("receipts");
    let path = folder.write("limits.yaml", &config(&folder, "").replace("1s", "1h"));
    let daemon = Daemon::with_config(&path);
    let receipts: Vec<String> = (0..50).map(|_| receipt(&daemon)).collect();
    let refunded: u64 = receipts[..25].iter().map(|receipt| refund(&daemon, receipt)).sum();
    assert_eq!(refunded, 25);
    assert_eq!(daemon.allowed("api", "k", 25), 25);
    assert!(daemon.terminate().0.success());

    let daemon = Daemon::with_config(&path);
    assert_eq!(receipts.iter().map(|receipt| refund(&daemon, receipt)).sum::<u64>(), 0);
    assert_eq!(daemon.allowed("api", "k", 100), 50);
}

fn call(daemon: &Daemon, operation: &str, more: &str) -> Value {
    let body = format!(r#"{{"policy": "api", "key": "k"{more}}}"#);
    let stream = TcpStream::connect(daemon.http).unwrap();
    let (status, reply) = post(stream, &format!("/v1/{operation}"), &body);
    assert_eq!(status, 200, "{reply}");
    serde_json::from_str(&reply).unwrap()
}

fn receipt(daemon: &Daemon) -> String {
    call(daemon, "check", "")["receipt"].as_str().unwrap().to_owned()
}

fn refund(daemon: &Daemon, receipt: &str) -> u64 {
    call(daemon, "refund", &format!(r#", "receipt": "{receipt}""#))["refunded"].as_u64().unwrap()
}

// What was admitted after the last snapshot may be admitted once more: no more than that.
#[test]
fn a_crash_under_load_forgives_what_came_after_the_last_snapshot_and_no_more() {
    let folder = Folder::new("crash");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let mut admitted = 0;
    for _ in 0..3 {
        let daemon = Daemon::with_config(&path);
        admitted += daemon.allowed("api", "k", 20);
        // A snapshot that was begun after all of these were admitted.
        let saved = |daemon: &Daemon| daemon.metric("slidegate_snapshots_total{result=\"ok\"}");
        let now = saved(&daemon).unwrap();
        poll("two more snapshots", || Ok(saved(&daemon).filter(|count| *count >= now + 2.0)))
            .unwrap();
        // And some that may be forgotten.
        let late = daemon.allowed("api", "k", 3);
        assert_eq!(late, 3);
        daemon.kill();
        assert!(folder.path("state/api.log.1.snapshot").exists());
    }
    let daemon = Daemon::with_config(&path);
    let rest = daemon.allowed("api", "k", 120);
    assert!(admitted + rest <= 100, "{admitted} and {rest}");
    assert!(admitted + rest + 3 * 3 >= 100, "{admitted} and {rest}");
}

#[test]
fn a_damaged_snapshot_is_refused_with_what_to_do() {
    let folder = Folder::new("damaged");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 100), 100);
    assert!(daemon.terminate().0.success());
    let file = folder.path("state/api.log.1.snapshot");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = output(&["serve", "--config", path.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said.contains("api.log.1.snapshot") && said.contains("start_empty_if_damaged"),
        "{said}"
    );
    let tolerant = config(&folder, "  start_empty_if_damaged: true\n");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &tolerant));
    daemon.hears("starting without these counts");
    assert_eq!(daemon.allowed("api", "k", 5), 5);
}

// Opening a pipe waits until another process writes to it.
#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_does_not_stop_the_start() {
    let folder = Folder::new("pipes");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let pipe = |name: &str| {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, folder.path(name), FileType::Fifo, mode, 0).unwrap();
    };
    fs::create_dir(folder.path("state")).unwrap();
    pipe("state/api.log.1.snapshot");
    let said = refused(&path);
    assert!(said.contains("api.log.1.snapshot: a pipe or a device; use a regular file"), "{said}");

    let audit = |name: &str| {
        let text = format!("audit: {{path: {}}}\n", folder.path(name).display());
        folder.write("limits.yaml", &text)
    };
    pipe("audit.pipe");
    let said = refused(&audit("audit.pipe"));
    assert!(said.contains("audit.pipe: a pipe that no process reads"), "{said}");
    pipe("audit.log.secret");
    let said = refused(&audit("audit.log"));
    assert!(said.contains("audit.log.secret: cannot be read (a pipe or a device"), "{said}");
}

#[test]
fn the_snapshot_of_another_policy_is_refused_with_both_names() {
    let folder = Folder::new("foreign");
    let text = config(&folder, "") + "  - name: login\n    quotas: [5/hour]\n";
    let path = folder.write("limits.yaml", &text);
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 50), 50);
    assert!(daemon.terminate().0.success());
    let file = |name: &str| folder.path(&format!("state/{name}.log.1.snapshot"));
    fs::copy(file("api"), file("login")).unwrap();
    let said = refused(&path);
    assert!(said.contains("snapshot has policy \"api\", this limiter \"login\""), "{said}");
}

/// What a daemon says that does not start.
fn refused(config: &Path) -> String {
    let arguments: Vec<&str> = free_ports().collect();
    let mut serve = command(&[&["serve"], &arguments[..]].concat());
    serve.args(["--config", config.to_str().unwrap()]).stderr(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    let ended = poll("the end", || Ok(child.try_wait().unwrap()));
    let _ = child.kill();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert_eq!(ended.unwrap().code(), Some(1), "{said}");
    said
}

// Only the time since boot counts while the machine runs: a wall clock that is set forgives nothing.
#[test]
fn a_wall_clock_that_was_set_forward_forgives_nothing() {
    let folder = Folder::new("forward");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 60), 60);
    assert!(daemon.terminate().0.success());
    let library = fs::read_dir("/usr/lib").unwrap().find_map(|entry| {
        let path = entry.unwrap().path().join("faketime/libfaketimeMT.so.1");
        path.exists().then_some(path)
    });
    let library = library.unwrap_or_else(|| panic!("install Debian's package `libfaketime`"));
    let arguments: Vec<&str> = free_ports().collect();
    let mut serve = command(&[&["serve"], &arguments[..]].concat());
    serve.args(["--config", path.to_str().unwrap()]);
    serve
        .env("LD_PRELOAD", library)
        .env("FAKETIME", "+2h")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let daemon = Daemon::with(serve);
    daemon.hears("1 keys restored");
    assert_eq!(daemon.allowed("api", "k", 60), 40);
}

#[test]
fn a_second_daemon_does_not_write_into_the_directory_of_the_first() {
    let folder = Folder::new("second");
    let path = folder.write("limits.yaml", &config(&folder, ""));
    let _first = Daemon::with_config(&path);
    let arguments: Vec<&str> = free_ports().collect();
    let refused =
        output(&[&["serve", "--config", path.to_str().unwrap()], &arguments[..]].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("in use by another process"), "{said}");
    // The configuration is good: a check before a restart must not fail.
    let checked = output(&["config", "check", path.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0));
}
