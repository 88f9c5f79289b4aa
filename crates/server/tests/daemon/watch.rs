//! Changed files of the configuration are seen, and only those.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use slidegate_testkit::server::poll;

use crate::process::{Daemon, Folder, command, free_ports, output};

const RELOADED: &str = "slidegate_config_reloads_total{result=\"ok\"}";
const FAILED: &str = "slidegate_config_reloads_total{result=\"failed\"}";

fn config(limit: u32) -> String {
    format!("slidegate: 1\npolicies:\n  - name: api\n    quotas: [{limit}/hour]\n")
}

/// Creates a directory with a configuration.
fn version(folder: &Folder, name: &str, limit: u32) -> PathBuf {
    let path = folder.path(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("limits.yaml"), config(limit)).unwrap();
    path
}

/// Waits until one more request is allowed than were under the limits before.
fn allows_one_more(daemon: &Daemon) {
    poll("the new limit", || Ok(daemon.check("api", "k").then_some(())))
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    assert_eq!(daemon.allowed("api", "k", 3), 0);
}

/// A reload is counted after it has taken effect.
fn has_reloaded(daemon: &Daemon, times: u32) {
    let times = Some(f64::from(times));
    poll("the reload", || Ok((daemon.metric(RELOADED) == times).then_some(()))).unwrap();
    assert_eq!(daemon.metric(FAILED), Some(0.0));
}

fn started(config: &Path) -> Daemon {
    let daemon = Daemon::with_config(config);
    assert_eq!(daemon.allowed("api", "k", 3), 1);
    daemon
}

#[test]
fn a_swapped_directory_is_seen_every_time() {
    let folder = Folder::new("watch_swapped_directory");
    let path = version(&folder, "conf", 1);
    let daemon = started(&path.join("limits.yaml"));
    for limit in 2..4 {
        let next = version(&folder, "next", limit);
        fs::rename(&path, folder.path(&format!("old{limit}"))).unwrap();
        fs::rename(next, &path).unwrap();
        allows_one_more(&daemon);
    }
    // And a change in the directory that is there now.
    fs::write(path.join("limits.yaml"), config(4)).unwrap();
    allows_one_more(&daemon);
}

#[test]
fn a_swapped_link_to_a_directory_is_seen_every_time() {
    let folder = Folder::new("watch_swapped_link");
    for limit in 1..4 {
        version(&folder, &format!("v{limit}"), limit);
    }
    let link = folder.path("current");
    symlink("v1", &link).unwrap();
    let daemon = started(&link.join("limits.yaml"));
    for limit in 2..4 {
        symlink(format!("v{limit}"), folder.path("next")).unwrap();
        fs::rename(folder.path("next"), &link).unwrap();
        allows_one_more(&daemon);
    }
    fs::write(folder.path("v3/limits.yaml"), config(4)).unwrap();
    allows_one_more(&daemon);
}

#[test]
fn a_removed_directory_is_reported_and_seen_when_it_is_back() {
    let folder = Folder::new("watch_removed");
    let path = version(&folder, "conf", 1);
    let daemon = started(&path.join("limits.yaml"));
    fs::remove_dir_all(&path).unwrap();
    poll(FAILED, || Ok(daemon.metric(FAILED).filter(|count| *count >= 1.0))).unwrap();
    assert_eq!(daemon.allowed("api", "k", 3), 0, "the old limits stay");
    version(&folder, "conf", 2);
    allows_one_more(&daemon);
}

