//! The decision about a request, for its handler.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;
use slidegate::{Decision, DegradedReason, Error, Outcome, QuotaDecision, Receipt};
use slidegate_gate::{Gate, GateDecision, GateOutcome, TierId};

use crate::key::KeyBytes;
use crate::rules::LayerRules;

/// The decision of the layer about an allowed request, as a request extension.
///
/// It has a [`Charge`] for each policy that applied. A handler reads the remaining units, and
/// corrects the units that the layer took before the real cost was known.
///
/// It exists if the layer was built with
/// [`share_decision`](crate::RateLimitLayerBuilder::share_decision). With the feature `axum` it is
/// an extractor; otherwise get it from the request's extensions.
///
/// ```
/// use slidegate_tower::RateLimitDecision;
///
/// /// The layer takes 1000 tokens before the call. The real number is known afterwards.
/// async fn complete(decision: RateLimitDecision) -> Result<String, slidegate::Error> {
///     let (text, tokens) = ("an answer".to_owned(), 120);
///     if let Some(charge) = decision.policy("tokens") {
///         charge.settle(tokens).await?;
///     }
///     Ok(text)
/// }
/// # let _ = complete;
/// ```
///
/// If two nested layers share their decisions, the handler gets the charges of
/// both, those of the outer layer first.
#[derive(Clone)]
pub struct RateLimitDecision {
    charges: Vec<Charge>,
}

/// The decision of one policy about a request, and the units that it took.
///
/// Clones are the same charge, so one can be moved into a task or a response body that settles it
/// when the work is done. A charge that is not settled stays as it was taken.
#[derive(Clone)]
pub struct Charge {
    rules: Arc<LayerRules>,
    decided: Arc<RuleDecided>,
}

/// The result of the gate of one rule.
pub(crate) struct RuleDecided {
    pub(crate) rule: usize,
    pub(crate) tier: Option<TierId>,
    /// Kept if the units may have to be refunded or settled.
    pub(crate) key: Option<Box<KeyBytes>>,
    pub(crate) partition_key: Option<Box<[u8]>>,
    decided: Mutex<GateDecision>,
}

impl RateLimitDecision {
    /// Inserts the decisions of one layer after those of outer layers.
    #[cold]
    pub(crate) fn insert(
        decided: &[Arc<RuleDecided>],
        rules: &Arc<LayerRules>,
        extensions: &mut Extensions,
    ) {
        let mut charges = extensions.remove::<Self>().map_or_else(Vec::new, |outer| outer.charges);
        charges.extend(
            decided
                .iter()
                .map(|decided| Charge { rules: Arc::clone(rules), decided: Arc::clone(decided) }),
        );
        extensions.insert(Self { charges });
    }

    /// Returns the charges of all policies that applied, in the order of the rules.
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// Returns the charge of a policy. Returns `None` if no rule with this policy applied.
    pub fn policy(&self, name: &str) -> Option<&Charge> {
        self.charges.iter().find(|charge| charge.policy() == name)
    }

    /// Returns the units left in the tightest quota of the enforced policies, or `None` if there is
    /// none.
    pub fn remaining(&self) -> Option<u64> {
        let enforced = self.charges.iter().filter(|charge| charge.is_enforced());
        enforced.flat_map(Charge::quotas).map(|quota| quota.remaining()).min()
    }
}

impl Charge {
    /// Returns the name of the policy.
    pub fn policy(&self) -> &str {
        self.gate().name()
    }

    /// Returns the gate that decided.
    pub fn gate(&self) -> &Gate {
        &self.rules.rules[self.decided.rule].gate
    }

    /// Returns the tier of the key, or `None` for the quotas of the policy.
    pub fn tier(&self) -> Option<TierId> {
        self.decided.tier
    }

    /// Returns the key in the form that the gate uses, for [`Gate::settle`] and similar methods. It
    /// may contain a credential of the client.
    pub fn key(&self) -> &[u8] {
        self.decided.key.as_ref().map_or(&[], |key| key.as_slice())
    }

    /// Returns the status of each quota at the time of the decision, corrected by later
    /// settlements.
    pub fn quotas(&self) -> Vec<QuotaDecision> {
        self.decided.lock().decision.quotas().to_vec()
    }

    /// Returns the outcome of the request at this policy.
    pub fn outcome(&self) -> GateOutcome {
        self.decided.lock().outcome
    }

    /// Returns `true` if denials of this policy are enforced for the key.
    pub fn is_enforced(&self) -> bool {
        self.decided.lock().is_enforced
    }

    /// Returns `true` if the store failed, so that the failure mode decided.
    pub fn is_degraded(&self) -> bool {
        self.decided.lock().decision.is_degraded()
    }

