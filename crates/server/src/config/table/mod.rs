//! Declarations of the configuration keys.
//!
//! Each key is declared once, with [`section!`](section), next to the struct that it is read into:
//! in `config/settings.rs` and in `spec`. Reading, checks, environment variables, the printed
//! configuration, the JSON Schema and the reference in `docs/configuration.md` are derived from it.

pub(crate) mod leaves;
mod read;
mod section;

use core::time::Duration;

use slidegate::format_duration;

pub(crate) use leaves::FILE;
pub(crate) use read::{Keyword, ListenAddress, Pairs, Read, Reader, absent, algorithm, given};
pub(crate) use section::{keywords, section};

pub(crate) use super::settings::ROOT;

/// The names that declarations use.
pub(crate) mod prelude {
    pub(crate) use core::time::Duration;

    pub(crate) use super::Keyword;
    pub(crate) use super::Kind::*;
    pub(crate) use super::leaves::*;
    use super::{Kind, read};

    pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
    pub(crate) const SECOND: Duration = Duration::from_secs(1);
    pub(crate) const MINUTE: Duration = Duration::from_secs(60);
    pub(crate) const HOUR: Duration = Duration::from_secs(3600);
    pub(crate) const DAY: Duration = Duration::from_secs(86_400);
    pub(crate) const LIMIT_MAX: u64 = slidegate::Quota::LIMIT_MAX;

    /// A quota, or a list of quotas.
    pub(crate) const QUOTAS: Kind =
        Either(&[Leaf(&QUOTA), List(&QUOTA_ITEM, slidegate::Policy::QUOTAS_MAX)]);
    static QUOTA_ITEM: Kind = Either(&[Leaf(&QUOTA), Section(&read::QUOTA_MAP)]);

    pub(crate) const ALGORITHM: Kind =
        Either(&[Choice(&["log", "counter", "gcra", "fixed"]), One(&read::ALGORITHM_MAP)]);
}

/// A map with known keys.
pub(crate) struct Section {
    /// The description for messages: "a policy".
    pub(crate) what: &'static str,
    pub(crate) fields: &'static [Field],
    /// A section whose keys are in the same map.
    pub(crate) flattened: Option<&'static Self>,
}

/// One key.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) absent: Absent,
    /// The meaning, in one sentence.
    pub(crate) about: &'static str,
    /// An example value, as YAML.
    pub(crate) example: &'static str,
}

/// The meaning of an absent key.
pub(crate) enum Absent {
    /// An error.
    Refused,
    /// The same as this value, as YAML: a scalar, `[]` or `{}`.
    Default(&'static str),
    /// This description.
    Means(&'static str),
}

/// The type of a value. Numbers and times have a minimum and a maximum, lists and maps a maximum
/// length.
pub(crate) enum Kind {
    Flag,
    Whole(u64, u64),
    Decimal(f64, f64),
    Time(Duration, Duration),
    Choice(&'static [&'static str]),
    Leaf(&'static Leaf),
    List(&'static Self, usize),
    /// A map of names to values.
    Named(&'static Leaf, &'static Self, usize),
    Section(&'static Section),
    /// A map with exactly one of the keys.
    One(&'static Section),
    /// The first alternative with the right shape: a scalar, a list or a map.
    Either(&'static [Self]),
    /// Any value.
    Any,
}

/// A text with a certain format.
pub(crate) struct Leaf {
    /// The description for the reference.
    pub(crate) what: &'static str,
    /// A regular expression that such texts match, for the JSON Schema.
    pub(crate) pattern: &'static str,
    /// Returns the allowed format if a text is invalid.
    pub(crate) check: fn(&str) -> Result<(), String>,
    pub(crate) secret: bool,
}

impl Leaf {
    pub(crate) const fn new(
        what: &'static str,
        pattern: &'static str,
        check: fn(&str) -> Result<(), String>,
    ) -> Self {
        Self { what, pattern, check, secret: false }
    }
}

impl Section {
    /// Returns all keys, including those of the flattened section.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().chain(self.flattened.into_iter().flat_map(|section| section.fields))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    /// Returns the type of a key, or `Any` for an unknown one.
    pub(crate) fn kind(&self, name: &str) -> &'static Kind {
        self.field(name).map_or(&Kind::Any, |field| &field.kind)
    }

    /// Returns the description without the article, in one word: `policy`, `rate-limit`.
    pub(crate) fn title(&self) -> String {
        let bare =
            self.what.trim_start_matches("a ").trim_start_matches("an ").trim_start_matches("the ");
        bare.to_ascii_lowercase().replace(' ', "-")
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields().map(|field| field.name)
    }
}

impl Field {
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.absent, Absent::Refused)
    }
}

impl Kind {
    /// Describes the type.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Whole(least, most) if *most == u64::MAX => format!("a number from {least}"),
            Self::Whole(least, most) => format!("a number from {least} to {most}"),
            Self::Decimal(least, most) => format!("a number from {least} to {most}"),
            Self::Time(least, most) => {
                format!("a time from {} to {}", format_duration(*least), format_duration(*most))
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

    /// Returns `true` if a scalar of this type is not printed as it is written.
    pub(crate) fn is_list_or_secret(&self) -> bool {
        matches!(self, Self::List(..)) || matches!(self, Self::Leaf(leaf) if leaf.secret)
    }

    /// Returns the type of the items of a list.
    pub(crate) fn item(&self) -> &Self {
        match self {
            Self::List(of, _) => of,
            Self::Either(kinds) => kinds.last().map_or(&Self::Any, Self::item),
            _ => &Self::Any,
        }
    }

    /// Returns the type of a key of a map.
    pub(crate) fn member(&self, name: &str) -> &Self {
        match self {
            Self::Section(section) | Self::One(section) => section.kind(name),
            Self::Named(_, of, _) => of,
            Self::Either(kinds) => kinds.last().map_or(&Self::Any, |kind| kind.member(name)),
            _ => &Self::Any,
        }
    }

    /// Returns `true` for a scalar or a list of scalars, which a variable can set.
    pub(crate) fn is_setting(&self) -> bool {
        match self {
            Self::List(of, _) => of.is_scalar(),
            other => other.is_scalar(),
        }
    }

    pub(crate) fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Flag
                | Self::Whole(..)
                | Self::Decimal(..)
                | Self::Time(..)
                | Self::Choice(_)
                | Self::Leaf(_)
        )
    }
}

/// Returns every setting of the process with a value, by its path: `listen.http`.
///
/// Stores, policies, rules and domains are lists or have names, and are not included.
pub(crate) fn settings() -> Vec<(String, &'static Field)> {
    let mut found = Vec::new();
    collect("", &ROOT, &mut found);
    found.retain(|(path, _)| path != "slidegate");
    found
}

fn collect(path: &str, section: &'static Section, found: &mut Vec<(String, &'static Field)>) {
    for field in section.fields() {
        let path =
            if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        match &field.kind {
            Kind::Section(section) => collect(&path, section, found),
            kind if kind.is_setting() => found.push((path, field)),
            _ => {}
        }
    }
}

/// Returns the variable of a setting: `SLIDEGATE_LISTEN_HTTP`.
pub(crate) fn variable(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// The prefix of the daemon's variables.
pub(crate) const VARIABLE_PREFIX: &str = "SLIDEGATE_";

#[cfg(test)]
mod tests;
