//! Rule for the conformance traces: enough of them, each one whole object.

use super::Finding;
use super::tree::File;

/// The fewest traces: below it, one was lost.
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
        let what = format!("holds {count} traces, fewer than {TRACES_MIN}");
        findings.push(Finding { path: FOLDER.to_owned(), line: 0, what });
    }
}

/// Whether the brackets of the text form one whole object. Its fields are the trace runner's to
/// judge; this finds files that were emptied, cut off or merged badly.
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

/// The bytes that are not part of a string, with their places; a string's closing quote is left.
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
    fn one_whole_object_passes() {
        assert!(is_one_object("{}"));
        assert!(is_one_object("{\n  \"steps\": [{\"at\": 1}, {\"at\": 2}]\n}\n"));
        assert!(is_one_object(r#"{"why": "a \" and a } and a \\"}"#));
    }

    #[test]
    fn what_was_cut_off_or_merged_badly_is_found() {
        for text in ["", "[]", "1", "{", "{}{}", "{} 1", "{[}]}", "}", r#"{"a}"#, "{\"a\": [1}"] {
            assert!(!is_one_object(text), "{text}");
        }
    }

    #[test]
    fn a_lost_trace_is_found() {
        let trace = |index| File::new(&format!("conformance/{index}.json"), "{}\n");
        let mut files: Vec<File> = (0..TRACES_MIN).map(trace).collect();
        let count = |files: &[File]| {
            let mut findings = Vec::new();
            check(files, &mut findings);
            findings.len()
        };
        assert_eq!(count(&files), 0);
        files.pop();
        // Files elsewhere, or of another kind, do not stand in for it.
        files.push(File::new("docs/1.json", "{}\n"));
        files.push(File::new("conformance/README.md", "{}\n"));
        assert_eq!(count(&files), 1);
    }
}
