//! Random traces from a seed.

use slidegate::Quota;
use slidegate_sim::Random;

use crate::policy::{Algorithm, Mode, PolicySpec, QuotaSpec};
use crate::trace::{Op, Step, Trace};

/// Returns a trace of one policy without expectations: mostly up to 150 steps. One in a hundred
/// traces of a log has thousands of steps, with small costs and without long pauses, so that the
/// log becomes long.
///
/// It tries error-prone cases: times exactly at, just before and just after the end of a window,
/// skipped windows, costs at and above the limit, numbers near 2^53, late receipts, several quotas,
/// limits of zero, a clock that goes back.
pub fn random_trace(seed: u64, algorithm: Algorithm) -> Trace {
    let mut random = Random::new(seed);
    let calm = algorithm == Algorithm::Log && seed % 101 == 100;
    let mut policy = random_policy(&mut random, algorithm);
    if calm {
        policy.tiers.clear();
        for quota in &mut policy.quotas {
            quota.limit = random.between(500, 4000);
            quota.window_ms = policy.tick_ms * random.between(10_000, 4_000_000);
        }
    }
    if seed % 23 == 22
        && let Some(quota) = policy.quotas.last_mut()
    {
        quota.limit = 0;
    }
    let start_ms = match random.between(0, 3) {
        0 => 0,
        1 => random.between(0, 1_000_000),
        _ => random.between(1_600_000_000_000, 1_900_000_000_000),
    };
    let start_ms = start_ms / policy.tick_ms * policy.tick_ms;
    let walks_back = seed.is_multiple_of(3);
    let walk = Walk { random, at_ms: 0, receipts: Vec::new(), walks_back, calm };
    let steps = walk.steps(&policy);
    let name = format!("random-{algorithm:?}-{seed}").to_lowercase();
    let why = "Generated from a seed.".into();
    Trace { name, why, requires: Vec::new(), policy, start_ms, steps }
}

fn random_policy(random: &mut Random, algorithm: Algorithm) -> PolicySpec {
    let tick_ms = if random.chance(10) { random.pick(&[2, 10, 1000]) } else { 1 };
    let count = if random.chance(70) { 1 } else { random.between(2, 4) };
    let quotas = (0..count).map(|_| random_quota(random, tick_ms)).collect();
    let mut policy = PolicySpec { tick_ms, ..PolicySpec::new(algorithm, quotas) };
    if random.chance(10) {
        policy.mode = Mode::Shadow;
    }
    if random.chance(20) && algorithm != Algorithm::Gcra {
        // Other limits in the same windows. The traces cover other windows.
        let other = |quota: &QuotaSpec| QuotaSpec { limit: quota.limit / 2 + 3, ..*quota };
        policy.tiers.insert("other".into(), policy.quotas.iter().map(other).collect());
    }
    if algorithm == Algorithm::Segments {
        let segments = random.pick(&[1, 2, 3, 5, 6, 7, 10, 60, 61, 1000, 1024]);
        policy.segments = Some(segments);
    }
    policy
}

fn random_quota(random: &mut Random, tick_ms: u64) -> QuotaSpec {
    let limit = match random.between(0, 9) {
        0 => 1,
        1..=5 => random.between(1, 12),
        6..=7 => random.between(13, 300),
        8 => random.between(1000, 1 << 40),
        _ => Quota::LIMIT_MAX - random.between(0, 2),
    };
    let window = match random.between(0, 9) {
        0..=2 => random.between(1, 50),
        3..=5 => random.between(51, 5000),
        6..=7 => random.pick(&[1000, 60_000, 3_600_000, 86_400_000]),
        8 => random.between(5000, 100_000_000),
        _ => WINDOW_MS_MAX / tick_ms,
    };
    let window_ms = (window * tick_ms).min(WINDOW_MS_MAX / tick_ms * tick_ms);
    QuotaSpec { limit, window_ms }
}

const WINDOW_MS_MAX: u64 = Quota::WINDOW_MAX.as_secs() * 1000;

/// A walk through time with occasional operations.
struct Walk {
    random: Random,
    at_ms: u64,
    /// Labels not yet consumed, with their costs.
    receipts: Vec<(String, u64)>,
    walks_back: bool,
    /// Checks often and never pauses for long.
    calm: bool,
}

impl Walk {
    fn steps(mut self, policy: &PolicySpec) -> Vec<Step> {
        let count = if self.calm { 3000 } else { self.random.between(5, 150) };
        let mut steps = Vec::new();
        for number in 0..count {
            let quota = self.random.pick(&policy.quotas);
            let before_ms = self.at_ms;
            self.advance(quota, policy.tick_ms);
            if policy.algorithm == Algorithm::Gcra && self.at_ms > before_ms {
                // The traces cover how much of it has been refilled.
                self.receipts.clear();
            }
            if self.walks_back && self.random.chance(4) {
                // The check before makes sure that the store has seen the later time.
                steps.push(Step::new(self.at_ms, Op::Check));
                let back = self.random.between(1, quota.window_ms) / policy.tick_ms;
                let mut step = self.check(quota, format!("back{number}"));
                step.at_ms = self.at_ms.saturating_sub(back * policy.tick_ms);
                steps.push(step);
            }
            let mut step = self.step(policy, quota, number);
            if !self.walks_back && self.random.chance(10) && step.of.is_none() {
                step.key = "other".into();
            }
            if step.op == Op::Check && self.random.chance(20) {
                step.tier = policy.tiers.keys().next().cloned();
            }
            steps.push(step);
        }
        steps
    }

