//! What the page shows and does.

use std::net::TcpStream;

use serde_json::{Value, json};
use slidegate_testkit::server::{Browser, RedisServer, poll};

use super::{POLICIES, becomes_hot, is_clean, opened, page, policy, shows, state};
use crate::process::{Daemon, Folder, exchange, output, output_without_reader, post};

#[test]
fn the_page_shows_the_numbers_of_the_api_and_of_the_metrics_and_updates() {
    let folder = Folder::new("dashboard_numbers");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    shows(&browser, "#key-rows", "No requests yet");
    is_clean(&browser, "start");

    assert_eq!(daemon.allowed("api", "alice", 7), 5);
    assert_eq!(daemon.allowed("search", "bob", 3), 3);
    assert_eq!(daemon.allowed("exports", "carol", 3), 3);
    let row = |name: &str| format!("#policy-rows tr[data-key='{name}']");
    shows(&browser, &row("api enforce"), "5 in all");
    shows(&browser, &row("api enforce"), "2 in all");
    shows(&browser, &row("search shadow"), "1 in all");
    shows(&browser, "#rollout-rows", "would deny 1 more of 3 requests");
    shows(&browser, "#rollout-rows", "of 3 requests, it would deny 1 that passed");

    // The document, the page and `/metrics` read the same counters.
    let state = state(&daemon);
    for (name, mode) in [("api", "enforce"), ("search", "shadow"), ("exports", "enforce")] {
        let outcomes = policy(&state, name)["outcomes"].as_object().unwrap().clone();
        for (outcome, count) in outcomes {
            let sample = format!(
                "rate_limit_requests_total{{policy=\"{name}\",mode=\"{mode}\",outcome=\"{outcome}\"}}"
            );
            assert_eq!(daemon.metric(&sample), count.as_f64(), "{sample}");
        }
    }
    let keys = daemon.metric("rate_limit_keys{store=\"memory\",policy=\"api\"");
    assert_eq!(keys, Some(1.0));
    let in_memory = state["stores"][0]["stats"]["rate_limit_keys"].as_u64();
    assert_eq!(state["memory"]["keys"].as_u64(), in_memory);
    let listeners = state["listeners"].as_array().unwrap();
    let names: Vec<_> =
        listeners.iter().map(|listener| listener["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["http", "grpc", "resp", "admin"]);

    // The last values are kept for a reload of the page, and stay when the daemon ends.
    let kept = "return sessionStorage.getItem('slidegate-state')";
    assert!(browser.run(kept, &[]).unwrap().as_str().unwrap().contains("exports"));
    browser.open(&page(daemon.announced("dashboard"))).unwrap();
    shows(&browser, "#status", "live");
    daemon.kill();
    shows(&browser, "#status", "no connection");
    shows(&browser, &row("api enforce"), "5 in all");
}

#[test]
fn top_prints_the_same_numbers() {
    let folder = Folder::new("top");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let address = daemon.announced("dashboard").to_string();
    becomes_hot(&daemon, "api", "alice", "alice");
    let top = |arguments: &[&str]| {
        let top = output(&[&["top", "--address", &address], arguments].concat());
        assert!(top.status.success(), "{top:?}");
        String::from_utf8(top.stdout).unwrap()
    };
    let printed: Value = serde_json::from_str(&top(&["--json"])).unwrap();
    for (outcome, count) in policy(&printed, "api")["outcomes"].as_object().unwrap() {
        let sample = format!(
            "rate_limit_requests_total{{policy=\"api\",mode=\"enforce\",outcome=\"{outcome}\"}}"
        );
        assert_eq!(daemon.metric(&sample), count.as_f64(), "{sample}");
    }
    let text = top(&["--once"]);
    assert!(
        text.contains("memory ok") && text.contains("search") && text.contains("alice"),
        "{text}"
    );
    assert!(!top(&["--once", "--filter", "search"]).contains("alice"));
    for form in ["--once", "--json"] {
        let unread = output_without_reader(&["top", "--address", &address, form]);
        assert!(unread.status.success() && unread.stderr.is_empty(), "{unread:?}");
    }
    let nowhere = output(&["top", "--address", "127.0.0.1:1", "--once"]);
    assert_eq!(nowhere.status.code(), Some(69), "{nowhere:?}");
}

#[test]
fn a_key_is_shown_with_its_window_and_can_be_reset() {
    let folder = Folder::new("dashboard_reset");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    becomes_hot(&daemon, "api", "alice", "alice");
    daemon.allowed("api", "alice", 5);
    shows(&browser, "#key-rows", "alice");
    browser.click("#key-rows button").unwrap();
    shows(&browser, "#key-title", "alice");
    shows(&browser, "#key-state", "Used up");
    shows(&browser, "#key-quotas", "More returns in");
    let svg = browser.run("return document.querySelectorAll('#key-quotas svg').length", &[]);
    assert_eq!(svg.unwrap(), json!(1));
    is_clean(&browser, "key");

    // Nothing is removed before the confirmation.
    browser.click("#key-reset").unwrap();
    shows(&browser, "#confirm-key", "alice");
    browser.click("#confirm-no").unwrap();
    assert!(!daemon.check("api", "alice"));
    browser.click("#key-reset").unwrap();
    browser.click("#confirm-yes").unwrap();
    shows(&browser, "#key-note", "was reset");
    shows(&browser, "#key-state", "5 left");
    assert!(daemon.check("api", "alice"));
    is_clean(&browser, "key-after-reset");

    // Any key can be looked up by its text.
    browser.click("#key-close").unwrap();
    browser.run("document.getElementById('search-policy').value = 'api'", &[]).unwrap();
    browser.type_text("#search-key", "alice\u{E007}").unwrap();
    shows(&browser, "#key-state", "4 left");
}

#[test]
fn hostile_keys_are_shown_as_text_and_secret_keys_as_digests() {
    let folder = Folder::new("dashboard_hostile");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    let hostile = "%3Cimg%20src%3Dx%20onerror%3D%22window.hacked%3D1%22%3E%3C%2Fsvg%3E";
    becomes_hot(&daemon, "api", hostile, "<img src=x onerror=");
    becomes_hot(&daemon, "login", "a-secret-token", "hash:");
    shows(&browser, "#key-rows", "<img src=x onerror=");
    browser.click("#key-rows button").unwrap();
    poll("the dialog", || {
        Ok(browser
            .run("return document.getElementById('key-dialog').open", &[])?
            .as_bool()
            .filter(|open| *open))
    })
    .unwrap();
    let images = "return document.images.length + (window.hacked ? 1 : 0)";
    assert_eq!(browser.run(images, &[]).unwrap(), json!(0));
    let (_, state) = daemon.admin("GET", "/dashboard/state?charts=600");
    assert!(!state.contains("a-secret-token"), "a secret key is shown");
    let everything = browser.run("return document.documentElement.outerHTML", &[]).unwrap();
    assert!(!everything.as_str().unwrap().contains("a-secret-token"));
    is_clean(&browser, "hostile");
}

#[test]
fn a_body_that_is_no_object_is_refused_without_showing_its_values() {
    let folder = Folder::new("dashboard_body");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let admin = daemon.announced("dashboard");
    for body in [r#"[null,"api","alice"]"#, r#"{"policy":"api","key":"alice","width":"alice"}"#] {
        let (status, reply) = post(TcpStream::connect(admin).unwrap(), "/dashboard/key", body);
        assert!(status == 400 && !reply.contains("alice"), "{body}: {status} {reply}");
    }
}

#[test]
fn with_a_token_the_page_asks_for_it_and_nothing_is_shown_or_reset_without_it() {
    let folder = Folder::new("dashboard_token");
    folder.write("admin.token", "an-admin-token-001\n");
    let text = format!("{POLICIES}admin: {{token_file: admin.token}}\n");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &text));
    let admin = daemon.announced("dashboard");
    for path in ["/dashboard/state", "/dashboard/events"] {
        assert_eq!(exchange(TcpStream::connect(admin).unwrap(), "GET", path).0, 401, "{path}");
    }
    daemon.allowed("api", "alice", 5);
    for path in ["/dashboard/key", "/dashboard/reset"] {
        let body = r#"{"policy":"api","key":"alice"}"#;
        assert_eq!(post(TcpStream::connect(admin).unwrap(), path, body).0, 401, "{path}");
    }
    assert!(!daemon.check("api", "alice"), "the key was reset without a token");

    let browser = Browser::start(420, 900).unwrap();
    browser.open(&page(admin)).unwrap();
    shows(&browser, "#sign-in", "Token required");
    // The browser reports the refused request itself.
    let _ = browser.console().unwrap();
    is_clean(&browser, "token");
    browser.type_text("#token", "a-wrong-token-0002\u{E007}").unwrap();
    shows(&browser, "#sign-in-error", "refused");
    browser.type_text("#token", "an-admin-token-001\u{E007}").unwrap();
    shows(&browser, "#status", "live");
    shows(&browser, "#policy-rows", "api");
    let _ = browser.console().unwrap();
    is_clean(&browser, "token-given");
}

