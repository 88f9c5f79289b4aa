//! What clients see of the key they are counted by.

use core::fmt;
use std::sync::Arc;

use crate::head::Head;
use crate::key::{Digest, KeyPart};

/// What clients see of the key they are counted by: the parameter `pk` of `RateLimit` and
/// `RateLimit-Policy`.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
/// use slidegate_tower::{KeyBy, PartitionKey, Rule};
///
/// let limiter = Limiter::new(Policy::new("user", Quota::per_minute(100))?)?;
/// let rule = Rule::new(limiter)
///     .key(KeyBy::header("x-user"))
///     .partition_key(PartitionKey::digest());
/// # let _ = rule;
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct PartitionKey(Source);

#[derive(Clone)]
enum Source {
    Digest,
    With(Arc<Find>),
}

type Find = dyn Fn(&Head<'_>) -> Option<Box<[u8]>> + Send + Sync;

impl PartitionKey {
    /// A keyed hash of the key, 16 bytes. It distinguishes keys and reveals nothing about them.
    ///
    /// The key of the hash is [`RateLimitLayerBuilder::secret`](crate::RateLimitLayerBuilder::secret).
    /// Without one it is random, so that the same key has another hash in each process.
    pub fn digest() -> Self {
        Self(Source::Digest)
    }

    /// Bytes that a function makes from the request; `None` for no partition key.
    ///
    /// Everyone who sees the response sees them: never return a credential. The draft recommends to
    /// use only what is in the request and to document how, so that clients can predict the key.
    pub fn with<K: KeyPart>(of: impl Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static) -> Self {
        let find = move |head: &Head<'_>| {
            let mut found: Option<Box<[u8]>> = None;
            of(head)?.with_bytes(&mut |bytes| found = Some(bytes.into()));
            found
        };
        Self(Source::With(Arc::new(find)))
    }

    pub(crate) fn of(&self, head: &Head<'_>, key: &[u8], digest: &Digest) -> Option<Box<[u8]>> {
        match &self.0 {
            // Not the digest that a secret part of the key has in a shared store.
            Source::Digest => Some(digest.of(&[b"pk", key].concat()).into()),
            Source::With(find) => find(head),
        }
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Digest => "PartitionKey::digest",
            Source::With(_) => "PartitionKey::with",
        })
    }
}
