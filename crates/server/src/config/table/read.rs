//! Reads values of the configuration into the types of settings.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;

use slidegate::{Algorithm, FailureMode, OnFull, Quota, parse_duration};
use slidegate_http::QuotaUnit;

use super::leaves::endpoint;
use super::{Absent, FILE, Kind, Section, keywords, section};
use crate::config::files::{Files, resolve};
use crate::config::leaf;
use crate::config::report::Report;
use crate::config::source::Span;
use crate::config::yaml::{Node, Scalar, Shape, Style};

/// A type of settings.
///
/// Values have been checked against their [`Kind`] before: invalid ones have been reported.
pub(crate) trait Read: Sized {
    /// Reads a value. Returns `None` if it is invalid.
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;
}

/// The context of reading: the files that values name, and a report for those that cannot be read.
pub(crate) struct Reader<'a> {
    pub(crate) files: &'a mut Files,
    pub(crate) report: &'a mut Report,
}

/// A type with a keyword for each value.
pub(crate) trait Keyword: Sized {
    const KEYWORDS: &'static [&'static str];

    /// Returns the value of a keyword.
    fn from_keyword(keyword: &str) -> Option<Self>;
}

/// Reads the value of a key. Returns `None` if it is absent or invalid.
pub(crate) fn given<T: Read>(
    section: &Section,
    name: &str,
    node: &Node,
    reader: &mut Reader<'_>,
) -> Option<T> {
    let value = node.get(name)?;
    let kind = section.field(name).map(|field| &field.kind);
    if matches!(kind, Some(Kind::Leaf(leaf)) if core::ptr::eq(*leaf, &raw const FILE)) {
        reader.files.watch(value, reader.report);
    }
    T::read(value, reader)
}

/// The value of a key that is absent.
pub(crate) fn absent<T: Read + Default>(section: &Section, name: &str) -> T {
    let Some(Absent::Default(text)) = section.field(name).map(|field| &field.absent) else {
        return T::default();
    };
    let kind = match *text {
        "[]" => Shape::List(Vec::new()),
        "{}" => Shape::Map(Vec::new()),
        text => Shape::Scalar(Scalar { text: text.to_owned(), style: Style::Plain }),
    };
    let node = Node { kind, span: Span::NOWHERE };
    let (mut files, mut report) = (Files::new(false), Report::default());
    let mut reader = Reader { files: &mut files, report: &mut report };
    T::read(&node, &mut reader).unwrap_or_default()
}

/// Implements [`Read`] for types that a scalar is read into.
macro_rules! read_scalar {
    ($($type:ty: $scalar:ident => $read:expr;)+) => {$(
        impl Read for $type {
            fn read(node: &Node, _: &mut Reader<'_>) -> Option<Self> {
                let $scalar = node.as_scalar()?;
                $read
            }
        }
    )+};
}

fn whole<T: TryFrom<i128>>(scalar: &Scalar) -> Option<T> {
    leaf::whole(scalar).and_then(|number| T::try_from(number).ok())
}

read_scalar! {
    bool: scalar => leaf::flag(scalar);
    u8: scalar => whole(scalar);
    u32: scalar => whole(scalar);
    u64: scalar => whole(scalar);
    i64: scalar => whole(scalar);
    usize: scalar => whole(scalar);
    f64: scalar => leaf::decimal(scalar);
    Duration: scalar => parse_duration(&scalar.text).ok();
    IpAddr: scalar => scalar.text.parse().ok();
    String: scalar => Some(scalar.text.clone());
    QuotaUnit: scalar => Self::new(scalar.text.clone()).ok();
    ListenAddress: scalar => endpoint(&scalar.text).ok().map(ListenAddress);
}

/// A listen address. `None` is `off`.
#[derive(Default)]
pub(crate) struct ListenAddress(Option<SocketAddr>);

impl ListenAddress {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        self.0
    }
}

/// A path. In a file, it is relative to that file.
impl Read for PathBuf {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        resolve(node, reader.report)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }
}

/// A list, a variable with commas, or a single item.
impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        Some(match &node.kind {
            Shape::List(items) => items.iter().filter_map(|item| T::read(item, reader)).collect(),
            Shape::Scalar(scalar) if scalar.style == Style::Given => leaf::items(&scalar.text)
                .filter_map(|item| T::read(&Node::scalar(Scalar::given(item), node.span), reader))
                .collect(),
            _ => T::read(node, reader).into_iter().collect(),
        })
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let mut pair = |key: &str, value| Some((key.to_owned(), T::read(value, reader)?));
        let entries = node.entries().iter();
        Some(entries.filter_map(|entry| pair(&entry.key.text, &entry.value)).collect())
    }
}

/// A map of texts in the order of the file.
#[derive(Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl Read for Pairs {
    fn read(node: &Node, _: &mut Reader<'_>) -> Option<Self> {
        let pair =
            |key: &str, value: &Node| Some((key.to_owned(), value.as_scalar()?.text.clone()));
        let entries = node.entries().iter();
        Some(Self(entries.filter_map(|entry| pair(&entry.key.text, &entry.value)).collect()))
    }
}

keywords! { OnFull { Overflow = "overflow", Lru = "lru", Deny = "deny", } }
keywords! { FailureMode { Allow = "allow", Deny = "deny", Local = "local", } }

section! {
    /// A quota as a map.
    struct QuotaKeys, QUOTA_MAP = "a quota" {
        /// Units in any interval of the window's length. 0 denies every request.
        limit: u64 = Whole(0, LIMIT_MAX), required, example "1000";
        /// The time for which a unit counts.
        window: Duration = Time(MILLISECOND, Quota::WINDOW_MAX), required, example "1h";
    }
}

impl Read for Quota {
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(scalar) = node.as_scalar() {
            return scalar.text.parse().ok();
        }
        let QuotaKeys { limit, window } = Read::read(node, reader)?;
        Self::new(limit, window).ok()
    }
}

section! {
    static ALGORITHM_MAP = "an algorithm" {
        /// The number of sub-windows of a window.
        key segments = Whole(1, Algorithm::SEGMENTS_MAX as u64), absent "the other is set", example "60";
        /// The exact log up to this many bytes per key. Above it, neighboring entries are merged,
        /// which may deny early and never over-admits.
        key log_capped =
            Whole(Algorithm::LOG_BYTES_MIN as u64, Algorithm::LOG_BYTES_MAX as u64), absent "the other is set", example "4096";
    }
}

impl Read for Algorithm {
    fn read(node: &Node, _: &mut Reader<'_>) -> Option<Self> {
        algorithm(node)
    }
}

/// Reads an algorithm: a name, or a map of a name and its number.
pub(crate) fn algorithm(node: &Node) -> Option<Algorithm> {
    if let Some(scalar) = node.as_scalar() {
        return Algorithm::from_parts(&scalar.text, None).ok();
    }
    let entry = node.entries().iter().find(|entry| !entry.value.is_null())?;
    let number = entry.value.as_scalar().and_then(whole)?;
    Algorithm::from_parts(&entry.key.text, Some(number)).ok()
}
