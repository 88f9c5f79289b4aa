//! Results as JSON, one object per line.

use core::fmt::Write as _;

/// An object being written, fields in the order they are added.
#[derive(Debug)]
pub(crate) struct JsonLine(String);

impl JsonLine {
    /// Starts a result of a bench.
    pub(crate) fn new(bench: &str) -> Self {
        Self(String::from("{")).text("bench", bench)
    }

    /// Adds a text, which must not need escapes.
    pub(crate) fn text(mut self, field: &str, text: &str) -> Self {
        self.field(field);
        // Writing into a string cannot fail.
        let _ = write!(self.0, "\"{text}\"");
        self
    }

    /// Adds a whole number.
    pub(crate) fn whole(mut self, field: &str, number: u64) -> Self {
        self.field(field);
        let _ = write!(self.0, "{number}");
        self
    }

    /// Adds a number with `digits` digits after the point; `null` when there is none.
    pub(crate) fn number(mut self, field: &str, number: Option<f64>, digits: usize) -> Self {
        self.field(field);
        let _ = match number.filter(|number| number.is_finite()) {
            Some(number) => write!(self.0, "{number:.digits$}"),
            None => write!(self.0, "null"),
        };
        self
    }

    /// Prints the object.
    pub(crate) fn print(self) {
        println!("{}", self.close());
    }

    fn close(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn field(&mut self, field: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{field}\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order() {
        let line = JsonLine::new("inproc").text("workload", "hot").whole("threads", 2);
        let line = line.number("ns", Some(25.25), 1).number("ratio_to_floor", None, 3).close();
        assert_eq!(
            line,
            r#"{"bench":"inproc","workload":"hot","threads":2,"ns":25.2,"ratio_to_floor":null}"#
        );
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
    }
}