#[test]
fn a_failed_reload_and_a_store_that_does_not_reply_are_shown() {
    let folder = Folder::new("dashboard_troubles");
    let mut redis = RedisServer::start().unwrap();
    let shared = format!(
        "stores: {{shared: {{redis: \"redis://127.0.0.1:{}\"}}}}\n\
         policies: [{{name: orders, quotas: [5/hour], store: shared, failure_mode: allow}}]\n",
        redis.port()
    );
    let path = folder.write("limits.yaml", &format!("slidegate: 1\n{shared}"));
    let daemon = Daemon::with_config(&path);
    let browser = opened(&daemon);
    assert!(daemon.check("orders", "alice"));
    shows(&browser, "#store-rows", "reachable");
    shows(&browser, "#store-rows", "closed");

    folder.write("limits.yaml", "slidegate: 1\npolicies: [{name: orders, quotas: [many]}]\n");
    assert_eq!(daemon.admin("POST", "/-/reload").0, 422);
    shows(&browser, "#alerts", "failed");
    shows(&browser, "#alerts", "limits.yaml:2");
    shows(&browser, "#config-status", "1 failed");

    redis.kill().unwrap();
    poll("a degraded decision", || {
        daemon.check("orders", "alice");
        Ok(daemon.metric("rate_limit_degraded_total").filter(|count| *count > 0.0))
    })
    .unwrap();
    poll("the alert", || {
        daemon.check("orders", "alice");
        Ok(browser.text("#alerts")?.contains("does not reply").then_some(()))
    })
    .unwrap();
    is_clean(&browser, "troubles");
}

