//! The HTML reports of `simulate` and `bench`, in a browser without a network.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use slidegate_testkit::server::Browser;

use super::is_clean;
use crate::process::{Daemon, Folder, output};

/// A log of 403 lines.
fn log() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/simulate/files/access.log")
}

/// Runs a command that writes a report. Returns its JSON.
fn report(arguments: &[&str], page: &Path) -> Value {
    let output = output(&[arguments, &["--json", "--html", page.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Opens a report on a wide screen and on a phone. Returns its text.
fn read(browser: &Browser, page: &Path, name: &str) -> String {
    let mut text = String::new();
    for width in [390, 1280] {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.devtools("Emulation.setDeviceMetricsOverride", &size).unwrap();
        browser.open(&format!("file://{}", page.display())).unwrap();
        if width > 400 {
            is_clean(browser, name);
        }
        let script = "return [performance.getEntriesByType('resource').length, \
             document.scripts.length, document.documentElement.scrollWidth - window.innerWidth, \
             document.querySelectorAll('figure svg').length, document.body.innerText]";
        let found = browser.run(script, &[]).unwrap();
        assert_eq!((&found[0], &found[1]), (&json!(0), &json!(0)), "{name} loads something");
        assert!(found[2].as_i64().unwrap() <= 0, "{name} is wider than {width} pixels");
        assert!(found[3].as_u64().unwrap() >= 2, "{name} has no plots");
        found[4].as_str().unwrap().clone_into(&mut text);
    }
    text
}

#[test]
fn reports_open_without_a_network_and_show_their_numbers() {
    let folder = Folder::new("reports");
    let browser = Browser::start(1280, 900).unwrap();
    browser.devtools("Network.enable", &json!({})).unwrap();
    let offline =
        json!({"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0});
    browser.devtools("Network.emulateNetworkConditions", &offline).unwrap();
    let (log, page) = (log(), folder.path("report.html"));
    let log = log.to_str().unwrap();

    let algorithms = ["simulate", log, "--quota", "10/minute", "--what-if", "20/minute"];
    let json = report(&[&algorithms[..], &["--advise", "keys=1%"]].concat(), &page);
    let text = read(&browser, &page, "simulate");
    for number in [&json["requests"], &json["keys"], &json["unreadable"]] {
        assert!(text.contains(&number.to_string()), "{number}: {text}");
    }
    assert!(text.contains(json["advice"][0]["quota"].as_str().unwrap()), "{text}");
    assert!(text.contains(json["algorithms"][0]["hits"][0]["key"].as_str().unwrap()), "{text}");

    let file = |name: &str, quota: &str| {
        let rule = "rules: [{name: all, key: [address], policy: api}]";
        let text = format!("slidegate: 1\npolicies: [{{name: api, quotas: [{quota}]}}]\n{rule}\n");
        folder.write(name, &text).to_str().unwrap().to_owned()
    };
    let (old, new) = (file("old.yaml", "10/minute"), file("new.yaml", "20/minute"));
    let json = report(&["simulate", log, "--config", &old, "--compare", &new], &page);
    let text = read(&browser, &page, "configs");
    let only = &json["comparison"]["only_first_denied"];
    assert!(only.as_u64() > Some(0) && text.contains(&only.to_string()), "{only}: {text}");

    let config = "slidegate: 1\npolicies: [{name: leaky, quotas: [5/second], algorithm: fixed}]\n";
    let daemon = Daemon::with_config(&folder.write("limits.yaml", config));
    let target = format!("http://{}", daemon.http);
    let load = ["--policy", "leaky", "--quota", "5/second", "--keys", "2", "--rate", "50"];
    let json = report(&[&["bench", &target, "--for", "3s"][..], &load].concat(), &page);
    let text = read(&browser, &page, "bench");
    let wrong = &json["wrong"];
    let words = format!("({} requests wrongly allowed)", wrong["wrongly_allowed"]);
    assert!(text.contains(&words), "{words}: {text}");
    for (name, value) in json["latency"].as_object().unwrap() {
        let name = name.replace('_', ".");
        assert!(text.contains(&name), "{name}: {text}");
        let value = value.as_f64().unwrap();
        let is_shown = times(&text).any(|shown| (shown - value).abs() <= value * 0.06);
        assert!(is_shown, "no time is about {value} s: {text}");
    }
}

/// The times in a text, in seconds: `1.5 ms` is 0.0015.
fn times(text: &str) -> impl Iterator<Item = f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs: Vec<[&str; 2]> = words.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.into_iter().filter_map(|[number, unit]| {
        let factor = match unit {
            "s" => 1.0,
            "ms" => 1e-3,
            "\u{b5}s" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        Some(number.parse::<f64>().ok()? * factor)
    })
}
