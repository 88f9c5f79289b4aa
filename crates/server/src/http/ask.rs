//! What requests say, as it is read.

use core::fmt;
use std::borrow::Cow;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use slidegate::Cost;

use super::problem::{Refusal, RefusalKind};
use super::quick;
use crate::engine::{Limit, Plan, TierId};
use crate::receipt::ReceiptWord;

/// Who asks for how much: the body of most requests, or a query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    #[serde(default)]
    pub(super) cost: Option<Units<'a>>,
    #[serde(default, borrow)]
    pub(super) tier: Option<Text<'a>>,
}

/// Several asks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AsksBody<'a> {
    #[serde(borrow)]
    pub(super) asks: Vec<AskBody<'a>>,
}

/// An estimate to be taken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReserveBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    pub(super) cost: Units<'a>,
    #[serde(default, borrow)]
    pub(super) tier: Option<Text<'a>>,
}

/// Whom something is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhoBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    #[serde(default, borrow)]
    pub(super) tier: Option<Text<'a>>,
}

/// What is given back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RefundBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    #[serde(default, borrow)]
    pub(super) tier: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) receipt: Text<'a>,
}

/// What an estimate turned out to be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    #[serde(default, borrow)]
    pub(super) tier: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) receipt: Text<'a>,
    pub(super) actual: Units<'a>,
}

/// What to forget.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResetBody<'a> {
    #[serde(borrow)]
    pub(super) policy: Text<'a>,
    #[serde(borrow)]
    pub(super) key: Text<'a>,
}

/// Text that is borrowed unless it has escapes.
#[derive(Debug)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// A number as it came: what is wrong with it is for the one who knows its name to say.
#[derive(Debug)]
pub(super) enum Units<'a> {
    Whole(u64),
    Other(Cow<'a, str>),
}

/// A limit with whom and how much, as a plan knows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) limit: &'a Limit,
    pub(super) key: &'a [u8],
    pub(super) tier: Option<TierId>,
    pub(super) cost: Cost,
}

/// The largest cost, limit and count: 2^53 - 1.
pub(super) const UNITS_MAX: u64 = slidegate::Quota::LIMIT_MAX;

impl AskBody<'_> {
    #[inline]
    pub(super) fn find<'a>(
        &'a self,
        plan: &'a Plan,
        key_max: usize,
    ) -> Result<Question<'a>, Refusal> {
        // What is malformed is so whether or not there is the policy.
        let cost = match &self.cost {
            None => Cost::ONE,
            Some(units) => units.cost()?,
        };
        let (limit, tier, key) = find(plan, &self.policy, &self.key, self.tier.as_ref(), key_max)?;
        Ok(Question { limit, key, tier, cost })
    }
}

/// The limit and tier of these names, and the key if it may be one.
#[inline]
pub(super) fn find<'a>(
    plan: &'a Plan,
    policy: &Text<'_>,
    key: &'a Text<'_>,
    tier: Option<&Text<'_>>,
    key_max: usize,
) -> Result<(&'a Limit, Option<TierId>, &'a [u8]), Refusal> {
    // As many bytes are at least as many characters.
    if key.0.is_empty() || key.0.len() > key_max && key.0.chars().nth(key_max).is_some() {
        return Err(bad_key(&key.0, key_max));
    }
    let Some(limit) = plan.limit(&policy.0) else {
        return Err(unknown_policy(plan, &policy.0));
    };
    let tier = match tier {
        None => None,
        Some(name) => Some(limit.tier(&name.0).ok_or_else(|| unknown_tier(limit, &name.0))?),
    };
    Ok((limit, tier, key.0.as_bytes()))
}

#[cold]
pub(super) fn unknown_policy(plan: &Plan, name: &str) -> Refusal {
    let names = plan.spec().policies.iter().map(|policy| policy.name.as_str());
    Refusal::unknown(RefusalKind::UnknownPolicy, &"policy", name, names)
}

