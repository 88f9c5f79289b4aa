//! Leases, and operations that an algorithm does not support.

use slidegate::Algorithm;

use super::super::{KeyReply, Op};
use super::{Caller, START, decided, limits, ms, retry_after};

// A lease takes what there is and counts from its end, so that its holder may use it until then.
#[test]
pub(super) fn a_lease_takes_what_fits_and_is_dated_ahead() {
    let mut caller = Caller::start();
    let window = ms(1000);
    let limits = limits(Algorithm::Log, &[(10, 1000)]);
    let lease = |units_max| Op::Lease { units_min: 1, units_max, ahead: ms(50) };
    let ask = |caller: &mut Caller, at, op| caller.run(START + ms(at), "k", &limits, op).unwrap();
    assert_eq!(decided(&ask(&mut caller, 0, Op::Check { cost: 3 })), (true, 3, 3));
    assert_eq!(decided(&ask(&mut caller, 0, lease(4))), (true, 4, 7));
    assert_eq!(decided(&ask(&mut caller, 10, lease(100))), (true, 3, 10));
    let none = ask(&mut caller, 20, lease(5));
    assert_eq!(decided(&none), (false, 0, 10));
    assert_eq!(retry_after(&none), Some(ms(980)));
    // The three go at 1000, the first lease at 1050, the second at 1060.
    assert_eq!(decided(&ask(&mut caller, 1000, Op::Peek { cost: 1 })).2, 7);
    assert_eq!(decided(&ask(&mut caller, 1049, Op::Peek { cost: 1 })).2, 7);
    assert_eq!(decided(&ask(&mut caller, 1050, Op::Peek { cost: 1 })).2, 3);
    let _ = ask(&mut caller, 1055, Op::Check { cost: 1 });
    let KeyReply::History(page) = ask(&mut caller, 1055, Op::History { from: 0 }) else {
        panic!("no history")
    };
    let begin = u64::try_from(START.as_millis()).unwrap();
    let entries: Vec<_> =
        page.entries.into_iter().map(|(tick, units)| (tick - begin, units)).collect();
    assert_eq!(entries, [(60, 3), (1055, 1)]);
    assert!(window > ms(50));
}

// What is not used goes back, and a clock gone back is not taken for one that is leased ahead.
#[test]
pub(super) fn a_lease_is_given_back_and_moves_with_the_clock() {
    let mut caller = Caller::start();
    for algorithm in [Algorithm::Log, Algorithm::Gcra] {
        caller.flush();
        let limits = limits(algorithm, &[(10, 1000)]);
        let lease = Op::Lease { units_min: 1, units_max: 6, ahead: ms(500) };
        let KeyReply::Decision { tick, units, epoch, .. } =
            caller.run(START, "k", &limits, lease).unwrap()
        else {
            panic!("no decision");
        };
        assert_eq!(units, 6);
        // Within the lease time goes on, and nothing is shifted.
        let later = START + ms(1);
        let answer = caller.run(later, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        assert!(decided(&answer).2 >= 6, "{algorithm:?}");
        let refund = Op::Refund { tick, units: 4, epoch };
        assert_eq!(caller.run(later, "k", &limits, refund).unwrap(), KeyReply::Units(4));
        // Back by ten seconds: all is free at most a window and the lease later.
        let back = START.saturating_sub(ms(10_000));
        let _ = caller.run(back, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        let answer = caller.run(back + ms(1502), "k", &limits, Op::Peek { cost: 10 }).unwrap();
        assert_eq!(retry_after(&answer), Some(ms(0)), "{algorithm:?}");
    }
}
