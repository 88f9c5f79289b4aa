//! The `name:value` lines that servers describe themselves with.

use super::ServerError;

/// The value of `name` in an answer to `INFO` or `CLUSTER INFO`.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Result<&'a str, ServerError> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim_end);
    text.lines()
        .find_map(value)
        .ok_or_else(|| ServerError::new(format!("the server says nothing of `{name}`:\n{text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        let text = "role_of:a\r\nrole:b\r\n";
        assert_eq!(field(text, "role").unwrap(), "b");
        assert!(field(text, "rol").is_err());
    }
}
