//! Rule for the conformance traces: a minimum number, and each is one JSON object.

use super::Finding;
use super::tree::File;

/// The minimum number of traces. With fewer, a trace was lost.
const TRACES_MIN: usize = 60;

const FOLDER: &str = "conformance";

pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let mut count = 0;
    for file in files.iter().filter(|file| file.folder() == FOLDER && file.extension() == "json") {
        count += 1;
        if !is_one_object(&file.text) {
            findings.push(Finding::new(file, 0, "is not one JSON object"));
        }
    }
    if count < TRACES_MIN {
        let what = format!("contains {count} traces, fewer than {TRACES_MIN}");
        findings.push(Finding { path: FOLDER.to_owned(), line: 0, what });
    }
}

/// Returns `true` if the brackets of the text form one complete object.
///
/// The trace runner checks the fields. This check finds files that are empty, truncated or the
/// result of a bad merge.
fn is_one_object(text: &str) -> bool {
    let text = text.trim();
    let mut open = Vec::new();
    for (at, byte) in outside_strings(text) {
        match byte {
            b'{' | b'[' => open.push(byte),
            b'}' if open.pop() != Some(b'{') => return false,
            b']' if open.pop() != Some(b'[') => return false,
            _ => {}
        }
        if open.is_empty() {
            return byte == b'}' && at + 1 == text.len();
        }
    }
    false
}

/// Returns the bytes outside strings, with their positions, and the closing quotes of strings.
fn outside_strings(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let mut in_string = false;
    let mut escaped = false;
    text.bytes().enumerate().filter(move |(_, byte)| {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else {
            in_string = *byte == b'"';
        }
        !in_string
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_complete_object_passes() {
        assert!(is_one_object("{}"));
        assert!(is_one_object("{\n  \"steps\": [{\"at\": 1}, {\"at\": 2}]\n}\n"));
        assert!(is_one_object(r#"{"why": "a \" and a } and a \\"}"#));
    }

    #[test]
    fn finds_truncated_and_badly_merged_files() {
        for text in ["", "[]", "1", "{", "{}{}", "{} 1", "{[}]}", "}", r#"{"a}"#, "{\"a\": [1}"] {
            assert!(!is_one_object(text), "{text}");
        }
    }

    #[test]
    fn finds_a_lost_trace() {
        let trace = |index| File::new(&format!("conformance/{index}.json"), "{}\n");
        let mut files: Vec<File> = (0..TRACES_MIN).map(trace).collect();
        let count = |files: &[File]| {
            let mut findings = Vec::new();
            check(files, &mut findings);
            findings.len()
        };
        assert_eq!(count(&files), 0);
        files.pop();
        // Files elsewhere and files of another kind do not count.
        files.push(File::new("docs/1.json", "{}\n"));
        files.push(File::new("conformance/README.md", "{}\n"));
        assert_eq!(count(&files), 1);
    }
}