// The page stays open for days. A line that is added on each update would slow it down in the end.
#[test]
fn a_policy_whose_mode_has_changed_has_one_candidate_line() {
    let folder = Folder::new("dashboard_mode");
    let config = |mode: &str| {
        format!(
            "slidegate: 1\npolicies: \
             [{{name: api, quotas: [5/hour], mode: {mode}, candidate: {{quotas: [2/hour]}}}}]\n"
        )
    };
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &config("shadow")));
    let browser = opened(&daemon);
    daemon.allowed("api", "alice", 3);
    shows(&browser, "#policy-rows tr[data-key='api shadow']", "3 in all");
    folder.write("limits.yaml", &config("enforce"));
    assert_eq!(daemon.admin("POST", "/-/reload").0, 200);
    daemon.allowed("api", "alice", 1);
    shows(&browser, "#policy-rows tr[data-key='api enforce']", "1 in all");
    // Three more updates of the page.
    let count =
        "window.updates = 0; const before = show; show = () => { before(); window.updates += 1; };";
    browser.run(count, &[]).unwrap();
    poll("three updates", || {
        let updates = browser.run("return window.updates", &[])?;
        Ok(updates.as_u64().filter(|updates| *updates >= 3))
    })
    .unwrap();
    let lines =
        "return [...document.querySelectorAll('#rollout-rows li')].map((line) => line.innerText)";
    let lines = browser.run(lines, &[]).unwrap();
    assert_eq!(lines.as_array().unwrap().len(), 1, "{lines}");
}

// A network that is gone closes no connection. A stopped process does not either.
#[test]
fn a_silent_daemon_is_shown_as_lost() {
    let folder = Folder::new("dashboard_silence");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    daemon.signal("STOP");
    shows(&browser, "#status", "no connection");
    daemon.signal("CONT");
    shows(&browser, "#status", "live");
}

// Reset must not delete another key than the one that the dialog names.
#[test]
fn a_late_reply_does_not_replace_the_key_that_was_opened_after_it() {
    let folder = Folder::new("dashboard_race");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    let script = "const real = window.fetch;
        let held = false;
        window.fetch = async (path, options) => {
          const reply = await real(path, options);
          if (path === '/dashboard/key' && !held) {
            held = true;
            await new Promise((resolve) => { window.release = resolve; });
          }
          return reply;
        };
        window.late = showKey({ policy: 'api', key: 'late' });";
    browser.run(script, &[]).unwrap();
    poll("the first reply", || {
        Ok(browser.run("return !!window.release", &[])?.as_bool().filter(|held| *held))
    })
    .unwrap();
    browser.run("showKey({ policy: 'api', key: 'shown' });", &[]).unwrap();
    shows(&browser, "#key-title", "shown");
    browser
        .run_async(
            "const done = arguments[0]; window.release(); window.late.then(() => done(null));",
        )
        .unwrap();
    assert_eq!(browser.text("#key-title").unwrap(), "shown");
}
