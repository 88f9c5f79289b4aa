//! The usual body of a check, read without a parser: a third of the work.
//!
//! Names and texts without escapes, each once, and whole numbers. Whatever else may stand in a body,
//! and all that is wrong with one, is left to the parser.

use std::borrow::Cow;

use super::ask::{AskBody, Text, Units};

/// The ask, if this is the usual body; `None` says nothing about it.
pub(super) fn read(body: &str) -> Option<AskBody<'_>> {
    let mut rest = Rest(body);
    let (mut policy, mut key, mut cost, mut tier) = (None, None, None, None);
    rest.expect("{")?;
    loop {
        if policy.is_none() && rest.takes("\"policy\"") {
            policy = Some(rest.plain()?);
        } else if key.is_none() && rest.takes("\"key\"") {
            key = Some(rest.plain()?);
        } else if cost.is_none() && rest.takes("\"cost\"") {
            cost = Some(rest.whole()?);
        } else if tier.is_none() && rest.takes("\"tier\"") {
            tier = Some(rest.plain()?);
        } else {
            return None;
        }
        if !rest.takes(",") {
            break;
        }
    }
    rest.expect("}")?;
    if !rest.0.trim_start_matches(BLANKS).is_empty() {
        return None;
    }
    let text = |text| Text(Cow::Borrowed(text));
    Some(AskBody {
        policy: text(policy?),
        key: text(key?),
        cost: cost.map(Units::Whole),
        tier: tier.map(text),
    })
}

/// What is not read yet.
struct Rest<'a>(&'a str);

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

impl<'a> Rest<'a> {
    /// Whether this comes next, perhaps behind blanks, and was taken. Most bodies have no blanks.
    #[inline]
    fn takes(&mut self, wanted: &str) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(behind) => self.0 = behind,
            None if self.0.starts_with(BLANKS) => return self.takes_behind_blanks(wanted),
            None => return false,
        }
        true
    }

    #[cold]
    fn takes_behind_blanks(&mut self, wanted: &str) -> bool {
        self.0 = self.0.trim_start_matches(BLANKS);
        self.takes(wanted)
    }

    #[inline]
    fn expect(&mut self, wanted: &str) -> Option<()> {
        self.takes(wanted).then_some(())
    }

    /// A text without escapes, behind a name.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        if !self.takes(":\"") {
            self.expect(":")?;
            self.expect("\"")?;
        }
        let (text, behind) = self.0.split_at_checked(plain_len(self.0.as_bytes())?)?;
        // Only a quote ends a text.
        self.0 = behind.strip_prefix('"')?;
        Some(text)
    }

    /// A whole number that fits, behind a name.
    fn whole(&mut self) -> Option<u64> {
        self.expect(":")?;
        self.0 = self.0.trim_start_matches(BLANKS);
        let (digits, behind) = self.0.split_at(self.0.find(|it: char| !it.is_ascii_digit())?);
        // Of numbers that start with a zero, only zero itself is one.
        let is_whole = digits == "0" || !digits.starts_with('0');
        if !is_whole || digits.len() > DIGITS_MAX {
            return None;
        }
        self.0 = behind;
        digits.parse().ok()
    }
}

/// How long the text without escapes is that begins here. Apart, because in the midst of the rest this
/// loop takes three times as many instructions.
#[inline(never)]
fn plain_len(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| ENDS_PLAIN[usize::from(*byte)])
}

/// Whether a byte ends a text without escapes: a quote, an escape, and what must be escaped.
static ENDS_PLAIN: [bool; 256] = {
    let mut ends = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        ends[byte] = true;
        byte += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

/// Any number of so many digits fits.
const DIGITS_MAX: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the parser makes of it.
    fn parsed(body: &str) -> Option<AskBody<'_>> {
        serde_json::from_str(body).ok()
    }

    fn same(quick: &AskBody<'_>, parsed: &AskBody<'_>) -> bool {
        format!("{quick:?}") == format!("{parsed:?}")
    }

    #[test]
    fn the_usual_is_read() {
        for body in [
            r#"{"policy":"api","key":"alice"}"#,
            r#" { "key" : "Grüße" , "policy" : "" } "#,
            r#"{"policy":"api","key":"a","cost":0,"tier":"gold"}"#,
            "{\"policy\":\"api\",\n\t\"key\":\"a\",\"cost\":999999999999999999}",
        ] {
            let (quick, parsed) = (read(body).unwrap(), parsed(body).unwrap());
            assert!(same(&quick, &parsed), "{body}: {quick:?} {parsed:?}");
        }
    }

    // A body that is wrong must never pass because it was read quickly.
    #[test]
    fn the_unusual_is_left_to_the_parser() {
        for body in [
            "",
            "{}",
            "[]",
            r#"{"policy":"api"}"#,
            r#"{"policy":"api","key":"a\n"}"#,
            r#"{"policy":"api","key":"a","key":"b"}"#,
            r#"{"policy":"api","key":"a","kye":"b"}"#,
            r#"{"policy":"api","key":"a"}x"#,
            r#"{"policy":"api","key":"a",}"#,
            r#"{"policy":"api","key":"a","cost":01}"#,
            r#"{"policy":"api","key":"a","cost":1.0}"#,
            r#"{"policy":"api","key":"a","cost":-1}"#,
            r#"{"policy":"api","key":"a","cost":}"#,
            r#"{"policy":"api","key":"a","cost":null}"#,
            r#"{"policy":"api","key":"a","tier":null}"#,
            r#"{"policy":"api","key":"a","cost":9999999999999999999}"#,
            "{\"policy\":\"api\",\"key\":\"a\tb\"}",
            r#"{"policy":"api","key":"a"#,
        ] {
            assert!(read(body).is_none(), "{body}");
        }
    }

    proptest! {
        // Pieces of bodies in any order: whatever is read quickly, the parser reads the same.
        #[test]
        fn both_read_the_same(pieces in prop::collection::vec(0..PIECES.len(), 0..16)) {
            let body: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
            if let Some(quick) = read(&body) {
                let parsed = parsed(&body);
                prop_assert!(parsed.is_some_and(|parsed| same(&quick, &parsed)), "{}", body);
            }
        }

        #[test]
        fn any_text_is_the_same_text(policy in ".{0,20}", key in ".{0,40}", cost: u64) {
            let body = serde_json::json!({"policy": policy, "key": key, "cost": cost}).to_string();
            if let Some(quick) = read(&body) {
                prop_assert_eq!((&*quick.policy.0, &*quick.key.0), (&*policy, &*key));
                prop_assert!(matches!(quick.cost, Some(Units::Whole(units)) if units == cost));
            }
        }
    }

    const PIECES: [&str; 16] = [
        "{",
        "}",
        "\"policy\":",
        "\"key\":",
        "\"cost\":",
        "\"tier\":",
        "\"a\"",
        "\"b\"",
        ",",
        "1",
        "0",
        " ",
        "\"",
        ":",
        "\\",
        "é",
    ];
}
