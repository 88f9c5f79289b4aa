//! What is read from files: every format, compressed or not, damaged or out of order.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use slidegate_sim::read::{Extracted, LineOptions, LinePattern, LogReader, ReadCounts, Timed};

/// Lines of the log in this folder, and how many of them are requests.
const LINES: u64 = 403;
const REQUESTS: usize = 400;

fn log() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulate/files/access.log");
    std::fs::read_to_string(path).unwrap()
}

fn write(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Client and path of every request.
fn read(
    paths: &[PathBuf],
    options: LineOptions,
    disorder_ms: u64,
) -> (Vec<Timed<(String, String)>>, ReadCounts) {
    let mut reader = LogReader::open(paths, options, disorder_ms).unwrap();
    let (mut all, mut part) = (Vec::new(), Vec::new());
    loop {
        reader.fill(&mut part, 7, |record| {
            let client = record.client.as_deref().or(record.user.as_deref());
            let client = client.map_or_else(|| record.field("key").unwrap().into(), str::to_owned);
            Extracted::Request((client, record.path().unwrap_or_default().to_owned()))
        });
        if part.is_empty() {
            return (all, reader.counts().clone());
        }
        all.append(&mut part);
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

#[test]
fn compressed_logs_in_any_number_of_members_are_read_as_the_plain_one() {
    let text = log();
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    // A zstd stream may contain frames that are to be skipped.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let plain = write("plain.log", text.as_bytes());
    let (expected, counts) = read(&[plain], LineOptions::default(), 10_000);
    assert_eq!(expected.len(), REQUESTS);
    assert_eq!((counts.lines, counts.unreadable, counts.late), (LINES, 2, 0));
    assert_eq!(counts.unreadable_examples[0].line, 51);
    assert!(expected.is_sorted_by_key(|request| request.at_ms));
    for (name, content) in [
        ("one.gz", gzip(text.as_bytes())),
        ("two.gz", [gzip(first), gzip(second)].concat()),
        ("one.zst", zstd(text.as_bytes())),
        ("two.zst", [zstd(first), skipped, zstd(second)].concat()),
    ] {
        let (requests, counts) = read(&[write(name, &content)], LineOptions::default(), 10_000);
        assert_eq!(requests, expected, "{name}");
        assert_eq!((counts.unreadable, counts.incomplete.len()), (2, 0), "{name}");
    }
}

#[test]
fn a_truncated_file_is_reported_and_read_as_far_as_possible() {
    // More than one block of zstd, which is decompressed whole or not at all.
    let text = log().repeat(20);
    for (name, mut content) in
        [("cut.gz", gzip(text.as_bytes())), ("cut.zst", zstd(text.as_bytes()))]
    {
        content.truncate(content.len() * 2 / 3);
        let (requests, counts) = read(&[write(name, &content)], LineOptions::default(), 10_000);
        assert!((1..20 * REQUESTS).contains(&requests.len()), "{name}: {}", requests.len());
        assert_eq!(counts.incomplete.len(), 1, "{name}");
        assert!(counts.incomplete[0].contains(name), "{:?}", counts.incomplete);
    }
}

#[test]
fn files_that_overlap_are_merged_by_time() {
    let text = log();
    let lines: Vec<&str> = text.lines().collect();
    let part = |odd: usize| {
        let lines: Vec<&str> = lines.iter().skip(odd).step_by(2).copied().collect();
        write(&format!("part-{odd}.log"), lines.join("\n").as_bytes())
    };
    let (requests, counts) = read(&[part(1), part(0)], LineOptions::default(), 10_000);
    assert_eq!((requests.len(), counts.late), (REQUESTS, 0));
    assert!(requests.is_sorted_by_key(|request| request.at_ms));
}

#[test]
fn requests_beyond_the_bound_are_counted_as_late_and_none_is_lost() {
    let plain = write("disorder.log", log().as_bytes());
    let (requests, counts) = read(&[plain], LineOptions::default(), 0);
    assert_eq!(requests.len(), REQUESTS);
    assert!(counts.late > 0);
    assert!(requests.is_sorted_by_key(|request| request.at_ms));
}

#[test]
fn json_csv_and_other_texts_give_the_same_requests() {
    let json = r#"{"time":"2026-01-31T22:59:59Z","remote_addr":"203.0.113.9","request_uri":"/a?x"}
not json
{"time":"2026-01-31T22:59:58.5Z","remote_addr":"203.0.113.8","request_uri":"/b"}"#;
    let csv =
        "ts,ip,url\n1769900399,203.0.113.9,/a?x\n1769900399\n1769900398.5,203.0.113.8,\"/b\"\n";
    let other = "22:59:59.0 on 31.01.2026: 203.0.113.9 wants /a?x\n\u{0}\n22:59:58.5 on 31.01.2026: 203.0.113.8 wants /b\n";
    let pattern = r"^(?<time>\S+ on \S+): (?<client>\S+) wants (?<path>\S+)$";
    let of_other = LineOptions {
        pattern: Some(LinePattern::new(pattern).unwrap()),
        time_format: Some("%H:%M:%S%.f on %d.%m.%Y".to_owned()),
        ..LineOptions::default()
    };
    let request = |at_ms: u64, client: &str, path: &str| Timed {
        at_ms,
        item: (client.to_owned(), path.to_owned()),
    };
    let expected = [
        request(1_769_900_398_500, "203.0.113.8", "/b"),
        request(1_769_900_399_000, "203.0.113.9", "/a"),
    ];
    for (name, text, options) in [
        ("log.json", json, LineOptions::default()),
        ("log.csv", csv, LineOptions::default()),
        ("other.txt", other, of_other),
    ] {
        let (requests, counts) = read(&[write(name, text.as_bytes())], options, 1000);
        assert_eq!(requests, expected, "{name}");
        assert_eq!(counts.unreadable, 1, "{name}: {counts:?}");
    }
}

#[test]
fn traces_of_the_conformance_tests_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let path = folder.join("fixed-boundary-leak.json");
    let reader =
        LogReader::<()>::open(std::slice::from_ref(&path), LineOptions::default(), 0).unwrap();
    assert_eq!(reader.trace_quotas().len(), 1);
    let (requests, counts) = read(&[path], LineOptions::default(), 0);
    assert!(!requests.is_empty());
    assert_eq!((counts.unreadable, &*requests[0].item.0), (0, "k"));
}

#[test]
fn a_missing_file_is_named() {
    let missing = [PathBuf::from("no/such.log")];
    let error = LogReader::<()>::open(&missing, LineOptions::default(), 0).unwrap_err();
    assert!(error.contains("no/such.log"), "{error}");
}
