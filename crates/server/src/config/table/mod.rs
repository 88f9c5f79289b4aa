//! Every key of the own format, once: what it is, what it takes, what it means when absent.
//!
//! Checks, environment variables, the printed configuration, the JSON Schema and the reference in
//! `docs/configuration.md` are all made from this table.

mod domain;
pub(super) mod leaves;
mod policy;
mod process;
mod rule;
mod store;

use core::time::Duration;

pub(super) use domain::{DESCRIPTOR, DOMAIN, RATE_LIMIT};
pub(super) use policy::POLICY;
pub(super) use process::ROOT;
pub(super) use rule::RULE;
pub(super) use store::STORE;

/// A map with known keys.
pub(super) struct Section {
    /// What it is, for messages: "a policy".
    pub(super) what: &'static str,
    pub(super) fields: &'static [Field],
}

/// One key.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) absent: Absent,
    /// What it means, in a sentence.
    pub(super) about: &'static str,
    /// A value, as YAML.
    pub(super) example: &'static str,
}

/// What it means that a key is absent.
pub(super) enum Absent {
    /// It must not be.
    Refused,
    /// The same as this value, as YAML.
    Default(&'static str),
    /// This, in words.
    Means(&'static str),
}

/// What a key takes.
pub(super) enum Kind {
    Flag,
    Whole {
        least: u64,
        most: u64,
    },
    Decimal {
        least: f64,
        most: f64,
    },
    Time {
        least: Duration,
        most: Duration,
    },
    Choice(&'static [&'static str]),
    Leaf(&'static Leaf),
    /// A list of at most so many.
    List(&'static Kind, usize),
    /// A map of names to values, at most so many.
    Named(&'static Leaf, &'static Kind, usize),
    Section(&'static Section),
    /// A map with exactly one of the keys.
    One(&'static Section),
    /// The first that fits by its shape: a scalar, a list or a map.
    Either(&'static [Kind]),
    /// Anything at all.
    Any,
}

/// A text of a certain form.
pub(super) struct Leaf {
    /// What it is, for the reference.
    pub(super) what: &'static str,
    /// A regular expression that such texts match, for the JSON Schema.
    pub(super) pattern: &'static str,
    /// What is allowed, if it is not of this form.
    pub(super) check: fn(&str) -> Result<(), String>,
    pub(super) secret: bool,
}

impl Section {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// What it is without the article, in one word: `policy`, `rate-limit`.
    pub(super) fn title(&self) -> String {
        let bare =
            self.what.trim_start_matches("a ").trim_start_matches("an ").trim_start_matches("the ");
        bare.to_ascii_lowercase().replace(' ', "-")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Field {
    pub(super) fn is_required(&self) -> bool {
        matches!(self.absent, Absent::Refused)
    }
}

impl Kind {
    /// What it takes, in words.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Whole { least, most } if *most == u64::MAX => format!("a number from {least}"),
            Self::Whole { least, most } => format!("a number from {least} to {most}"),
            Self::Decimal { least, most } => format!("a number from {least} to {most}"),
            Self::Time { least, most } => {
                format!("a time from {} to {}", super::leaf::show(*least), super::leaf::show(*most))
            }
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Leaf(leaf) => leaf.what.to_owned(),
            Self::List(of, _) => format!("a list, each {}", of.what()),
            Self::Named(_, of, _) => format!("a map of names, each to {}", of.what()),
            Self::Section(section) => section.what.to_owned(),
            Self::One(section) => {
                let names: Vec<&str> = section.names().collect();
                format!("a map with one of {}", names.join(", "))
            }
            Self::Either(kinds) => kinds.iter().map(Self::what).collect::<Vec<_>>().join("; or "),
            Self::Any => "anything".to_owned(),
        }
    }

    /// Whether it is a value without parts, or a list of such: what a variable can set.
    pub(super) fn is_setting(&self) -> bool {
        match self {
            Self::List(of, _) => of.is_scalar(),
            other => other.is_scalar(),
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Flag
                | Self::Whole { .. }
                | Self::Decimal { .. }
                | Self::Time { .. }
                | Self::Choice(_)
                | Self::Leaf(_)
        )
    }
}

/// Every setting of the process that has a value of its own, by its path: `listen.http`.
///
/// Stores, policies, rules and domains are lists or have names, and are not among them.
pub(super) fn settings() -> Vec<(String, &'static Field)> {
    let mut found = Vec::new();
    collect("", &ROOT, &mut found);
    found.retain(|(path, _)| path != "slidegate");
    found
}

fn collect(path: &str, section: &'static Section, found: &mut Vec<(String, &'static Field)>) {
    for field in section.fields {
        let path =
            if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        match &field.kind {
            Kind::Section(section) => collect(&path, section, found),
            kind if kind.is_setting() => found.push((path, field)),
            _ => {}
        }
    }
}

/// The variable that sets a setting: `SLIDEGATE_LISTEN_HTTP`.
pub(super) fn variable(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// What our variables begin with.
pub(super) const VARIABLE_PREFIX: &str = "SLIDEGATE_";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check::check;
    use crate::config::report::Report;
    use crate::config::source::Origin;
    use crate::config::yaml::parse;

    fn sections() -> Vec<&'static Section> {
        let mut found: Vec<&'static Section> = vec![&ROOT];
        let mut at = 0;
        while let Some(section) = found.get(at).copied() {
            at += 1;
            for field in section.fields {
                inside(&field.kind, &mut found);
            }
        }
        found
    }

    fn inside(kind: &'static Kind, found: &mut Vec<&'static Section>) {
        match kind {
            Kind::Section(section) | Kind::One(section) => {
                let known = found.iter().any(|known| core::ptr::eq(*known, *section));
                found.extend((!known).then_some(*section));
            }
            Kind::List(of, _) | Kind::Named(_, of, _) => inside(of, found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| inside(kind, found)),
            _ => {}
        }
    }

    // An example that is refused would teach a mistake.
    #[test]
    fn every_example_and_default_is_one_that_is_taken() {
        let mut count = 0;
        for field in sections().into_iter().flat_map(|section| section.fields) {
            let default = match field.absent {
                Absent::Default(value) => Some(value),
                _ => None,
            };
            for text in default.into_iter().chain([field.example]) {
                count += 1;
                let mut report = Report::default();
                let whole = report.sources.add(Origin::Flag(String::new()), text.to_owned());
                let document = parse(text, whole, &mut report).unwrap();
                check(field.name, &document.root, &field.kind, &mut report);
                assert!(!report.has_errors(), "{}: {text}", field.name);
            }
        }
        assert!(count > 150, "{count}");
    }

    #[test]
    fn names_are_told_apart() {
        let mut titles: Vec<String> = sections().into_iter().map(Section::title).collect();
        let mut variables: Vec<String> =
            settings().into_iter().map(|(path, _)| variable(&path)).collect();
        for names in [&mut titles, &mut variables] {
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
    }
}
