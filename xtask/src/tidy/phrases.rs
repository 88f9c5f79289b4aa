//! Rule for wording: phrases that are hard to read, each with what to write instead.
//!
//! `docs/style.md` explains the style. The rule covers comments, documents, messages and names: an
//! underscore counts as a space, so that test names are checked too.

use super::Finding;
use super::tree::File;

/// A phrase that is refused, and why.
struct Phrase {
    /// Lowercase words, separated by single spaces. Only whole words match.
    words: &'static str,
    reason: &'static str,
}

const NOT_A_PERSON: &str = "keys, threads and requests are not people: name the waiter, the caller, \
    the client";
const TELL: &str = "write what happens: returns, reports, sends, configures, distinguishes";
const SEPARATELY: &str = "write `separately`, `per key` or `except`";
const JUDGE: &str = "the API says `check`, `decide`, `evaluate`";
const STAND: &str = "write `status`, `applies`, `is`";
const OVER: &str = "write `over` for a protocol and `with` for a tool";
const PEOPLE: &str = "write `no caller`, `every key`, `another client`";
const RETURNS: &str = "write `Returns the number of ...` or `Returns `true` if ...`";

const PHRASES: &[Phrase] = &[
    Phrase { words: "whoever", reason: NOT_A_PERSON },
    Phrase { words: "whom", reason: NOT_A_PERSON },
    Phrase { words: "who asks", reason: NOT_A_PERSON },
    Phrase { words: "who asked", reason: NOT_A_PERSON },
    Phrase { words: "one who", reason: NOT_A_PERSON },
    Phrase { words: "those who", reason: NOT_A_PERSON },
    Phrase { words: "nobody", reason: PEOPLE },
    Phrase { words: "everybody", reason: PEOPLE },
    Phrase { words: "somebody", reason: PEOPLE },
    Phrase { words: "anybody", reason: PEOPLE },
    Phrase { words: "tell", reason: TELL },
    Phrase { words: "tells", reason: TELL },
    Phrase { words: "told", reason: TELL },
    Phrase { words: "telling", reason: TELL },
    Phrase { words: "apart", reason: SEPARATELY },
    Phrase { words: "judge", reason: JUDGE },
    Phrase { words: "judges", reason: JUDGE },
    Phrase { words: "judged", reason: JUDGE },
    Phrase { words: "judging", reason: JUDGE },
    Phrase { words: "stands", reason: STAND },
    Phrase { words: "stood", reason: STAND },
    Phrase { words: "says how many", reason: RETURNS },
    Phrase { words: "says whether", reason: RETURNS },
    Phrase { words: "answers whether", reason: RETURNS },
    Phrase { words: "by pip", reason: OVER },
    Phrase { words: "by apt-get", reason: OVER },
    Phrase { words: "by rustup", reason: OVER },
    Phrase { words: "by callgrind", reason: OVER },
    Phrase { words: "by tls", reason: OVER },
    Phrase { words: "by http", reason: OVER },
    Phrase { words: "so many", reason: "give the number or its constant" },
    Phrase { words: "anew", reason: "write `again` or `from zero`" },
    Phrase { words: "afresh", reason: "write `again` or `from zero`" },
    Phrase { words: "let go", reason: "write `drop`, `release` or `expire`" },
    Phrase { words: "lets go", reason: "write `drops`, `releases` or `expires`" },
    Phrase { words: "the dead", reason: "write `expired keys` or `closed connections`" },
    Phrase { words: "pile up", reason: "write `accumulate`" },
    Phrase { words: "under way", reason: "write `in flight`" },
    Phrase { words: "in force", reason: "write `current` or `active`" },
    Phrase { words: "on record", reason: "write `recorded`" },
    Phrase { words: "the very", reason: "write `exactly those`, or leave it out" },
    Phrase { words: "beside", reason: "write `next to`, `alongside` or `compared with`" },
    Phrase { words: "stead", reason: "write `instead`" },
    Phrase {
        words: "safe side",
        reason: "say which: `rounded up: may deny early, never over-admits`",
    },
    Phrase { words: "nobody's", reason: PEOPLE },
    Phrase { words: "that is none", reason: "write `not a ...`" },
    Phrase { words: "goes alone", reason: "write `is sent alone`" },
    Phrase { words: "finds no room", reason: "write `does not fit`" },
    Phrase { words: "of ours", reason: "name the owner: the daemon's, the limiter's" },
    Phrase { words: "what is asked for", reason: "name it: the request, the cost, the key" },
];

/// Files that quote the phrases.
const EXCEPT: &[&str] = &["docs/style.md", "xtask/src/tidy/phrases.rs"];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    if EXCEPT.contains(&file.path.as_str()) {
        return;
    }
    // A document may name an identifier of earlier versions, in code style.
    let is_document = file.extension() == "md";
    let prose = Prose::new(&file.text, is_document);
    for phrase in PHRASES {
        for line in prose.lines_with(phrase.words) {
            let what = format!("`{}`: {}", phrase.words, phrase.reason);
            findings.push(Finding::new(file, line, what));
        }
    }
}

/// The words of a file in one line, so that a phrase is found across a line break.
struct Prose {
    text: String,
    /// Where each line of the file starts in `text`.
    starts: Vec<usize>,
}

impl Prose {
    /// Reads a text, without the parts between backticks if `skips_code`.
    fn new(text: &str, skips_code: bool) -> Self {
        let mut prose = Self { text: String::with_capacity(text.len()), starts: Vec::new() };
        for line in text.lines() {
            prose.starts.push(prose.text.len());
            let line = line.trim_start().trim_start_matches(['/', '!', '-', '#', '>', '*']).trim();
            for (index, part) in line.split('`').enumerate() {
                if !skips_code || index % 2 == 0 {
                    prose.text.push_str(&part.replace('_', " ").to_ascii_lowercase());
                }
            }
            prose.text.push(' ');
        }
        prose
    }

    fn lines_with(&self, words: &str) -> impl Iterator<Item = usize> {
        let is_letter = |char: char| char.is_alphanumeric();
        self.text.match_indices(words).filter_map(move |(at, _)| {
            let before = self.text[..at].chars().next_back();
            let after = self.text[at + words.len()..].chars().next();
            let is_whole = !before.is_some_and(is_letter) && !after.is_some_and(is_letter);
            is_whole.then(|| self.starts.partition_point(|start| *start <= at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&File::new("a.rs", text), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_phrase_is_refused() {
        for phrase in PHRASES {
            assert!(!findings(&format!("// {}.\n", phrase.words)).is_empty(), "{}", phrase.words);
        }
    }

    #[test]
    fn finds_phrases_in_names_messages_and_across_lines() {
        assert_eq!(findings("fn a_key_told_twice() {}\n"), [1]);
        assert_eq!(findings("fail(\"Nobody answered\");\n"), [1]);
        assert_eq!(findings("//! one\n//! line with so\n//! many words\n"), [2]);
    }

    #[test]
    fn documents_may_quote_code() {
        let mut findings = Vec::new();
        check(&File::new("a.md", "`Told` is now `Limits`\n"), &mut findings);
        assert!(findings.is_empty());
    }

    #[test]
    fn matches_whole_words_only() {
        assert_eq!(findings("// retold in apartments, outstanding, besides\n"), [0; 0]);
    }

    #[test]
    fn files_that_quote_phrases_are_skipped() {
        let mut findings = Vec::new();
        check(&File::new(EXCEPT[0], "so many\n"), &mut findings);
        assert!(findings.is_empty());
    }
}
