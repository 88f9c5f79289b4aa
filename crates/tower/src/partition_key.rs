//! The form of a key that clients see.

use core::fmt;
use std::sync::Arc;

use crate::head::Head;
use crate::key::{Digest, KeyPart};

/// The form of a key that clients see: the parameter `pk` of `RateLimit` and
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
    /// Uses a keyed hash of the key, 16 bytes. It distinguishes keys and reveals nothing about
    /// them.
    ///
    /// The key of the hash is
    /// [`RateLimitLayerBuilder::secret`](crate::RateLimitLayerBuilder::secret). Without one it is
    /// random, so the hash differs between processes.
    pub fn digest() -> Self {
        Self(Source::Digest)
    }

    /// Uses the bytes that a function returns, or no partition key if it returns `None`.
    ///
    /// Every reader of the response sees them, so never return a credential. The draft recommends
    /// using only parts of the request and documenting them, so that clients can predict the key.
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
            // Differs from the digest of a secret key part in a shared store.
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
