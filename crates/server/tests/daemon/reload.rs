//! Another configuration under load.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use slidegate_testkit::server::{Certificates, poll};

use crate::process::{Daemon, Folder};

fn config(limit: u32) -> String {
    format!("slidegate: 1\npolicies:\n  - name: api\n    quotas: [{limit}/hour]\n")
}

const RELOADED: &str = "slidegate_config_reloads_total{result=\"ok\"}";
const FAILED: &str = "slidegate_config_reloads_total{result=\"failed\"}";

fn wait_for(daemon: &Daemon, metric: &str, least: f64) {
    poll(metric, || Ok(daemon.metric(metric).filter(|value| *value >= least))).unwrap();
}

#[test]
fn changed_file_takes_effect_and_counts_are_kept() {
    let folder = Folder::new("changed");
    let path = folder.write("limits.yaml", &config(3));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 5), 3);
    folder.write("limits.yaml", &config(5));
    wait_for(&daemon, RELOADED, 1.0);
    assert_eq!(daemon.allowed("api", "k", 5), 2);
}

#[test]
fn a_bad_file_changes_nothing_and_is_reported() {
    let folder = Folder::new("bad");
    let path = folder.write("limits.yaml", &config(3));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 2), 2);
    folder.write("limits.yaml", "slidegate: 1\npolicies:\n  - name: api\n    qoutas: [9/hour]\n");
    wait_for(&daemon, FAILED, 1.0);
    daemon.hears("did you mean `quotas`");
    assert_eq!(daemon.allowed("api", "k", 5), 1);
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status >= 400 && body.contains("qoutas"), "{status} {body}");
    folder.write("limits.yaml", &config(4));
    wait_for(&daemon, RELOADED, 1.0);
    assert_eq!(daemon.allowed("api", "k", 5), 1);
}

#[test]
fn a_reload_to_nothing_is_refused_unless_it_is_allowed() {
    let folder = Folder::new("emptied");
    let path = folder.write("limits.yaml", &config(3));
    let daemon = Daemon::with_config(&path);
    assert_eq!(daemon.allowed("api", "k", 2), 2);
    let emptied = ["", "# comment\n", "slidegate: 1\npolicies: []\n"];
    for (text, failed) in emptied.into_iter().zip([1.0, 2.0, 3.0]) {
        folder.write("limits.yaml", text);
        let (status, body) = daemon.admin("POST", "/-/reload");
        assert!(status == 422 && body.contains("policy api"), "{text:?}: {status} {body}");
        wait_for(&daemon, FAILED, failed);
        assert!(daemon.metric(RELOADED) == Some(0.0), "{text:?}");
    }
    daemon.signal("HUP");
    daemon.hears("set `allow_removed: [\"policy api\"]` in the file");
    assert_eq!(daemon.allowed("api", "k", 5), 1, "the limit and its counts stay");

    folder.write("limits.yaml", "slidegate: 1\nallow_empty: true\n");
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 200 && body.contains("0 policies"), "{status} {body}");
    // What returns continues.
    folder.write("limits.yaml", &config(4));
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
    assert_eq!(daemon.allowed("api", "k", 5), 1);
}

// Without rules, forward auth allows every request.
#[test]
fn a_reload_that_loses_all_rules_is_refused_unless_it_is_allowed() {
    let folder = Folder::new("emptied_rules");
    let rules = format!("{}rules: [{{name: all, key: [address], policy: api}}]\n", config(3));
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &rules));
    folder.write("limits.yaml", &config(3));
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("rule all"), "{status} {body}");
    folder.write("limits.yaml", &format!("{}allow_empty: true\n", config(3)));
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
}

#[test]
fn a_directory_of_envoyproxy_ratelimit_that_loses_all_files_is_refused() {
    let folder = Folder::new("emptied_envoy");
    let root = folder.path("ratelimit");
    fs::create_dir(&root).unwrap();
    let limit = "{unit: hour, requests_per_unit: 1}";
    let domain = format!("domain: shop\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n");
    fs::write(root.join("shop.yaml"), domain).unwrap();
    let daemon = Daemon::with_config(&root);
    fs::remove_file(root.join("shop.yaml")).unwrap();
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("domain shop"), "{status} {body}");
    assert!(daemon.admin("GET", "/rlconfig").1.contains("shop.user"));
}