    /// Returns the reason why the store did not decide, or `None` if it did.
    pub fn degraded_reason(&self) -> Option<DegradedReason> {
        self.decided.lock().decision.degraded_reason()
    }

    /// Returns the units that were taken and can still be settled. Returns zero if nothing was
    /// taken (in shadow mode over the limit, switched off, or while the store fails), or if the
    /// receipt was taken.
    pub fn units(&self) -> u64 {
        self.decided.lock().decision.receipt().map_or(0, Receipt::units)
    }

    /// Corrects the taken units to the actual cost, once. Returns the total number of units
    /// charged, or zero if there is [nothing to settle](Self::units).
    ///
    /// If the actual cost is lower, the difference is refunded. If it is higher, the difference is
    /// charged even above the limit, because it was used. Fields of the response show the corrected
    /// numbers if this completes before the response.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. The charge then stays as it was taken.
    pub async fn settle(&self, actual: u64) -> Result<u64, Error> {
        let Some(receipt) = self.take_receipt() else { return Ok(0) };
        let taken = receipt.units();
        let charged = self.gate().settle(self.key(), self.tier(), receipt, actual).await?;
        self.decided.correct(taken, charged);
        Ok(charged)
    }

    /// Refunds all units that were taken, once. Returns the number that was still counted.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. The charge then stays as it was taken.
    pub async fn refund(&self) -> Result<u64, Error> {
        let Some(receipt) = self.take_receipt() else { return Ok(0) };
        let returned = self.gate().refund(self.key(), self.tier(), receipt).await?;
        self.decided.correct(returned, 0);
        Ok(returned)
    }

    /// Takes the receipt, to settle or refund it later with [`gate`](Self::gate),
    /// [`key`](Self::key) and [`tier`](Self::tier).
    ///
    /// Afterwards, the layer has no receipt and does not refund the units of a response that does
    /// not [count](crate::Count).
    pub fn take_receipt(&self) -> Option<Receipt> {
        self.decided.lock().decision.take_receipt()
    }
}

impl RuleDecided {
    pub(crate) fn new(rule: usize, tier: Option<TierId>, decided: GateDecision) -> Self {
        Self { rule, tier, key: None, partition_key: None, decided: Mutex::new(decided) }
    }

    /// Locks the decision, also after a panic: no user function runs under the lock, so it is
    /// consistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, GateDecision> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_denied(&self) -> bool {
        let decided = self.lock();
        decided.is_enforced && !decided.decision.is_allowed()
    }

    /// Refunds the units of a response that does not count, unless the handler has settled them.
    pub(crate) async fn uncount(&self, gate: &Gate) {
        let Some(key) = &self.key else { return };
        let mut taken = {
            let mut decided = self.lock();
            let receipt = decided.decision.take_receipt();
            GateDecision {
                decision: Decision::new(Outcome::Allow, &[], receipt),
                outcome: decided.outcome,
                is_enforced: decided.is_enforced,
                candidate: decided.candidate.take(),
            }
        };
        let returned = gate.uncount(key.as_slice(), self.tier, &mut taken).await;
        self.lock().decision.return_units(returned);
    }

    /// Updates the remaining units after `taken` units became `charged`.
    fn correct(&self, taken: u64, charged: u64) {
        let mut decided = self.lock();
        if charged <= taken {
            decided.decision.return_units(taken - charged);
            return;
        }
        let less = |quota: &QuotaDecision| {
            let remaining = quota.remaining().saturating_sub(charged - taken);
            QuotaDecision::new(quota.limit(), remaining, quota.retry_after(), quota.reset_after())
        };
        let quotas: Vec<_> = decided.decision.quotas().iter().map(less).collect();
        let decision = Decision::new(Outcome::Allow, &quotas, None);
        decided.decision = match decided.decision.degraded_reason() {
            Some(reason) => decision.into_degraded(reason),
            None => decision,
        };
    }
}

/// With the feature `axum`, handlers take it as an argument.
#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for RateLimitDecision {
    type Rejection = (http::StatusCode, &'static str);

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _: &S,
    ) -> Result<Self, Self::Rejection> {
        let missing = "no rate limit decision: build the RateLimitLayer with `.share_decision()`, \
            and apply it to this handler";
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or((http::StatusCode::INTERNAL_SERVER_ERROR, missing))
    }
}

impl fmt::Debug for RateLimitDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.charges).finish()
    }
}

/// Omits the key, which may be a secret.
impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("policy", &self.policy())
            .field("outcome", &self.outcome())
            .field("quotas", &self.quotas())
            .finish_non_exhaustive()
    }
}
