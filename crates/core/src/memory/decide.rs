//! Creates decisions from the numbers of a window.

use super::shard::Shared;
use crate::decision::{Decision, Outcome, QuotaDecision};
use crate::policy::QUOTAS_MAX;
use crate::quota::Quota;
use crate::receipt::Receipt;
use crate::time::{Moment, TickScale};
use crate::window::{DecodeContext, Limits, NEVER, QuotaStatus, Window};

/// A request to a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) fingerprint: u64,
    pub(crate) limits: &'a Limits,
    pub(crate) moment: Moment,
    pub(crate) cost: u64,
}

/// The result for an existing key, in a compact form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactDecision {
    pub(super) status: QuotaStatus,
    pub(super) epoch: u16,
}

impl CompactDecision {
    /// Appends the decision. It is written in place, because a decision is large and a function that
    /// returns one would copy it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would copy the decision")]
    pub(super) fn push_to(
        &self,
        decisions: &mut Vec<Decision>,
        request: &Request<'_>,
        scale: &TickScale,
    ) {
        let QuotaStatus { used, retry, reset, tick } = self.status;
        let Request { fingerprint, limits, cost, .. } = *request;
        let limit = limits.quota(0).limit;
        let reset = scale.nanos(reset);
        if retry != 0 {
            // A key with debt has used more than the limit.
            let remaining = limit.saturating_sub(used);
            let quota = QuotaDecision::from_nanos(limit, remaining, scale.nanos(retry), reset);
            decisions.push(Decision::one(Outcome::Deny, quota, None));
            return;
        }
        let quota = QuotaDecision::from_nanos(limit, limit - used, 0, reset);
        let receipt = Receipt { fingerprint, tick, units: cost, epoch: self.epoch };
        decisions.push(Decision::one(Outcome::Allow, quota, Some(receipt)));
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    pub(crate) fn decision(&self, request: &Request<'_>, scale: &TickScale) -> Decision {
        let QuotaStatus { used, retry, reset, tick } = self.status;
        let Request { fingerprint, limits, cost, .. } = *request;
        let limit = limits.quota(0).limit;
        if retry != 0 {
            return deny(limit, used, scale.nanos(retry), scale.nanos(reset));
        }
        // No algorithm allows a check after which more than the limit is used.
        let quota = QuotaDecision::from_nanos(limit, limit - used, 0, scale.nanos(reset));
        let receipt = Receipt { fingerprint, tick, units: cost, epoch: self.epoch };
        Decision::one(Outcome::Allow, quota, Some(receipt))
    }
}

/// Not inlined into the path of an allowed check, which would take a twentieth longer.
#[inline(never)]
fn deny(limit: u64, used: u64, retry: u64, reset: u64) -> Decision {
    let quota = QuotaDecision::from_nanos(limit, limit.saturating_sub(used), retry, reset);
    Decision::one(Outcome::Deny, quota, None)
}

/// Decides for an existing key with one quota, and takes the units if allowed.
#[inline]
pub(super) fn check_window<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    moment: Moment,
    shared: &Shared,
) -> CompactDecision {
    let Request { limits, cost, .. } = *request;
    let status = window
        .check_fast(limits, moment, cost, &shared.account)
        .unwrap_or_else(|| check_slowly(window, request, moment, shared));
    CompactDecision { status, epoch: window.epoch() }
}

/// Decides for one unit of an existing key, if [`Window::check_fast`] did not. It takes values
/// instead of a request, which every check would have to write to memory.
#[cold]
#[inline(never)]
pub(super) fn check_one_known<W: Window>(
    window: &mut W,
    fingerprint: u64,
    moment: Moment,
    shared: &Shared,
) -> Decision {
    let request = Request { fingerprint, limits: &shared.limits, moment, cost: 1 };
    let status = check_slowly(window, &request, moment, shared);
    CompactDecision { status, epoch: window.epoch() }.decision(&request, &shared.scale)
}

/// Decides if [`Window::check_fast`] did not.
#[inline]
fn check_slowly<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    moment: Moment,
    shared: &Shared,
) -> QuotaStatus {
    let Request { limits, cost, .. } = *request;
    if window.is_foreign(limits, 0)
        && let Some(mut copy) = copy(window, limits, shared)
    {
        let status = copy.check(limits, moment, cost, &shared.account);
        shared.account.shrink(copy.heap_bytes());
        if status.retry != 0 {
            return status;
        }
    }
    window.check(limits, moment, cost, &shared.account)
}

