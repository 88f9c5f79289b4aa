//! Files that are not meant well: nothing panics, nothing takes long, nothing grows.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use slidegate_server::config::report::write_json;
use slidegate_server::config::{Format, Request, load};

use crate::files::{codes, path};

/// Loads bytes as a file of every format; what comes out does not matter, that it does, does.
fn load_as_all(folder: &str, bytes: &[u8]) {
    let folder = std::env::temp_dir().join(format!("slidegate-{folder}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.yaml");
    fs::write(&file, bytes).unwrap();
    for format in [None, Some(Format::Native), Some(Format::Sliding), Some(Format::Envoy)] {
        let mut request = Request::new([file.clone()]);
        request.format = format;
        request.envoy_extensions = true;
        match load(&request) {
            Ok(loaded) => drop(format!("{loaded:?}")),
            Err(refused) => drop(refused.to_string()),
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

fn fixtures() -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = vec![path("../../../examples/slidegate.yaml")];
    for folder in ["native", "envoy", "sliding"] {
        let entries = fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|entry| entry.is_file()));
    }
    files.sort();
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Pieces that mean something to YAML or to us.
const PIECES: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "\n",
    "  ",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "!x ",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "? ",
    "\t",
    "\u{feff}",
    "\u{0}",
    "ä",
    "*",
    "null",
    "-1",
    "99999999999999999999",
    "1e999",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        load_as_all("bytes", &bytes);
    }

    #[test]
    fn pieces_of_yaml(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60)) {
        load_as_all("pieces", pieces.concat().as_bytes());
    }

    #[test]
    fn good_files_with_something_changed(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(&PIECES[..])), 1..6),
    ) {
        let fixtures = fixtures();
        let mut bytes = which.get(&fixtures).clone();
        for (at, drop, piece) in changes {
            let at = at.index(bytes.len() + 1);
            let end = (at + drop).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        load_as_all("changed", &bytes);
    }
}

/// The codes for a text of the format that its keys say.
fn codes_of(name: &str, text: &str) -> Vec<&'static str> {
    let folder = std::env::temp_dir().join(format!("slidegate-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.yaml");
    fs::write(&file, text).unwrap();
    let found = match load(&Request::new([file])) {
        Ok(loaded) => codes(&loaded.warnings),
        Err(refused) => codes(&refused.findings),
    };
    fs::remove_dir_all(&folder).unwrap();
    found
}

// Ten lines that would be ten thousand million values.
#[test]
fn aliases_of_aliases_are_bounded() {
    let mut text = "slidegate: 1\na0: &a0 [x]\n".to_owned();
    for level in 1..=10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    assert_eq!(codes_of("bomb", &text), ["yaml"]);
}

