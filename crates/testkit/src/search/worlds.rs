//! The worlds that are searched.

use slidegate_sim::definition::{Counting, TickQuota};

use super::{At, Operation, World};

/// Returns the worlds in which an algorithm is searched.
pub fn worlds(counting: Counting) -> Vec<World> {
    let quota = |limit, window| TickQuota { limit, window };
    let policies = [
        ("one quota", vec![vec![quota(3, 5)]]),
        ("two quotas", vec![vec![quota(2, 2), quota(4, 6)]]),
        ("a tier with a shorter window", vec![vec![quota(4, 6)], vec![quota(2, 3)]]),
        ("a tier with a longer window", vec![vec![quota(2, 3)], vec![quota(4, 6)]]),
        ("a tier with another limit", vec![vec![quota(2, 5)], vec![quota(4, 5)]]),
        ("a limit of zero", vec![vec![quota(0, 4)], vec![quota(1, 4)]]),
    ];
    let mut worlds = Vec::new();
    for (name, tiers) in policies {
        // Aligned to every window, and to none.
        for start in [60, 61] {
            let window = tiers[0][0].window;
            worlds.push(World {
                name: format!("{counting:?}, {name}, from tick {start}"),
                counting,
                bytes_max: 0,
                operations: operations(window, tiers.len()),
                tiers: tiers.clone(),
                start,
            });
        }
    }
    worlds
}

/// The operations of a world with one or two tiers.
fn operations(window: u64, tiers: usize) -> Vec<Operation> {
    use Operation as Op;
    let at = |tier| At { key: 0, tier };
    let half_ticks = |ticks: u64| i64::try_from(2 * ticks).unwrap_or(i64::MAX);
    let mut all = vec![Op::Restart, Op::Clock(1), Op::Clock(-2)];
    let steps = [1, window - 1, window, window + 1];
    all.extend(steps.into_iter().map(|ticks| Op::Clock(half_ticks(ticks))));
    all.extend([Op::Block(at(0), 2), Op::Unblock(at(0)), Op::Reset(at(0))]);
    all.extend([Op::Check(at(0), 2), Op::Check(at(0), 3), Op::Check(At { key: 1, tier: 0 }, 1)]);
    all.extend([Op::Refund(at(0), 1), Op::Refund(at(0), 2), Op::Settle(at(0), 1, 0)]);
    for tier in 0..tiers {
        let at = at(tier);
        all.extend([Op::Check(at, 1), Op::AtMost(at, 3), Op::Peek(at, 1), Op::Usage(at)]);
        all.extend([Op::Charge(at, 2), Op::Refund(at, 0), Op::Settle(at, 0, 0)]);
        all.extend([Op::Settle(at, 0, 3), Op::Forgive(at, 1), Op::Forgive(at, 3)]);
    }
    all
}
