//! The dashboard that `docs/dashboard.md` describes, in a real browser, and the numbers that it shares
//! with everything else.

mod numbers;
mod page;
mod reader;
mod reports;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use slidegate_testkit::server::{Browser, poll};

use crate::process::Daemon;

const POLICIES: &str = "slidegate: 1
policies:
  - {name: api, quotas: [5/hour]}
  - {name: login, quotas: [3/hour], secret_keys: true}
  - {name: search, quotas: [2/hour], mode: shadow}
  - {name: exports, quotas: [4/hour], candidate: {quotas: [2/hour]}}
";

/// Waits until the element contains the text.
fn shows(browser: &Browser, selector: &str, text: &str) {
    let mut last = String::new();
    poll(text, || {
        last = browser.text(selector)?;
        Ok(last.contains(text).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error}: {selector} shows {last:?}"));
}

fn state(daemon: &Daemon) -> Value {
    let (status, body) = daemon.admin("GET", "/dashboard/state");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn policy<'a>(state: &'a Value, name: &str) -> &'a Value {
    state["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == name).unwrap()
}

/// Sends checks until the state document lists a key.
fn becomes_hot(daemon: &Daemon, policy: &str, key: &str, shown: &str) {
    poll(shown, || {
        daemon.check(policy, key);
        let state = state(daemon);
        let keys = state["keys"]["hottest"].as_array().unwrap();
        Ok(keys.iter().any(|key| key["key"].as_str().unwrap().contains(shown)).then_some(()))
    })
    .unwrap();
}

fn page(address: SocketAddr) -> String {
    format!("http://{address}/dashboard")
}

/// Opens the page of a daemon, and waits until it is live.
fn opened(daemon: &Daemon) -> Browser {
    let browser = Browser::start(1280, 1000).unwrap();
    browser.open(&page(daemon.announced("dashboard"))).unwrap();
    shows(&browser, "#status", "live");
    browser
}

/// Checks the console, and the rules of axe-core, light and dark. Pictures of the page are written to
/// `target/tmp/dashboard`, to be looked at.
fn is_clean(browser: &Browser, name: &str) {
    let errors = browser.console().unwrap();
    assert!(errors.iter().all(|line| line["level"] != "SEVERE"), "{name}: {errors:#?}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    std::fs::create_dir_all(&folder).unwrap();
    for scheme in ["dark", "light"] {
        let scheme_is = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.devtools("Emulation.setEmulatedMedia", &json!({"features": scheme_is})).unwrap();
        browser.screenshot(&folder.join(format!("{name}-{scheme}.png"))).unwrap();
        let found = browser.accessibility().unwrap();
        let found_in = serde_json::to_string_pretty(&found).unwrap();
        assert!(found.is_empty(), "{name}, {scheme}: {found_in}");
    }
}
