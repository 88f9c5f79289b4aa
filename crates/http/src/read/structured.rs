//! Structured fields (RFC 9651): lists and dictionaries, read strictly.
//!
//! Everything the rules allow is parsed, so that one odd parameter does not lose a field; only
//! integers and texts are kept.

/// A member of a list or dictionary, or the value of a parameter's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Bare,
    parameters: Vec<(String, Bare)>,
}

/// A value without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bare {
    Integer(i64),
    /// A string or a token.
    Text(String),
    /// Any other type, or an inner list.
    Other,
}

impl Item {
    /// The parameter of that name, if it is an integer of zero or more.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name)?.number()
    }

    /// The parameter of that name, if it is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.parameter(name)? {
            Bare::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Of parameters with the same name, the last one counts.
    fn parameter(&self, name: &str) -> Option<&Bare> {
        let mut parameters = self.parameters.iter().rev();
        parameters.find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl Bare {
    /// The value, if it is an integer of zero or more.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(integer) => u64::try_from(*integer).ok(),
            _ => None,
        }
    }
}

/// The members of a list; `None` when the text is none.
pub(crate) fn list(text: &str) -> Option<Vec<Item>> {
    members(text, Cursor::member)
}

/// The members of a dictionary, of those with the same key only the last counts; `None` when the
/// text is none.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, Item)>> {
    members(text, Cursor::entry)
}

fn members<'a, T>(text: &'a str, read: fn(&mut Cursor<'a>) -> Option<T>) -> Option<Vec<T>> {
    let mut cursor = Cursor { rest: text.trim_matches(' ').as_bytes() };
    let mut members = Vec::new();
    if cursor.rest.is_empty() {
        return Some(members);
    }
    loop {
        members.push(read(&mut cursor)?);
        cursor.skip(b" \t");
        if cursor.rest.is_empty() {
            return Some(members);
        }
        cursor.expect(b',')?;
        cursor.skip(b" \t");
    }
}

