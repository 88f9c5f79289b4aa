//! What is taken, what is given back, and when.

use std::time::Duration;

use slidegate_server::domain::{Code, Descriptor, LimitRequest};
use slidegate_server::spec::Unit;

use super::setup::*;

#[test]
fn the_window_slides_and_the_wait_is_exact() {
    let house = TestEngine::new(vec![minute("user", 2)]);
    assert_eq!(house.one(&[("user", "a")]).code, Code::Ok);
    house.clock.advance(40 * SECOND);
    let second = house.one(&[("user", "a")]);
    // Allowed: when there will be more.
    assert_eq!((second.remaining, second.until), (0, Some(20 * SECOND)));
    house.clock.advance(5 * SECOND);
    // Denied: when this would pass; asking on and on does not put it off.
    for _ in 0..50 {
        let denied = house.one(&[("user", "a")]);
        assert_eq!((denied.code, denied.until), (Code::OverLimit, Some(15 * SECOND)));
    }
    house.clock.advance(Duration::from_millis(14_999));
    assert_eq!(house.one(&[("user", "a")]).code, Code::OverLimit);
    house.clock.advance(Duration::from_millis(1));
    assert_eq!(house.one(&[("user", "a")]).code, Code::Ok);
    assert_eq!(house.one(&[("user", "a")]).until, Some(40 * SECOND));
}

#[test]
fn a_request_that_one_descriptor_denies_charges_none() {
    let house = TestEngine::new(vec![minute("user", 5), limited("address", 1, Unit::Hour)]);
    let both = || house.ask(vec![descriptor(&[("user", "a")]), descriptor(&[("address", "x")])]);
    assert_eq!(remaining(&both()), [4, 0]);
    for _ in 0..10 {
        let denied = both();
        assert_eq!(denied.overall, Code::OverLimit);
        assert_eq!(codes(&denied), [Code::Ok, Code::OverLimit]);
        assert_eq!(remaining(&denied), [4, 0]);
    }
    // Statistics are those of the reference: it had room, and hits were asked for.
    assert_eq!(house.counted("shop.user"), [11, 0, 0, 11, 0]);
    assert_eq!(house.counted("shop.address"), [11, 10, 1, 1, 0]);
}

#[test]
fn charge_all_charges_those_that_have_room() {
    let house = TestEngine::new(vec![minute("user", 5), limited("address", 1, Unit::Hour)])
        .options(|options| options.envoy.charge_all = true);
    let both = || house.ask(vec![descriptor(&[("user", "a")]), descriptor(&[("address", "x")])]);
    assert_eq!(remaining(&both()), [4, 0]);
    let denied = both();
    assert_eq!(codes(&denied), [Code::Ok, Code::OverLimit]);
    assert_eq!((denied.overall, remaining(&denied)), (Code::OverLimit, vec![3, 0]));
}

#[test]
fn a_batch_passes_whole_or_not_at_all() {
    let house = TestEngine::new(vec![minute("user", 10)]);
    let ask = |units| house.ask(vec![hits(&[("user", "a")], units)]);
    assert_eq!(remaining(&ask(7)), [3]);
    let denied = ask(4);
    assert_eq!((denied.overall, remaining(&denied)), (Code::OverLimit, vec![0]));
    assert_eq!(remaining(&ask(3)), [0]);
    // More than the limit never passes; the answer is the window, and no panic at any number.
    for units in [11, u64::from(u32::MAX), 1 << 53, u64::MAX] {
        let never = &ask(units).statuses[0];
        assert_eq!((never.code, never.until), (Code::OverLimit, Some(60 * SECOND)), "{units}");
    }
}

#[test]
fn charge_all_owes_a_batch_that_crosses_the_limit() {
    let house = TestEngine::new(vec![minute("tokens", 10)])
        .options(|options| options.envoy.charge_all = true);
    let ask = |units| house.ask(vec![hits(&[("tokens", "a")], units)]);
    assert_eq!(ask(0).overall, Code::Ok);
    assert_eq!(ask(6).overall, Code::Ok);
    house.clock.advance(30 * SECOND);
    assert_eq!(ask(0).overall, Code::Ok, "four are left");
    // Charged afterwards: denied but still recorded, twelve above the limit.
    assert_eq!(ask(16).overall, Code::OverLimit);
    assert_eq!(ask(0).overall, Code::OverLimit);
    // When nothing is left, nothing is added: the wait does not grow.
    assert_eq!(ask(16).overall, Code::OverLimit);
    house.clock.advance(30 * SECOND);
    assert_eq!(ask(0).overall, Code::OverLimit, "the sixteen still count");
    house.clock.advance(30 * SECOND);
    assert_eq!(remaining(&ask(0)), [10]);
}