/// Decides for several quotas, and takes the units if allowed.
pub(super) fn check_all_quotas<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    shared: &Shared,
) -> Decision {
    if window.is_foreign(request.limits, 0) {
        let decision = look(window, request, shared, |copy| decide(copy, request, shared, false));
        if !decision.is_allowed() {
            return decision;
        }
    }
    window.advance(request.limits, request.moment.now, &shared.account);
    decide(window, request, shared, true)
}

/// Starts a new key with the estimates of the sketch.
pub(super) fn seed<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    estimates: &[u64; QUOTAS_MAX],
    shared: &Shared,
) {
    window.advance(request.limits, request.moment.now, &shared.account);
    if estimates.iter().any(|estimate| *estimate > 0) {
        // More only if the cost exceeds a limit: other keys stay in the sketches.
        let units = estimates.map(|units| units.min(Quota::LIMIT_MAX));
        window.seed(request.limits, request.moment, &units, &shared.account);
    }
    window.advance(request.limits, request.moment.now, &shared.account);
}

/// Runs `at_window` on a window that is advanced to now. Uses a copy if advancing would drop
/// entries that another tier still counts, or date units again.
pub(super) fn look<W: Window, R>(
    window: &mut W,
    request: &Request<'_>,
    shared: &Shared,
    at_window: impl FnOnce(&mut W) -> R,
) -> R {
    let Request { limits, moment, .. } = *request;
    if (shared.has_longer(limits) || window.is_foreign(limits, 0))
        && let Some(mut copy) = copy(window, limits, shared)
    {
        copy.advance(limits, moment.now, &shared.account);
        let seen = at_window(&mut copy);
        shared.account.shrink(copy.heap_bytes());
        return seen;
    }
    window.advance(limits, moment.now, &shared.account);
    at_window(window)
}

/// Copies a window. The caller returns the copy's bytes to the account.
pub(super) fn copy<W: Window>(window: &W, limits: &Limits, shared: &Shared) -> Option<W> {
    let mut bytes = Vec::new();
    window.encode(&mut bytes);
    let epoch = window.epoch();
    let context = DecodeContext { limits, epoch, account: &shared.account };
    W::decode(&mut bytes.as_slice(), &context).ok()
}

/// Decides for a window that was advanced to now, and takes the units if allowed and `take` is set.
pub(super) fn decide<W: Window>(
    window: &mut W,
    request: &Request<'_>,
    shared: &Shared,
    take: bool,
) -> Decision {
    let Request { fingerprint, limits, moment, cost } = *request;
    let mut retries = [0; QUOTAS_MAX];
    for (index, retry) in retries[..limits.quotas().len()].iter_mut().enumerate() {
        *retry = window.retry(limits, index, moment.now, cost);
    }
    let allowed = retries.iter().all(|retry| *retry == 0);
    let mut receipt = None;
    if allowed && take {
        let tick = window.take(limits, moment, cost, &shared.account);
        receipt = Some(Receipt { fingerprint, tick, units: cost, epoch: window.epoch() });
    }
    let quotas = limits.quotas().iter().zip(retries).enumerate().map(|(index, (quota, retry))| {
        let used = window.used(limits, index, moment.now);
        QuotaDecision::from_nanos(
            quota.limit,
            quota.limit.saturating_sub(used),
            shared.scale.nanos(retry),
            shared.scale.nanos(window.reset(limits, index, moment.now)),
        )
    });
    let outcome = if allowed { Outcome::Allow } else { Outcome::Deny };
    Decision::collect(outcome, quotas, receipt)
}

/// Returns the decision of [`OnFull::Deny`](super::OnFull::Deny) for a full table.
#[cold]
pub(super) fn deny_full(request: &Request<'_>, shared: &Shared) -> Decision {
    let wait = shared.scale.nanos(request.limits.longest());
    let quotas = request.limits.quotas().iter();
    let quotas =
        quotas.map(|quota| QuotaDecision::from_nanos(quota.limit, 0, wait.min(NEVER - 1), wait));
    Decision::collect(Outcome::Deny, quotas, None).into_estimated()
}
