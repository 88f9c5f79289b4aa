//! Which rate limit fields replies carry.

use core::fmt;

use slidegate_http::{Body, Fields, Form, Reset};

use super::table::{Reader, keywords, section};
use super::yaml::Node;
use crate::spec::read_secret;

section! {
    /// The rate limit fields of the HTTP API with `?status=429` and of forward auth, and the body of
    /// their denials.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HeaderSettings, HEADERS = "rate limit fields" {
        /// The form of `RateLimit` and `RateLimit-Policy`: `list` is that of drafts -08 and later,
        /// `dictionary` that of -07, `triple` that of -06 (`RateLimit-Limit`, `-Remaining` and
        /// `-Reset`).
        ratelimit: RateLimitForm = Choice(RateLimitForm::KEYWORDS), default "list", example "triple";
        /// The form of `X-RateLimit-Reset`: `seconds` from now, or seconds since the `epoch` by this
        /// machine's clock. `off` leaves out all three `X-RateLimit-*`.
        x_ratelimit: ResetForm = Choice(ResetForm::KEYWORDS), default "seconds", example "epoch";
        /// Whether denials carry `Retry-After`.
        retry_after: bool = Flag, default "true", example "false";
        /// Whether policies in shadow mode are included. Clients that slow down for a limit that is not
        /// enforced distort what shadow mode observes.
        shadow: bool = Flag, default "false", example "true";
        /// The body of denials: `application/problem+json`, or plain JSON with `error` and `message`.
        body: DenialBody = Choice(DenialBody::KEYWORDS), default "problem", example "json";
        /// A file of at least 16 bytes, the same on all nodes. Clients then see a hash of their key
        /// under this secret as `pk` in `RateLimit` and `RateLimit-Policy`.
        key partition_secret_file = Leaf(&PATH), absent "no `pk`", example "partition.secret";
        /// The secret of partition keys: never shown.
        let partition_secret: Option<PartitionSecret> = partition_secret, else None;
    }
}

keywords! {
    /// The form of `RateLimit` and `RateLimit-Policy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum RateLimitForm {
        /// Drafts -08 and later.
        #[default]
        List = "list",
        /// Draft -07.
        Dictionary = "dictionary",
        /// Draft -06.
        Triple = "triple",
        /// Neither field.
        Off = "off",
    }
}

keywords! {
    /// The form of `X-RateLimit-Reset`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ResetForm {
        /// Seconds from now.
        #[default]
        Seconds = "seconds",
        /// Seconds since the epoch.
        Epoch = "epoch",
        /// None of `X-RateLimit-*`.
        Off = "off",
    }
}

keywords! {
    /// The body of a denial.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum DenialBody {
        /// `application/problem+json`.
        #[default]
        Problem = "problem",
        /// `application/json`.
        Json = "json",
    }
}

/// The secret under which partition keys are hashed. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct PartitionSecret(Box<[u8]>);

impl PartitionSecret {
    /// Takes the bytes of a secret.
    pub fn new(secret: impl Into<Box<[u8]>>) -> Self {
        Self(secret.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PartitionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionSecret(..)")
    }
}

fn partition_secret(node: &Node, reader: &mut Reader<'_>) -> Option<PartitionSecret> {
    let secret = read_secret(node.get("partition_secret_file")?, reader)?;
    Some(PartitionSecret::new(secret))
}

impl HeaderSettings {
    /// Returns the fields of a reply, as `slidegate-http` writes them.
    pub fn fields(&self) -> Fields {
        Fields::none()
            .ratelimit(match self.ratelimit {
                RateLimitForm::List => Some(Form::List),
                RateLimitForm::Dictionary => Some(Form::Dictionary),
                RateLimitForm::Triple => Some(Form::Triple),
                RateLimitForm::Off => None,
            })
            .x_ratelimit(match self.x_ratelimit {
                ResetForm::Seconds => Some(Reset::Delta),
                ResetForm::Epoch => Some(Reset::Epoch),
                ResetForm::Off => None,
            })
            .retry_after(self.retry_after)
            .shadow(self.shadow)
    }

    /// Returns the form of a denial's body.
    pub fn body(&self) -> Body {
        match self.body {
            DenialBody::Problem => Body::Problem,
            DenialBody::Json => Body::Json,
        }
    }
}
