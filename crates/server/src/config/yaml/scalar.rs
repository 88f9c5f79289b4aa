//! A value without parts, as it was written.

/// A value without parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// How it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: it may be a number, a flag or null.
    Plain,
    /// In quotes or as a block: it is a text.
    Quoted,
    /// By a variable or a flag, which know no types: it is what is asked for.
    Given,
}

/// What a scalar says by the core schema of YAML 1.2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Null,
    Flag(bool),
    Whole(i128),
    Decimal(f64),
    Text,
}

impl Value {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Flag(_) => "true or false",
            Self::Whole(_) => "a whole number",
            Self::Decimal(_) => "a decimal number",
            Self::Text => "a text",
        }
    }
}

impl Scalar {
    pub(crate) fn given(text: &str) -> Self {
        Self { text: text.to_owned(), style: Style::Given }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.style == Style::Plain
            && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    pub(crate) fn value(&self) -> Value {
        if self.style == Style::Quoted {
            return Value::Text;
        }
        if self.is_null() {
            return Value::Null;
        }
        let text = self.text.as_str();
        match text {
            "true" | "True" | "TRUE" => Value::Flag(true),
            "false" | "False" | "FALSE" => Value::Flag(false),
            _ => whole(text).map(Value::Whole).or_else(|| decimal(text)).unwrap_or(Value::Text),
        }
    }
}

fn whole(text: &str) -> Option<i128> {
    let radix = |digits: &str, radix: u32| {
        let plain = !digits.is_empty() && !digits.starts_with(['+', '-']);
        plain.then(|| i128::from_str_radix(digits, radix).ok()).flatten()
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    text.parse().ok()
}

fn decimal(text: &str) -> Option<Value> {
    let starts = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let letters = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let special = matches!(
        text.trim_start_matches(['+', '-']),
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    );
    if special {
        return Some(Value::Decimal(f64::NAN));
    }
    let number = || text.parse().ok().map(Value::Decimal);
    (starts && digits && letters).then(number).flatten()
}