// A file whose domain lost its descriptors, a removed file of two, or a file that is still being
// written. Each lifts limits, although there is still a domain or a policy.
#[test]
fn a_reload_that_removes_some_limits_is_refused_until_it_is_allowed() {
    let folder = Folder::new("removed_envoy");
    let root = folder.path("ratelimit");
    fs::create_dir(&root).unwrap();
    let limit = "{unit: hour, requests_per_unit: 1}";
    let whole = format!(
        "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {limit}\n  - key: path\n    \
         value: /login\n    rate_limit: {limit}\n"
    );
    let other = format!("domain: mail\ndescriptors: [{{key: user, rate_limit: {limit}}}]\n");
    fs::write(root.join("shop.yaml"), &whole).unwrap();
    fs::write(root.join("mail.yaml"), &other).unwrap();
    let daemon = Daemon::with_config(&root);
    let reload = |query: &str| daemon.admin("POST", &format!("/-/reload{query}"));
    let refused = |names: &[&str]| {
        let (status, body) = reload("");
        assert!(status == 422 && names.iter().all(|name| body.contains(name)), "{status} {body}");
        assert!(body.contains("POST /-/reload?allow_removed=true"), "{body}");
        assert!(daemon.admin("GET", "/rlconfig").1.contains("shop.path_/login"));
    };
    fs::write(root.join("shop.yaml"), "domain: shop\n").unwrap();
    refused(&["limit shop.user", "limit shop.path_/login"]);
    let part = whole.split("  - key: path").next().unwrap();
    fs::write(root.join("shop.yaml"), part).unwrap();
    refused(&["limit shop.path_/login"]);
    fs::write(root.join("shop.yaml"), whole.replace("/login\n", "/login\n    shadow_mode: true\n"))
        .unwrap();
    assert_eq!(reload("").0, 200, "a limit that changes is not removed");
    fs::remove_file(root.join("mail.yaml")).unwrap();
    refused(&["domain mail"]);
    let (status, body) = reload("?allow_removed=true");
    assert_eq!(status, 200, "{body}");
    assert!(!daemon.admin("GET", "/rlconfig").1.contains("mail"));
    assert_eq!(reload("?allow=all").0, 400);
}

#[test]
fn removed_limits_that_the_file_names_are_removed() {
    let folder = Folder::new("removed_named");
    let two = format!("{}  - name: old\n    quotas: [1/second, 1/hour]\n", config(3));
    let path = folder.write("limits.yaml", &two);
    let daemon = Daemon::with_config(&path);
    let reload = || daemon.admin("POST", "/-/reload");
    folder.write("limits.yaml", &two.replace(", 1/hour", ""));
    let (status, body) = reload();
    assert!(status == 422 && body.contains("policy old"), "{status} {body}");
    folder.write("limits.yaml", &format!("{}allow_removed: [policy api]\n", config(3)));
    let (status, body) = reload();
    assert!(status == 422 && !body.contains("policy api"), "{status} {body}");
    folder.write("limits.yaml", &format!("{}allow_removed: [policy old]\n", config(3)));
    assert_eq!(reload().0, 200);
}

// Names are joined with the characters that they may contain: both limits of a pair have one name.
#[test]
fn limits_whose_names_look_the_same_are_guarded_separately() {
    let folder = Folder::new("removed_alike");
    let root = folder.path("ratelimit");
    fs::create_dir(&root).unwrap();
    let limit = "rate_limit: {unit: hour, requests_per_unit: 1}";
    let nested = format!("  - key: a\n    value: b\n    descriptors: [{{key: c, {limit}}}]\n");
    let flat = format!("  - key: a\n    value: b.c\n    {limit}\n");
    let dotted = format!("domain: d.x\ndescriptors: [{{key: y, {limit}}}, {{key: z, {limit}}}]\n");
    let head = "domain: d\ndescriptors:\n";
    fs::write(root.join("d.yaml"), format!("{head}{nested}{flat}")).unwrap();
    fs::write(root.join("dx.yaml"), &dotted).unwrap();
    let daemon = Daemon::with_config(&root);
    let refused = |name: &str| {
        let (status, body) = daemon.admin("POST", "/-/reload");
        assert!(status == 422 && body.contains(name), "{status} {body}");
    };
    for left in [&nested, &flat] {
        fs::write(root.join("d.yaml"), format!("{head}{left}")).unwrap();
        refused("limit d.a_b.c");
    }
    // Domain `d` does not contain the limits of domain `d.x`.
    fs::remove_file(root.join("d.yaml")).unwrap();
    fs::write(root.join("dx.yaml"), dotted.replace(&format!(", {{key: z, {limit}}}"), "")).unwrap();
    refused("limit d.x.z");
}