    fn advance(&mut self, quota: QuotaSpec, tick_ms: u64) {
        let window = quota.window_ms / tick_ms;
        let ticks = match self.random.between(0, if self.calm { 13 } else { 19 }) {
            0..=8 => 0,
            9..=10 => 1,
            11..=13 if self.calm => self.random.between(0, window / 500),
            11..=13 => self.random.between(0, window / 10),
            14..=15 => self.random.between(0, window),
            16 => window,
            17 => window - 1,
            18 => window + 1,
            _ => window * self.random.between(1, 4) + self.random.between(0, 1),
        };
        // Eighty years: from the latest start, that is before 2116, where clocks may end.
        self.at_ms = (self.at_ms + ticks * tick_ms).min(WINDOW_MS_MAX * 8 / tick_ms * tick_ms);
    }

    fn step(&mut self, policy: &PolicySpec, quota: QuotaSpec, number: u64) -> Step {
        let at_ms = self.at_ms;
        let algorithm = policy.algorithm;
        match self.random.between(0, 99) {
            0..=9 => Step { cost: self.cost(quota), ..Step::new(at_ms, Op::Peek) },
            10..=14 => Step::new(at_ms, Op::Usage),
            15..=17 if algorithm == Algorithm::Log => Step::new(at_ms, Op::History),
            18 if !self.calm => Step::new(at_ms, Op::Reset),
            19..=29 if !self.receipts.is_empty() => {
                let (label, _) = self.receipt();
                Step { of: Some(label), ..Step::new(at_ms, Op::Refund) }
            }
            30..=36 if !self.receipts.is_empty() => {
                let (label, cost) = self.receipt();
                let actual = match self.random.between(0, 3) {
                    0 => self.random.between(0, cost),
                    1 => cost,
                    _ => cost.saturating_add(self.debt(policy, quota)).min(Quota::LIMIT_MAX),
                };
                Step { of: Some(label), actual: Some(actual), ..Step::new(at_ms, Op::Settle) }
            }
            37..=41 => {
                let label = format!("r{number}");
                // It takes at least one unit. The store determines how many more.
                self.receipts.push((label.clone(), 1));
                let cost = self.cost(quota);
                Step { cost, keep_as: Some(label), ..Step::new(at_ms, Op::CheckAtMost) }
            }
            42 => Step { cost: self.debt(policy, quota), ..Step::new(at_ms, Op::Charge) },
            _ => self.check(quota, format!("r{number}")),
        }
    }

    /// Returns a debt. A bucket refills its debt with time, and times above 584 years cannot be
    /// represented, so the debt is bounded.
    fn debt(&mut self, policy: &PolicySpec, quota: QuotaSpec) -> u64 {
        let debt = self.cost(quota);
        match policy.quotas.iter().map(|quota| quota.limit).min() {
            Some(limit) if policy.algorithm == Algorithm::Gcra => {
                debt.min(limit.saturating_mul(20))
            }
            _ => debt,
        }
    }

    fn check(&mut self, quota: QuotaSpec, label: String) -> Step {
        let cost = self.cost(quota);
        self.receipts.push((label.clone(), cost));
        Step { cost, keep_as: Some(label), ..Step::new(self.at_ms, Op::Check) }
    }

    fn receipt(&mut self) -> (String, u64) {
        let len = self.receipts.len();
        let index = if self.random.chance(50) { len - 1 } else { self.random.index(len) };
        self.receipts.remove(index)
    }

    fn cost(&mut self, quota: QuotaSpec) -> u64 {
        let cost = match self.random.between(0, 9) {
            _ if self.calm && self.random.between(0, 999) > 1 => self.random.pick(&[1, 1, 1, 2]),
            0..=4 => 1,
            5..=6 => self.random.between(1, quota.limit.div_ceil(4).max(1)),
            7 => self.random.between(1, quota.limit.max(1)),
            8 => quota.limit,
            _ => quota.limit.saturating_add(self.random.pick(&[1, 2, 1000])),
        };
        cost.clamp(1, Quota::LIMIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_trace() {
        assert_eq!(Random::new(1).bits(), 0x910a_2dec_8902_5cc1);
        assert_eq!(random_trace(7, Algorithm::Log), random_trace(7, Algorithm::Log));
        assert_ne!(random_trace(7, Algorithm::Log), random_trace(8, Algorithm::Log));
    }

    #[test]
    fn numbers_stay_between_their_bounds_and_reach_them() {
        let mut random = Random::new(3);
        let seen: std::collections::BTreeSet<_> = (0..500).map(|_| random.between(2, 5)).collect();
        assert_eq!(seen, [2, 3, 4, 5].into());
    }
}