#[cold]
fn unknown_tier(limit: &Limit, name: &str) -> Refusal {
    let what = format_args!("tier of policy {:?} named", limit.name()).to_string();
    Refusal::unknown(RefusalKind::UnknownTier, &what, name, limit.tier_names())
}

/// Never shows the key: it may be a secret.
#[cold]
fn bad_key(key: &str, key_max: usize) -> Refusal {
    let count = key.chars().count();
    Refusal::malformed(format!("a key of {count} characters is out of range: use 1 to {key_max}"))
}

/// The receipt that a word stands for.
pub(super) fn receipt(text: &Text<'_>) -> Result<ReceiptWord, Refusal> {
    ReceiptWord::parse(&text.0).ok_or_else(|| {
        let shown = super::problem::shown(&text.0);
        Refusal::malformed(format!(
            "receipt {shown} is malformed: send it as an allowed check gave it"
        ))
    })
}

impl Units<'_> {
    /// From one on.
    pub(super) fn cost(&self) -> Result<Cost, Refusal> {
        let cost = match self {
            Self::Whole(units) => Cost::new(*units).ok(),
            Self::Other(_) => None,
        };
        cost.ok_or_else(|| self.out_of_range("cost", 1))
    }

    /// From zero on.
    pub(super) fn actual(&self) -> Result<u64, Refusal> {
        match self {
            Self::Whole(units) if *units <= UNITS_MAX => Ok(*units),
            _ => Err(self.out_of_range("actual", 0)),
        }
    }

    #[cold]
    fn out_of_range(&self, what: &str, least: u64) -> Refusal {
        let value: &dyn fmt::Display = match self {
            Self::Whole(units) => units,
            Self::Other(text) => text,
        };
        let value = value.to_string();
        let value: String = value.chars().take(40).collect();
        Refusal::malformed(format!(
            "{what} {value} is out of range: use a whole number from {least} to {UNITS_MAX}"
        ))
    }
}

/// Digits of a query.
impl<'a> From<Cow<'a, str>> for Units<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(units) if is_digits => Self::Whole(units),
            _ => Self::Other(text),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    #[inline]
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Units<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(UnitsVisitor).map(|units| match units {
            Units::Whole(units) => Self::Whole(units),
            Units::Other(text) => Self::Other(Cow::Owned(text.into_owned())),
        })
    }
}

struct UnitsVisitor;

impl Visitor<'_> for UnitsVisitor {
    type Value = Units<'static>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number")
    }

    fn visit_u64<E>(self, units: u64) -> Result<Self::Value, E> {
        Ok(Units::Whole(units))
    }

    fn visit_i64<E>(self, units: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(units).map_or_else(|_| other(&units), Units::Whole))
    }

    // In JSON, 3.0 is the number 3.
    fn visit_f64<E: serde::de::Error>(self, units: f64) -> Result<Self::Value, E> {
        if !units.is_finite() {
            return Err(E::custom("a number that is none"));
        }
        let digits = format!("{units}");
        Ok(digits.parse().map_or_else(|_| other(&digits), Units::Whole))
    }
}

fn other(value: &dyn fmt::Display) -> Units<'static> {
    Units::Other(Cow::Owned(value.to_string()))
}

/// Reads a body as JSON.
#[inline]
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    // Looked at once, not once for each text in it.
    serde_json::from_str(as_text(body)?).map_err(|error| malformed(&error))
}

/// Reads the body of a check, the usual one without the parser.
#[inline]
pub(super) fn parse_ask(body: &[u8]) -> Result<AskBody<'_>, Refusal> {
    match quick::read(as_text(body)?) {
        Some(ask) => Ok(ask),
        None => parse(body),
    }
}

#[inline]
fn as_text(body: &[u8]) -> Result<&str, Refusal> {
    core::str::from_utf8(body).map_err(|error| malformed(&error))
}

#[cold]
fn malformed(error: &dyn fmt::Display) -> Refusal {
    // It may show a part of what came, which is cut; never a whole key.
    let reason: String = error.to_string().chars().take(200).collect();
    Refusal::malformed(format!("the body is not what is asked for: {reason}"))
}