#[test]
fn files_in_a_directory_of_envoyproxy_ratelimit_may_come_and_go_at_any_depth() {
    let folder = Folder::new("watch_envoy");
    let root = folder.path("ratelimit");
    fs::create_dir(&root).unwrap();
    let domain = |name: &str| {
        let limit = "{unit: hour, requests_per_unit: 1}";
        format!("domain: {name}\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n")
    };
    fs::write(root.join("first.yaml"), domain("first")).unwrap();
    let path = root.display().to_string();
    let daemon = Daemon::start(&["--config", &path, "--set", "allow_empty=true"]);
    let lists = |name: &str, is_there: bool| {
        poll(name, || {
            let (_, page) = daemon.admin("GET", "/rlconfig");
            Ok((page.contains(name) == is_there).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    };
    lists("first", true);
    fs::create_dir_all(root.join("deeper/still")).unwrap();
    fs::write(root.join("deeper/still/second.yaml"), domain("second")).unwrap();
    lists("second", true);
    fs::write(root.join("deeper/still/second.yaml"), domain("third")).unwrap();
    lists("third", true);
    fs::remove_dir_all(root.join("deeper")).unwrap();
    lists("third", false);
}

/// Creates a named pipe, which blocks a plain `open` until another process writes to it.
fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_pipe_is_refused_and_blocks_neither_reloads_nor_the_shutdown() {
    let folder = Folder::new("watch_pipe");
    let root = folder.path("ratelimit");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.yaml"), "domain: a\ndescriptors: [{key: user}]\n").unwrap();
    let daemon = Daemon::with_config(&root);
    pipe(&root.join("b.yaml"));
    daemon.hears("b.yaml: cannot be read (a pipe or a device; use a regular file)");
    daemon.signal("HUP");
    poll(FAILED, || Ok(daemon.metric(FAILED).filter(|count| *count >= 2.0))).unwrap();
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("a pipe or a device"), "{status} {body}");

    fs::remove_file(root.join("b.yaml")).unwrap();
    poll(RELOADED, || Ok(daemon.metric(RELOADED).filter(|count| *count >= 1.0))).unwrap();
    pipe(&root.join("b.yaml"));
    daemon.signal("HUP");
    let (ended, said) = daemon.terminate();
    assert!(ended.success(), "{said}");
}

#[test]
fn a_pipe_instead_of_a_certificate_or_secret_is_refused() {
    let folder = Folder::new("watch_pipe_secret");
    pipe(&folder.path("pipe"));
    let settings = [
        "tls: {certificate: pipe, key: pipe}",
        "access: {tokens: [{file: pipe, scopes: [check]}]}",
    ];
    for settings in settings {
        let path = folder.write("limits.yaml", &format!("{}{settings}\n", config(1)));
        let checked = output(&["config", "check", path.to_str().unwrap()]);
        let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert_eq!(checked.status.code(), Some(78), "{said}");
        assert!(said.contains("pipe: cannot be read (a pipe or a device"), "{said}");
    }
}

// The daemon's own log and audit file may be in the folder of its configuration.
#[test]
fn other_files_and_unchanged_contents_do_not_reload() {
    let folder = Folder::new("watch_others");
    let text = format!("{}audit: {{path: audit.log, decisions: all}}\n", config(1));
    let path = folder.write("limits.yaml", &text);
    let log = fs::File::create(folder.path("daemon.log")).unwrap();
    let mut serve = command(&["serve", "--config", path.to_str().unwrap()]);
    serve.args(free_ports());
    let daemon = Daemon::with(serve);
    for number in 0..1000 {
        assert_eq!(daemon.check("api", "k"), number == 0);
        writeln!(&log, "line {number}").unwrap();
        // The same contents in another file.
        if number % 100 == 0 {
            folder.write("limits.yaml", &text);
        }
    }
    folder.write("limits.yaml", &text.replace("1/hour", "2/hour"));
    allows_one_more(&daemon);
    has_reloaded(&daemon, 1);
}

// `sh` truncates the file, and writes to it later.
#[test]
fn a_file_that_is_being_written_is_not_loaded() {
    let folder = Folder::new("watch_slow_write");
    let path = folder.write("limits.yaml", &config(1));
    let daemon = started(&path);
    for limit in 2..5 {
        let script = "{ sleep 0.4; head -c 20; sleep 0.4; cat; } >\"$0\"";
        let mut writer = Command::new("sh")
            .args(["-c", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        writer.stdin.take().unwrap().write_all(config(limit).as_bytes()).unwrap();
        writer.wait().unwrap();
        allows_one_more(&daemon);
        has_reloaded(&daemon, limit - 1);
    }
}

#[test]
fn settings_that_need_a_restart_are_named() {
    let folder = Folder::new("watch_restart");
    let path = folder.write("limits.yaml", &config(1));
    let daemon = started(&path);
    let text = "limits: {connections: 7}\nlog: {level: info}\nmemory: {limit_mb: 99}\n\
                envoy: {merge_domains: true}\n\
                audit: {path: audit.log}\n";
    folder.write("limits.yaml", &(config(2) + text));
    allows_one_more(&daemon);
    daemon.hears("after a restart: audit.path, limits.connections\n");
    let (_, body) = daemon.admin("POST", "/-/reload");
    assert!(body.contains("after a restart: audit.path, limits.connections"), "{body}");
}

// The audit log hashes keys with the secret, so that hashes from before and after would not match.
#[test]
fn secrets_that_need_a_restart_are_named_when_their_files_change() {
    let folder = Folder::new("watch_secrets");
    let names = ["audit.secret", "partition.secret"];
    for name in names {
        folder.write(name, "the first secret");
    }
    let text = "audit: {path: audit.log, key_secret_file: audit.secret}\n\
                headers: {partition_secret_file: partition.secret}\n";
    let daemon = started(&folder.write("limits.yaml", &(config(1) + text)));
    for name in names {
        folder.write(name, "the second secret");
    }
    daemon.hears("after a restart: headers.partition_secret_file, audit.key_secret_file\n");
}