// A file that ends before its tokens would let every client on loopback change everything.
#[test]
fn a_reload_that_loses_all_tokens_is_refused_until_it_is_allowed() {
    let folder = Folder::new("removed_tokens");
    folder.write("app.token", "a-token-of-a-length-that-is-accepted");
    let tokens = "access:\n  tokens: [{file: app.token, scopes: [change]}]\n";
    let path = folder.write("limits.yaml", &format!("{}{tokens}", config(3)));
    let daemon = Daemon::with_config(&path);
    folder.write("limits.yaml", &config(3));
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("access tokens"), "{status} {body}");
    folder.write("limits.yaml", &format!("{}allow_removed: [access tokens]\n", config(3)));
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
}

// The files that the daemon was started with may be gone by then.
#[test]
fn a_certificate_at_another_path_is_used_after_a_restart_and_blocks_no_reload() {
    let folder = Folder::new("moved_certificate");
    let certificates = Certificates::new().unwrap();
    let install = |name: &str| {
        folder.write(&format!("{name}.pem"), certificates.server());
        folder.write(&format!("{name}.key"), certificates.server_key());
        let tls = format!("tls: {{certificate: {name}.pem, key: {name}.key}}\n");
        folder.write("limits.yaml", &(config(1) + &tls))
    };
    let daemon = Daemon::with_config(&install("old"));
    fs::remove_file(folder.path("old.pem")).unwrap();
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert!(status == 422 && body.contains("old.pem: no such file"), "{status} {body}");
    install("new");
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("after a restart: tls.certificate, tls.key"), "{body}");
}

#[test]
fn by_signal_and_by_call() {
    let folder = Folder::new("signal");
    let path = folder.write("limits.yaml", &config(3));
    let daemon = Daemon::with_config(&path);
    daemon.signal("HUP");
    wait_for(&daemon, RELOADED, 1.0);
    let (status, body) = daemon.admin("POST", "/-/reload");
    assert_eq!(status, 200, "{body}");
    assert_eq!(daemon.admin("GET", "/-/reload").0, 405);
    wait_for(&daemon, RELOADED, 2.0);
}

// Kubernetes replaces the link `..data`, not the file that the daemon was started with.
#[test]
fn a_swapped_link_is_seen() {
    let folder = Folder::new("kubernetes");
    for (version, limit) in [("..1", 1), ("..2", 2)] {
        fs::create_dir(folder.path(version)).unwrap();
        fs::write(folder.path(version).join("limits.yaml"), config(limit)).unwrap();
    }
    symlink("..1", folder.path("..data")).unwrap();
    symlink("..data/limits.yaml", folder.path("limits.yaml")).unwrap();
    let daemon = Daemon::with_config(&folder.path("limits.yaml"));
    assert_eq!(daemon.allowed("api", "k", 5), 1);
    symlink("..2", folder.path("..fresh")).unwrap();
    fs::rename(folder.path("..fresh"), folder.path("..data")).unwrap();
    poll("the second version", || Ok(daemon.check("api", "k").then_some(()))).unwrap();
    assert_eq!(daemon.allowed("api", "k", 5), 0);
}

#[test]
fn a_hundred_reloads_under_load_fail_no_request_and_forgive_nothing() {
    let folder = Folder::new("hundred");
    let path = folder.write("limits.yaml", &config(500));
    let daemon = Daemon::with_config(&path);
    let over = AtomicBool::new(false);
    let allowed = thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut allowed = 0;
                    while !over.load(Ordering::Relaxed) {
                        allowed += usize::from(daemon.check("api", "k"));
                    }
                    allowed
                })
            })
            .collect();
        for _ in 0..100 {
            let (status, body) = daemon.admin("POST", "/-/reload");
            assert_eq!(status, 200, "{body}");
        }
        over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    });
    assert!(allowed > 0);
    assert_eq!(allowed + daemon.allowed("api", "k", 600 - allowed.min(500)), 500);
}
