//! A flat JSON object, written member by member.

use std::fmt::Write;

/// A flat JSON object. All texts are escaped.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        push_text(&mut self.0, value);
        self
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name);
        self.0.push_str(itoa::Buffer::new().format(value));
        self
    }

    pub(crate) fn texts(mut self, name: &str, values: &[String]) -> Self {
        self.name(name);
        self.0.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            push_text(&mut self.0, value);
        }
        self.0.push(']');
        self
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_text(&mut self.0, name);
        self.0.push(':');
    }
}

fn push_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            // `<` and `>` are harmless in JSON, but not if the text is pasted into a page.
            '\0'..=' ' | '<' | '>' | '\u{7f}' if character != ' ' => {
                // Writing to a string never fails.
                let _ = write!(json, "\\u{:04x}", u32::from(character));
            }
            character => json.push(character),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    proptest! {
        #[test]
        fn any_text_round_trips_through_serde(one: String, list: Vec<String>, number: u64) {
            let object = Object::new().text("one", &one).number("number", number);
            let text = object.texts("list", &list).finish();
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, json!({"one": one, "number": number, "list": list}));
        }
    }

    #[test]
    fn escapes_characters_that_end_a_string_or_a_script() {
        let text = Object::new().text("a", "\"\\\n\0</script>").finish();
        assert_eq!(text, r#"{"a":"\"\\\u000a\u0000\u003c/script\u003e"}"#);
        assert_eq!(Object::new().finish(), "{}");
    }
}
