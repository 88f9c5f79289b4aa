//! `slidegate simulate` as a process: what it prints, and how it ends. The commands are those
//! of `docs/simulate.md`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The log that the simulation's own tests read.
fn log() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/simulate/files/access.log")
}

/// An empty directory for a test.
fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("slidegate-simulate-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slidegate"));
    command.env_clear().arg("simulate").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = simulate(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_the_documented_fields_and_the_exact_log_is_never_wrong() {
    let log = log();
    let report =
        json(&[log.to_str().unwrap(), "--quota", "10/minute", "--key", "client", "--json"]);
    assert_eq!((&report["requests"], &report["keys"]), (&400.into(), &21.into()));
    assert_eq!(report["unreadable"], 2);
    assert_eq!(report["unreadable_examples"][0]["line"], 51);
    let algorithms = report["algorithms"].as_array().unwrap();
    let names: Vec<&str> = algorithms.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["log", "counter", "segments: 2", "segments: 10", "segments: 60", "gcra", "fixed"];
    assert_eq!(names, expected);
    for algorithm in algorithms {
        for field in
            ["allowed", "denied", "wrongly_allowed", "wrongly_denied", "worst_excess", "bytes"]
        {
            assert!(algorithm[field].is_u64(), "{field}: {algorithm}");
        }
        let sum = algorithm["allowed"].as_u64().unwrap() + algorithm["denied"].as_u64().unwrap();
        assert_eq!(sum, 400);
    }
    let exact = &algorithms[0];
    assert_eq!((&exact["wrongly_allowed"], &exact["wrongly_denied"]), (&0.into(), &0.into()));
    assert_eq!(exact["hits"][0]["key"], "203.0.113.9");
    assert_eq!((&exact["hits"][0]["denied"], &exact["denied"]), (&30.into(), &31.into()));
}

#[test]
fn filters_keys_and_what_if_change_what_is_counted() {
    let log = log();
    let log = log.to_str().unwrap();
    let login = ["--path", "/login", "--status", "4xx", "--method", "POST", "--key", "user"];
    let mut arguments =
        vec![log, "--quota", "10/minute", "--json", "--what-if", "20/minute,40/minute"];
    arguments.extend(login);
    let report = json(&arguments);
    assert_eq!((&report["requests"], &report["keys"]), (&40.into(), &1.into()));
    let denied = |place: usize| report["what_if"][place]["denied"].as_u64();
    assert_eq!((denied(0), denied(1)), (Some(20), Some(0)));
    assert!(report["filtered"].as_u64().unwrap() + report["without_key"].as_u64().unwrap() >= 360);
}

#[test]
fn standard_input_and_a_pattern_are_read_and_the_table_shows_what_was_not() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_slidegate"))
        .args(["simulate", "-", "--quota", "1/s", "--pattern", r"^(?<time>\d+) (?<key>\w+)$"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "1769900399 alice\n1769900399 alice\nnonsense\n1769900400 bob\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("3 requests by 2 keys"), "{text}");
    assert!(text.contains("1 unreadable lines"), "{text}");
    assert!(text.contains("standard input, line 3: the pattern does not match"), "{text}");
    assert!(text.contains("alice"), "{text}");
    // No progress bar off a terminal.
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn file_patterns_time_formats_and_key_templates_are_used() {
    let folder = folder("pattern");
    let lines = |user: &str| {
        let line =
            |minute: u32| format!("31.01.2026 22:{minute:02}:59 {user} GET /users/{minute}\n");
        (10..13).map(line).collect::<String>()
    };
    std::fs::write(folder.join("part-1.txt"), lines("alice")).unwrap();
    std::fs::write(folder.join("part-2.txt"), lines("bob") + "nonsense\n").unwrap();
    std::fs::write(folder.join("other.txt"), lines("carol")).unwrap();
    let report = json(&[
        folder.join("part-*.txt").to_str().unwrap(),
        "--pattern",
        r"^(?<time>\S+ \S+) (?<user>\S+) (?<method>\S+) (?<path>\S+)$",
        "--time-format",
        "%d.%m.%Y %H:%M:%S",
        "--key",
        "{user} {method} {route}",
        "--quota",
        "1/hour",
        "--json",
    ]);
    assert_eq!((&report["requests"], &report["keys"]), (&6.into(), &2.into()), "{report:#}");
    assert_eq!(report["unreadable"], 1);
    assert_eq!(report["from"], "2026-01-31T22:10:59Z");
    let hits = report["algorithms"][0]["hits"].as_array().unwrap();
    let mut keys: Vec<&str> = hits.iter().map(|hit| hit["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["alice GET /users/:id", "bob GET /users/:id"]);
}

#[test]
fn traces_have_their_own_limits() {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance");
    let report = json(&[&format!("{traces}/fixed-boundary-leak.json"), "--json"]);
    assert!(!report["quotas"].as_array().unwrap().is_empty(), "{report:#}");
    let worst = |name: &str| {
        let algorithms = report["algorithms"].as_array().unwrap();
        let algorithm = algorithms.iter().find(|algorithm| algorithm["name"] == name);
        algorithm.unwrap()["worst_excess"].as_u64().unwrap()
    };
    assert_eq!(worst("log"), 0);
    assert!(worst("fixed") > 0);
}

#[test]
fn errors_say_what_is_wrong_and_what_is_allowed() {
    let log = log();
    let log = log.to_str().unwrap();
    for (arguments, code, expected) in [
        (&[log][..], 2, "--quota 10/minute"),
        (&["--quota", "10/minute"], 2, "--traffic"),
        (&[log, "--quota", "ten"], 2, "such as 100/minute"),
        (&[log, "--quota", "10/minute", "--key", "ip"], 2, "client, user, route"),
        (&[log, "--quota", "10/minute", "--status", "x"], 2, "404, 4xx or 500-599"),
        (&[log, "--quota", "10/minute", "--field", "x=y"], 2, "time, client"),
        (&["--traffic", "storm", "--quota", "10/minute"], 2, "boundary, steady"),
        (&["no/such.log", "--quota", "10/minute"], 1, "no/such.log"),
        (&["no/such*.log", "--quota", "10/minute"], 1, "no file matches"),
        (&[log, "--quota", "10/minute", "--path", "/none"], 1, "400 were left out"),
    ] {
        let output = simulate(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn advice_is_the_smallest_limit_and_its_configuration_is_valid() {
    let log = log();
    let report = json(&[
        log.to_str().unwrap(),
        "--quota",
        "10/minute",
        "--advise",
        "keys=0,requests=5%",
        "--json",
    ]);
    let folder = folder("advice");
    for (place, advice) in report["advice"].as_array().unwrap().iter().enumerate() {
        let quota = advice["quota"].as_str().unwrap();
        let replay =
            json(&[log.to_str().unwrap(), "--quota", quota, "--algorithm", "log", "--json"]);
        assert_eq!(replay["algorithms"][0]["denied"], advice["denied"], "{quota}");
        assert_eq!(replay["algorithms"][0]["keys_denied"], advice["keys_denied"], "{quota}");
        let (share, less) = (&advice["denied_share"], &advice["one_less"]);
        if place == 0 {
            assert_eq!(advice["keys_denied"], 0);
            assert!(less["keys_denied"].as_u64().unwrap() > 0);
        } else {
            assert!(share.as_f64().unwrap() <= 0.05);
            assert!(less["denied_share"].as_f64().unwrap() > 0.05);
        }
        let file = folder.join("advised.yaml");
        std::fs::write(&file, advice["yaml"].as_str().unwrap()).unwrap();
        let checked = Command::new(env!("CARGO_BIN_EXE_slidegate"))
            .args(["config", "check", "--deny-warnings"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        // The rules of the advised file deny as many requests.
        let file = file.to_str().unwrap();
        let by_file = json(&[log.to_str().unwrap(), "--config", file, "--json"]);
        assert_eq!(by_file["configs"][0]["denied"], advice["denied"]);
        assert_eq!(by_file["configs"][0]["rules"][0]["keys_denied"], advice["keys_denied"]);
    }
}

#[test]
fn two_files_are_compared_and_the_page_shows_the_numbers_of_the_json() {
    let log = log();
    let log = log.to_str().unwrap();
    let folder = folder("compare");
    let file = |name: &str, quota: &str, mode: &str| {
        let text = format!(
            "slidegate: 1\npolicies:\n  - {{name: api, quotas: [{quota}], mode: {mode}}}\nrules:\n  - {{name: all, \
             key: [address], policy: api}}\n"
        );
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, new) =
        (file("old.yaml", "10/minute", "enforce"), file("new.yaml", "20/minute", "enforce"));
    let page = folder.join("report.html");
    let page = page.to_str().unwrap();
    let report = json(&[log, "--config", &old, "--compare", &new, "--json", "--html", page]);
    let denied = |place: usize| report["configs"][place]["denied"].as_u64().unwrap();
    assert_eq!(denied(0), 31);
    assert!(denied(1) < denied(0));
    assert_eq!(report["comparison"]["only_first_denied"], denied(0) - denied(1));
    assert_eq!(report["comparison"]["only_second_denied"], 0);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains(&format!("<td class=\"number warning\">{}</td>", denied(1))), "{html}");

    let shadow = file("shadow.yaml", "10/minute", "shadow");
    let report = json(&[log, "--config", &shadow, "--json"]);
    assert_eq!(report["configs"][0]["denied"], 0);
    assert_eq!(report["configs"][0]["rules"][0]["would_deny"], 31);
}

#[test]
fn the_chart_of_the_window_is_the_one_in_the_readme() {
    let folder = folder("chart");
    let chart = folder.join("boundary.svg");
    let path = chart.to_str().unwrap();
    let traffic = ["--traffic", "boundary:requests=20,keys=1", "--quota", "5/minute"];
    let report =
        json(&[&traffic[..], &["--algorithm", "fixed,log", "--json", "--svg", path]].concat());
    assert_eq!(report["algorithms"][0]["worst_excess"], 5);
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/boundary.svg");
    let expected = std::fs::read_to_string(docs).unwrap();
    assert_eq!(std::fs::read_to_string(chart).unwrap(), expected, "draw docs/boundary.svg again");
}

#[test]
fn too_many_requests_for_a_chart_are_an_error() {
    let path = folder("no_chart").join("chart.svg");
    let output = simulate(&[
        "--traffic",
        "steady:requests=1000",
        "--quota",
        "5/minute",
        "--svg",
        path.to_str().unwrap(),
    ]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("replay at most 500"), "{error}");
    assert!(!path.exists());
}

#[test]
fn the_page_shows_the_numbers_of_the_json_and_refers_to_nothing_outside() {
    let log = log();
    let folder = folder("page");
    let page = folder.join("report.html");
    let report = json(&[
        log.to_str().unwrap(),
        "--quota",
        "10/minute",
        "--what-if",
        "20/minute",
        "--json",
        "--html",
        page.to_str().unwrap(),
    ]);
    let html = std::fs::read_to_string(page).unwrap();
    for algorithm in report["algorithms"].as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let row =
            html.split("<tr>").find(|row| row.contains(&format!("<th scope=\"row\">{name}</th>")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        for field in ["allowed", "denied", "wrongly_allowed", "wrongly_denied", "worst_excess"] {
            assert!(row.contains(&format!(">{}</td>", algorithm[field])), "{field}: {row}");
        }
    }
    assert!(html.contains("203.0.113.9"));
    assert!(!html.contains("src=") && !html.contains("<script") && !html.contains("<link"));
}

#[test]
fn late_requests_count_at_the_time_of_their_replay() {
    // Five clients with 100 requests per minute each. The second half of the log is of five others, a day before.
    let line = |number: u32| {
        let (day, client) = (2 - number / 10_000, number / 10_000 * 5 + number % 5);
        let number = number % 10_000;
        let second = number * 3 / 25;
        let (minute, second) = (second / 60, second % 60);
        let text =
            format!("203.0.113.{client} - - [0{day}/Jan/2026:10:{minute:02}:{second:02} +0000]");
        text + " \"GET / HTTP/1.1\" 200 5\n"
    };
    let file = folder("late").join("access.log");
    std::fs::write(&file, (0..20_000).map(line).collect::<String>()).unwrap();
    let report = json(&[
        file.to_str().unwrap(),
        "--quota",
        "10/minute",
        "--algorithm",
        "log",
        "--advise",
        "requests=50%",
        "--json",
    ]);
    assert_eq!((&report["late"], &report["keys"]), (&10_000.into(), &10.into()), "{report:#}");
    let exact = &report["algorithms"][0];
    for field in
        ["wrongly_allowed", "wrongly_denied", "allowed_unlike_exact", "denied_unlike_exact"]
    {
        assert_eq!(exact[field], 0, "{field}: {exact}");
    }
    assert_eq!(exact["mean_rate_error"], 0.0);
    // The advice comes from a replay of its own.
    let limit = report["advice"][0]["quota"].as_str().unwrap();
    let advised = json(&[file.to_str().unwrap(), "--quota", limit, "--algorithm", "log", "--json"]);
    assert_eq!(advised["algorithms"][0]["denied"], report["advice"][0]["denied"], "{report:#}");
}

#[test]
fn clients_of_envoy_are_addresses_without_the_port_of_their_connection() {
    let line = |client: &str| {
        format!(
            "{{\"start_time\":\"2026-01-31T22:59:59.000Z\",\"downstream_remote_address\":\"{client}\",\"method\":\"GET\",\"path\":\"/\"}}\n"
        )
    };
    let folder = folder("envoy");
    let (log, config) = (folder.join("envoy.json"), folder.join("slidegate.yaml"));
    let clients = ["203.0.113.9:50312", "203.0.113.9:50313", "[2001:db8::1]:443", "2001:db8::1"];
    std::fs::write(&log, clients.map(line).concat()).unwrap();
    let rules = "slidegate: 1\npolicies: [{name: api, quotas: [1/minute]}]\n\
                 rules: [{name: all, key: [address], policy: api}]\n";
    std::fs::write(&config, rules).unwrap();
    let log = log.to_str().unwrap();
    let report = json(&[log, "--quota", "1/minute", "--algorithm", "log", "--json"]);
    assert_eq!((&report["keys"], &report["algorithms"][0]["denied"]), (&2.into(), &2.into()));
    let report = json(&[log, "--config", config.to_str().unwrap(), "--json"]);
    assert_eq!((&report["requests"], &report["without_key"]), (&4.into(), &0.into()), "{report:#}");
    assert_eq!(report["configs"][0]["denied"], 2, "{report:#}");
}

#[test]
fn a_named_column_of_times_makes_a_log_recognizable_as_csv() {
    let file = folder("csv").join("requests.csv");
    std::fs::write(&file, "when,client\n1769900399,alice\n1769900400,bob\n").unwrap();
    let report =
        json(&[file.to_str().unwrap(), "--quota", "1/s", "--field", "time=when", "--json"]);
    assert_eq!((&report["requests"], &report["unreadable"]), (&2.into(), &0.into()), "{report:#}");
}

#[test]
fn the_rate_of_built_in_traffic_is_that_of_its_requests() {
    for pattern in ["boundary", "bursts", "poisson", "flash-crowd", "brute-force"] {
        let traffic = format!("{pattern}:requests=5000,keys=5");
        let report = json(&["--traffic", &traffic, "--quota", "10/minute", "--json"]);
        // Within one day: 2026-01-01T00:00:57.5Z.
        let time = |name: &str| {
            let time = report[name].as_str().unwrap()[11..].trim_end_matches('Z');
            let parts = time.split(':').map(|part| part.parse::<f64>().unwrap());
            parts.fold(0.0, |sum, part| sum * 60.0 + part)
        };
        let rate = 5000.0 / (time("until") - time("from"));
        let expected = format!("{pattern} traffic, {rate:.2} requests per second");
        assert_eq!(report["input"], expected);
    }
    let output = simulate(&["--traffic", "boundary:rate=500", "--quota", "10/minute"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("boundary") && error.contains("rate"), "{error}");
}