#[test]
fn nesting_is_bounded() {
    for (name, text) in [
        ("flow", format!("slidegate: 1\na: {}", "[".repeat(100_000))),
        ("block", (0..1000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n")),
        ("dashes", format!("a:\n{}b", "- ".repeat(10_000))),
        ("questions", "? ".repeat(10_000)),
    ] {
        assert_eq!(codes_of(name, &text), ["yaml"], "{name}");
    }
}

// The largest file with as many errors as possible: the first findings are reported, and a count.
#[test]
fn findings_are_bounded() {
    let line = "- {name: 1, nonsense: 2}\n";
    let text = format!("slidegate: 1\nrules:\n{}", line.repeat(900));
    let found = codes_of("findings", &text);
    assert_eq!((found.len(), found.last()), (101, Some(&"more")));
    let line = "x: y\n";
    let text = format!("slidegate: 1\n{}", line.repeat(200_000));
    assert!(codes_of("lines", &text).len() <= 101);
}

// What a terminal would obey must not come out of a file.
#[test]
fn control_characters_are_not_shown() {
    let folder = std::env::temp_dir().join(format!("slidegate-control-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("file.yaml");
    fs::write(
        &file,
        "slidegate: 1\n\"\\e[31mred\": \"\\u001b]0;title\\u0007\"\nlog: {level: \"\\e[2J\"}\n",
    )
    .unwrap();
    let refused = load(&Request::new([file])).unwrap_err();
    let text = refused.to_string();
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
    fs::remove_dir_all(&folder).unwrap();
}

/// A text in the notation of YAML with an escape for each character.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "\\x{byte:02x}");
        all
    })
}

/// Files with a password, and an error on its line, next to it or in it.
fn files_with(password: &str) -> Vec<String> {
    let single = password.replace('\'', "''");
    let double = password.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = escaped(password);
    let store = |text: String| format!("stores: {{s: {{{text}}}}}\n");
    vec![
        store(format!("redis: 'redis://me:{single}@h:1', bad: 1")),
        store(format!("redis: 'redys://me:{single}@h:1'")),
        store(format!("redis: \"me:{double}@h:1\"")),
        store(format!("redis: 'redis://h', password: '{single}', bad: 1")),
        store(format!("bad: 1, password: \"{double}\", redis: 'redis://:x,y@h'")),
        store(format!("bad: 1, password: \"{escaped}\", redis: 1")),
        store(format!("cluster: ['redis://a', 'redys://:{single}@b', 'redis://u:{single}@b']")),
        store(format!(
            "sentinel: {{addresses: ['redys://:{single}@b'], service: m, pasword: '{single}'}}"
        )),
        store(format!("redis: 'redis://h', password: ['{single}'], passwd: {{a: '{single}'}}")),
        store(format!("redis: 'redis://h', password: !x '{single}'")),
        store(format!("redis: 'redis://h', password: '{single}' x")),
        format!("stores:\n  s:\n    redis: 'redis://:{single}@h' bad\n"),
        format!("stores:\n  s:\n    password: \"{double}\n    bad: [1\n"),
        format!("stores:\n  s:\n    pasword: |\n      {password}\n    bad\n"),
        format!("stores:\n  s:\n    password: >-\n      {password}\n   bad: 1\n"),
        format!("x: &p '{single}'\nstores: {{s: {{password: *p, redis: 1}}}}\n"),
        format!("access: {{tokens: ['{single}'], anonymous: 5}}\n"),
        format!("access: {{token: '{single}'}}\n"),
        format!("rules: [{{match: {{header: {{authorization: '{single}', bad: [1]}}}}}}]\n"),
        format!("listen: {{http: 1}}\n---\npassword: '{single}'\n"),
        format!("{{\"stores\": {{\"s\": {{\"password\": \"{double}\", \"bad\": 1}}}}}}"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_password_is_shown(password in "[!-~][ -~]{4,18}[!-~]") {
        let folder = std::env::temp_dir().join(format!("slidegate-secret-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file.yaml");
        let mut shown = Vec::new();
        for text in files_with(&password) {
            fs::write(&file, &text).unwrap();
            let Err(invalid) = load(&Request::new([file.clone()])) else {
                panic!("no error in {text}");
            };
            shown.push((text, invalid));
        }
        let variables = [
            ("REDIS_URL", format!("redys://me:{password}@h:1")),
            ("REDIS_URL", format!("me:{password}@h:1")),
            ("REDIS_AUTH", password.clone()),
            ("REDIS_AUTH", format!("me:{password}")),
            ("REDIS_SENTINEL_AUTH", password.clone()),
            ("SLIDEGATE_ACCESS_TOKENS", password.clone()),
        ];
        for (name, value) in variables {
            let mut request = Request::new([path("envoy/wildcard.yaml")]);
            let set = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let list = [("REDIS_TYPE", "no"), (name, value.as_str())];
            request.environment = list.into_iter().map(set).collect();
            if let Err(invalid) = load(&request) {
                shown.push((format!("{name}={value}"), invalid));
            }
        }
        fs::remove_dir_all(&folder).unwrap();
        let escaped = escaped(&password);
        for (text, invalid) in shown {
            let mut json = Vec::new();
            write_json(&mut json, &invalid.findings).unwrap();
            let all = format!("{invalid}\n{invalid:?}\n{}", String::from_utf8(json).unwrap());
            // Quotes and backslashes are escaped in some of the forms.
            for secret in [&password, &escaped, &password.replace('\'', "''")] {
                prop_assert!(!all.contains(secret.as_str()), "{text}\n{all}");
            }
        }
    }
}
