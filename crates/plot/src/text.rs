//! Text of unknown origin in SVG and HTML.

use std::borrow::Cow;

/// The most characters of a label.
pub(crate) const LABEL_MAX: usize = 80;

/// Returns the text for the content of an element or for an attribute in quotation marks.
///
/// Characters that XML does not allow are replaced by U+FFFD.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| !matches!(letter, '<' | '>' | '&' | '"' | '\'') && is_xml(letter);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if is_xml(letter) => escaped.push(letter),
            _ => escaped.push('\u{fffd}'),
        }
    }
    Cow::Owned(escaped)
}

/// Whether XML 1.0 allows the character in a document, and no terminal or parser would act on it.
fn is_xml(letter: char) -> bool {
    matches!(letter, '\n' | '\t')
        || !(letter.is_control()
            || matches!(letter, '\u{fffe}' | '\u{ffff}')
            || is_direction(letter))
}

/// Characters that change the direction of the text that follows them.
fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a label of one line of at most `width` characters, without characters that XML forbids. The SVG writer escapes it.
pub(crate) fn label(text: &str, width: usize) -> String {
    let width = width.clamp(2, LABEL_MAX);
    let clean = |letter: char| match letter {
        '\n' | '\t' => ' ',
        letter if is_xml(letter) => letter,
        _ => '\u{fffd}',
    };
    let mut shown: String = text.chars().take(width).map(clean).collect();
    if text.chars().nth(width).is_some() {
        shown.pop();
        shown.push('\u{2026}');
    }
    shown
}

/// Returns the estimated width of a text in a proportional font.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let em = |letter: char| match letter {
        'i' | 'l' | 'j' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '/' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
        'A'..='Z' => 0.74,
        _ if letter.is_ascii() => 0.63,
        _ => 0.8,
    };
    text.chars().map(em).sum::<f64>() * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_characters_that_xml_forbids_are_escaped() {
        assert_eq!(
            escape("<img onerror=\"x('&')\">"),
            "&lt;img onerror=&quot;x(&#39;&amp;&#39;)&quot;&gt;"
        );
        assert_eq!(escape("a\0b\u{1b}[2J\u{202e}"), "a\u{fffd}b\u{fffd}[2J\u{fffd}");
        assert!(matches!(escape("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn labels_are_cut_to_one_line() {
        assert_eq!(label("one\ntwo\u{7}", 80), "one two\u{fffd}");
        assert_eq!(label(&"x".repeat(100), 5), "xxxx\u{2026}");
    }
}