#[test]
fn hits_of_the_descriptor_beat_those_of_the_request_and_zero_there_means_one() {
    let house = TestEngine::new(vec![minute("a", 100), minute("b", 100)]);
    let ask = |hits_addend, descriptors| {
        remaining(
            &house.try_ask(&LimitRequest { domain: DOMAIN, descriptors, hits_addend }).unwrap(),
        )
    };
    let (a, b) = ([("a", "")], [("b", "")]);
    assert_eq!(ask(0, vec![descriptor(&a), descriptor(&b)]), [99, 99]);
    assert_eq!(ask(10, vec![descriptor(&a), descriptor(&b)]), [89, 89]);
    assert_eq!(ask(10, vec![hits(&a, 3), descriptor(&b)]), [86, 79]);
    assert_eq!(ask(10, vec![hits(&a, 0), descriptor(&b)]), [86, 69]);
}

#[test]
fn zero_hits_look_and_take_nothing() {
    let house = TestEngine::new(vec![minute("user", 2), minute("other", 5)]);
    let look = || house.ask(vec![hits(&[("user", "a")], 0)]);
    for _ in 0..10 {
        assert_eq!(remaining(&look()), [2]);
    }
    assert_eq!(house.passes(&[("user", "a")]), 2);
    let status = look().statuses.remove(0);
    assert_eq!((status.code, status.until), (Code::OverLimit, Some(60 * SECOND)));
    assert_eq!(house.counted("shop.user"), [3, 1, 1, 2, 0], "looks are not hits");
    // A look that is over the limit denies the request, so the other descriptor is not charged.
    let both = house.ask(vec![descriptor(&[("other", "")]), hits(&[("user", "a")], 0)]);
    assert_eq!((both.overall, remaining(&both)), (Code::OverLimit, vec![5, 0]));
}

#[test]
fn waits_are_whole_seconds_rounded_up() {
    let house = TestEngine::new(vec![limited("user", 1, Unit::Second)]);
    assert_eq!(house.one(&[("user", "a")]).until, Some(SECOND));
    for millis in [1, 500, 999] {
        house.clock.set(Duration::from_secs(1_700_000_000) + Duration::from_millis(millis));
        let denied = house.one(&[("user", "a")]);
        assert_eq!((denied.code, denied.until), (Code::OverLimit, Some(SECOND)), "{millis}");
    }
    house.clock.advance(Duration::from_millis(1));
    assert_eq!(house.one(&[("user", "a")]).code, Code::Ok);
}

#[test]
fn negative_hits_give_back_and_always_pass() {
    let house = TestEngine::new(vec![minute("user", 5), minute("banned", 0)]);
    let back = |units| Descriptor {
        hits_addend: units,
        is_negative_hits: true,
        ..descriptor(&[("user", "a")])
    };
    // Nothing there yet: the floor is zero.
    let nothing = house.ask(vec![back(Some(3))]);
    assert_eq!((nothing.overall, remaining(&nothing)), (Code::Ok, vec![5]));
    assert_eq!(house.passes(&[("user", "a")]), 5);
    let given = house.ask(vec![back(Some(3))]);
    assert_eq!((given.overall, remaining(&given)), (Code::Ok, vec![3]));
    // Without a number it is one; with zero it is none.
    assert_eq!(remaining(&house.ask(vec![back(None)])), [4]);
    assert_eq!(remaining(&house.ask(vec![back(Some(0))])), [4]);
    assert_eq!(remaining(&house.ask(vec![back(Some(u64::MAX))])), [5]);
    // It is allowed with a limit of zero too, and when no unit is left.
    let banned = Descriptor { is_negative_hits: true, ..descriptor(&[("banned", "x")]) };
    assert_eq!(house.ask(vec![banned]).overall, Code::Ok);
    let plan = house.engine.plan();
    let series = plan.domains().get(DOMAIN).unwrap().statistics().series();
    let (_, counts) = series.iter().find(|(name, _)| name == "shop.user").unwrap();
    assert_eq!(counts.total_negative_hits.get(), 3 + 3 + 1 + u64::from(u32::MAX) + 1);
    assert_eq!(counts.total_hits.get(), 6);
}

#[test]
fn the_same_descriptor_twice_is_charged_twice_or_not_at_all() {
    let house = TestEngine::new(vec![minute("user", 3)]);
    let twice = || house.ask(vec![descriptor(&[("user", "a")]), descriptor(&[("user", "a")])]);
    assert_eq!(twice().overall, Code::Ok);
    assert_eq!(twice().overall, Code::OverLimit);
    assert_eq!(house.one(&[("user", "a")]).remaining, 0);
}

#[test]
fn sixty_four_descriptors_are_charged_together() {
    let house = TestEngine::new(vec![minute("user", 1)]);
    let names: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let all = || names.iter().map(|name| descriptor(&[("user", name.as_str())])).collect();
    assert_eq!(house.ask(all()).overall, Code::Ok);
    house.clock.advance(60 * SECOND);
    assert_eq!(house.one(&[("user", "63")]).code, Code::Ok);
    let denied = house.ask(all());
    assert_eq!(codes(&denied).iter().filter(|code| **code == Code::Ok).count(), 63);
    assert_eq!(remaining(&denied)[..63], [1; 63]);
}
