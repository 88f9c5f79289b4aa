//! What is taken, what is given back, and when.

use std::time::Duration;

use slidegate_server::domain::{Code, Descriptor, LimitRequest, Options};
use slidegate_server::spec::{HitsUsage, Unit};

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

/// Usage as a proxy reports it in the environment of envoyproxy/ratelimit.
fn reporting(options: &mut Options) {
    options.envoy.usage = HitsUsage::ReportAboveOne;
    options.envoy.look_grace = true;
}

// A stream asks with zero hits when it starts, and reports its tokens when it is done.
#[test]
fn streams_that_report_their_usage_stop_at_the_limit() {
    let house = TestEngine::new(vec![limited("tokens", 1000, Unit::Hour)]).options(reporting);
    let ask = |units| house.ask(vec![hits(&[("tokens", "a")], units)]);
    let served = (0..12).filter(|_| {
        let served = ask(0).overall == Code::Ok;
        if served {
            ask(600);
        }
        served
    });
    assert_eq!(served.count(), 2);
    // Denied single hits are not recorded, so they do not extend the denial.
    for _ in 0..100 {
        assert_eq!(ask(1).overall, Code::OverLimit);
    }
    house.clock.advance(Duration::from_secs(3600));
    assert_eq!(remaining(&ask(0)), [1000]);
}

#[test]
fn usage_reported_by_parallel_streams_is_recorded_in_full() {
    let setups: [(HitsUsage, Option<HitsUsage>); 3] = [
        (HitsUsage::ReportAboveOne, None),
        (HitsUsage::Check, Some(HitsUsage::Report)),
        (HitsUsage::Check, Some(HitsUsage::ReportAboveOne)),
    ];
    for (usage, of_descriptor) in setups {
        let tree = with(limited("tokens", 1000, Unit::Hour), |spec| spec.usage = of_descriptor);
        let house = TestEngine::new(vec![tree]).options(|options| options.envoy.usage = usage);
        let ask = |units| house.ask(vec![hits(&[("tokens", "a")], units)]);
        for _ in 0..20 {
            assert_eq!(ask(0).overall, Code::Ok);
        }
        for _ in 0..20 {
            ask(600);
        }
        // 11,400 of the 12,000 units are refunded.
        let back = Descriptor { is_negative_hits: true, ..hits(&[("tokens", "a")], 11_400) };
        assert_eq!(remaining(&house.ask(vec![back])), [400], "{usage:?}, {of_descriptor:?}");
    }
}

#[test]
fn only_an_explicit_number_of_hits_reports_usage() {
    for (usage, recorded) in [
        (HitsUsage::Check, [0, 0, 0]),
        (HitsUsage::Report, [1, 7, 9]),
        (HitsUsage::ReportAboveOne, [0, 7, 9]),
    ] {
        let house = TestEngine::new(vec![minute("tokens", 5)])
            .options(|options| options.envoy.usage = usage);
        let of_request = |hits_addend, descriptor| {
            let descriptors = vec![descriptor];
            house.try_ask(&LimitRequest { domain: DOMAIN, descriptors, hits_addend }).unwrap()
        };
        let (plain, tokens) = (|| descriptor(&[("tokens", "a")]), [("tokens", "a")]);
        assert_eq!(house.passes(&tokens), 5);
        let mut used = 5;
        for (denied, more) in [(0, 0), (1, recorded[0]), (7, recorded[1])] {
            assert_eq!(of_request(denied, plain()).overall, Code::OverLimit);
            used += more;
        }
        assert_eq!(of_request(0, hits(&tokens, 9)).overall, Code::OverLimit);
        used += recorded[2];
        let back = Descriptor { is_negative_hits: true, ..hits(&tokens, used - 1) };
        assert_eq!(remaining(&house.ask(vec![back])), [4], "{usage:?}");
    }
}

#[test]
fn usage_is_recorded_although_another_descriptor_denies() {
    let tokens = with(minute("tokens", 10), |spec| spec.usage = Some(HitsUsage::Report));
    let house = TestEngine::new(vec![tokens, minute("user", 1)]);
    let both = || house.ask(vec![hits(&[("tokens", "")], 4), descriptor(&[("user", "a")])]);
    assert_eq!(remaining(&both()), [6, 0]);
    let denied = both();
    assert_eq!(codes(&denied), [Code::Ok, Code::OverLimit]);
    assert_eq!((denied.overall, remaining(&denied)), (Code::OverLimit, vec![2, 0]));
    // A report above the limit denies the request, so the other descriptor is not charged.
    house.clock.advance(60 * SECOND);
    let over = house.ask(vec![hits(&[("tokens", "")], 11), descriptor(&[("user", "a")])]);
    assert_eq!(codes(&over), [Code::OverLimit, Code::Ok]);
    assert_eq!(remaining(&over), [0, 1]);
}

#[test]
fn a_report_counts_for_a_window_and_its_wait_says_so() {
    let tokens = with(minute("tokens", 10), |spec| spec.usage = Some(HitsUsage::Report));
    let house = TestEngine::new(vec![tokens]);
    let ask = |units| house.ask(vec![hits(&[("tokens", "a")], units)]).statuses.remove(0);
    assert_eq!(ask(6).code, Code::Ok);
    house.clock.advance(30 * SECOND);
    let over = ask(5);
    assert_eq!((over.code, over.until), (Code::OverLimit, Some(30 * SECOND)));
    // More than 2^53 units are counted as 2^53 - 1.
    let over = ask(u64::MAX);
    assert_eq!((over.code, over.until), (Code::OverLimit, Some(60 * SECOND)));
    assert_eq!(house.counted("shop.tokens")[1], 1 + (1 << 53) - 1);
    house.clock.advance(Duration::from_millis(59_999));
    assert_eq!(ask(0).code, Code::OverLimit);
    house.clock.advance(Duration::from_millis(1));
    assert_eq!(ask(0).remaining, 10);
}

#[test]
fn reports_in_shadow_mode_are_recorded_as_if_enforced() {
    let tokens = with(minute("tokens", 10), |spec| {
        spec.usage = Some(HitsUsage::Report);
        spec.shadow_mode = true;
    });
    let house = TestEngine::new(vec![tokens]);
    for _ in 0..3 {
        assert_eq!(house.ask(vec![hits(&[("tokens", "a")], 8)]).overall, Code::Ok);
    }
    let back = Descriptor { is_negative_hits: true, ..hits(&[("tokens", "a")], 15) };
    assert_eq!(remaining(&house.ask(vec![back])), [1]);
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