/// What is left to read. Every step takes at least a byte or ends.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn member(&mut self) -> Option<Item> {
        if self.peek() != Some(b'(') {
            let value = self.bare()?;
            return Some(Item { value, parameters: self.parameters()? });
        }
        self.inner_list()?;
        Some(Item { value: Bare::Other, parameters: self.parameters()? })
    }

    fn entry(&mut self) -> Option<(String, Item)> {
        let key = self.key()?;
        if self.take_if(b'=') {
            return Some((key, self.member()?));
        }
        // A key alone is `true`.
        Some((key, Item { value: Bare::Other, parameters: self.parameters()? }))
    }

    fn inner_list(&mut self) -> Option<()> {
        self.expect(b'(')?;
        loop {
            self.skip(b" ");
            if self.take_if(b')') {
                return Some(());
            }
            self.bare()?;
            self.parameters()?;
            matches!(self.peek(), Some(b' ' | b')')).then_some(())?;
        }
    }

    fn parameters(&mut self) -> Option<Vec<(String, Bare)>> {
        let mut parameters = Vec::new();
        while self.take_if(b';') {
            self.skip(b" ");
            let key = self.key()?;
            let value = if self.take_if(b'=') { self.bare()? } else { Bare::Other };
            parameters.push((key, value));
        }
        Some(parameters)
    }

    fn key(&mut self) -> Option<String> {
        let first = self.peek()?;
        (first.is_ascii_lowercase() || first == b'*').then_some(())?;
        let is_key = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        };
        Some(text_of(self.take_while(is_key)))
    }

    fn bare(&mut self) -> Option<Bare> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Bare::Text),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                Some(Bare::Text(text_of(self.take_while(is_token))))
            }
            b':' => self.bytes(),
            b'?' => self.boolean(),
            b'@' => self.date(),
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// An integer of up to 15 digits, or a decimal of up to 12 and 3.
    fn number(&mut self) -> Option<Bare> {
        let negative = self.take_if(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return None;
        }
        if self.take_if(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Bare::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let number = digits.iter().fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Bare::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<String> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            match self.take()? {
                b'"' => return Some(text),
                b'\\' => match self.take()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                byte @ b' '..=b'~' => text.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    /// Bytes as base64. What they say is nobody's business here, so they are not decoded.
    fn bytes(&mut self) -> Option<Bare> {
        self.expect(b':')?;
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.expect(b':')?;
        Some(Bare::Other)
    }

    fn boolean(&mut self) -> Option<Bare> {
        self.expect(b'?')?;
        matches!(self.take()?, b'0' | b'1').then_some(Bare::Other)
    }

    fn date(&mut self) -> Option<Bare> {
        self.expect(b'@')?;
        match self.number()? {
            Bare::Integer(_) => Some(Bare::Other),
            _ => None,
        }
    }

    fn display_string(&mut self) -> Option<Bare> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            match self.take()? {
                b'"' => return std::str::from_utf8(&bytes).ok().map(|_| Bare::Other),
                b'%' => bytes.push(hex(self.take()?)? << 4 | hex(self.take()?)?),
                byte @ b' '..=b'~' => bytes.push(byte),
                _ => return None,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take_if(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.take_if(wanted).then_some(())
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().take_while(|byte| is_part(**byte)).count();
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        part
    }

    fn skip(&mut self, blanks: &[u8]) {
        self.take_while(|byte| blanks.contains(&byte));
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

/// Lower case only, as the rules want it.
fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Bytes that are known to be ASCII.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, ListEntry, Parser};

    fn agrees(ours: &Bare, theirs: &BareItem) -> bool {
        match theirs {
            BareItem::Integer(integer) => *ours == Bare::Integer(i64::from(*integer)),
            BareItem::String(text) => *ours == Bare::Text(text.as_str().to_owned()),
            BareItem::Token(text) => *ours == Bare::Text(text.as_str().to_owned()),
            _ => *ours == Bare::Other,
        }
    }

    /// Reads a list with both parsers. Ours does not decode base64, so it may accept more there.
    fn compare_lists(text: &str) -> Result<(), TestCaseError> {
        let ours = list(text);
        let theirs: Option<sfv::List> = Parser::new(text).parse().ok();
        let Some(theirs) = theirs else {
            prop_assert!(ours.is_none() || text.contains(':'), "{text:?}: only ours {ours:?}");
            return Ok(());
        };
        let ours = ours.ok_or_else(|| TestCaseError::fail(format!("{text:?}: only theirs")))?;
        prop_assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let (value, parameters) = match theirs {
                ListEntry::Item(item) => (agrees(&ours.value, &item.bare_item), &item.params),
                ListEntry::InnerList(inner) => (ours.value == Bare::Other, &inner.params),
            };
            prop_assert!(value, "{text:?}");
            for (key, theirs) in parameters {
                let ours = ours.parameter(key.as_str());
                prop_assert!(ours.is_some_and(|ours| agrees(ours, theirs)), "{text:?}: {key}");
            }
        }
        Ok(())
    }

    fn compare_dictionaries(text: &str) -> Result<(), TestCaseError> {
        let ours = dictionary(text);
        let theirs: Option<sfv::Dictionary> = Parser::new(text).parse().ok();
        let Some(theirs) = theirs else {
            prop_assert!(ours.is_none() || text.contains(':'), "{text:?}: only ours {ours:?}");
            return Ok(());
        };
        let ours = ours.ok_or_else(|| TestCaseError::fail(format!("{text:?}: only theirs")))?;
        for (key, theirs) in &theirs {
            let ours = ours.iter().rev().find(|(name, _)| name == key.as_str());
            let (_, ours) = ours.ok_or_else(|| TestCaseError::fail(format!("no {key}")))?;
            if let ListEntry::Item(item) = theirs {
                prop_assert!(agrees(&ours.value, &item.bare_item), "{text:?}: {key}");
            }
        }
        Ok(())
    }

    /// Texts that are nearly structured fields: arbitrary ones are hardly ever.
    fn nearly() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\"a b\"".to_owned()),
            "\"[ -~]{0,4}\"",
            "-?[0-9]{1,17}",
            "-?[0-9]{1,13}\\.[0-9]{0,4}",
            "[a-zA-Z*][a-z0-9:/!*]{0,3}",
            "\\?[012]",
            "@-?[0-9]{1,3}",
            "%\"[a-f0-9% ]{0,6}\"",
            ":[A-Za-z0-9+/=]{0,6}:",
            ";[ ]{0,2}[a-z*][a-z0-9_.*-]{0,2}(=[0-9a-z?1]{0,3})?",
            "[ \t]{0,2},[ \t]{0,2}",
            "[a-z]{1,3}=",
            "\\([0-9 a-z;=]{0,6}\\)",
            "[(); =,]",
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn reads_as_sfv_does(text in nearly()) {
            compare_lists(&text)?;
            compare_dictionaries(&text)?;
        }

        #[test]
        fn reads_any_text_as_sfv_does(text in "[ -~\t]{0,40}") {
            compare_lists(&text)?;
            compare_dictionaries(&text)?;
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = list(&text);
            let _ = dictionary(&text);
        }
    }

    #[test]
    fn the_last_parameter_of_a_name_counts() {
        let items = list("\"a\";r=1;r=2;t=-3;p=:aGk=:").unwrap();
        assert_eq!(items[0].number("r"), Some(2));
        assert_eq!(items[0].number("t"), None);
        assert_eq!(items[0].number("p"), None);
        assert_eq!(items[0].value, Bare::Text("a".to_owned()));
    }
}
