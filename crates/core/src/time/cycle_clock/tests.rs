//! Tests of `cycle_clock`.

use super::*;
use core::cell::Cell;
use std::rc::Rc;

/// A machine whose system clock and counter are set by the test.
#[derive(Clone, Default)]
struct Machine {
    nanos: Rc<Cell<u64>>,
    count: Rc<Cell<u64>>,
}

impl Machine {
    fn run(&self, nanos: u64, cycles_a_micro: u64) {
        self.nanos.set(self.nanos.get() + nanos);
        self.count.set(self.count.get().wrapping_add(nanos / 1000 * cycles_a_micro));
    }
}

impl Source for Machine {
    fn count(&self) -> u64 {
        self.count.get()
    }

    fn nanos(&self) -> u64 {
        self.nanos.get()
    }
}

fn assert_close(counter: &CycleClock<Machine>, machine: &Machine) {
    let (shown, real) = (counter.now(), machine.nanos.get());
    assert!(shown <= real, "{shown} is ahead of {real}");
    assert!(real - shown <= LAG, "{shown} lags behind {real}");
}

// A reading ahead of real time would expire units early, and one far behind would record them
// early.
#[test]
fn lags_slightly_and_never_leads() {
    // Cycles per microsecond during and after the measurement: both extremes of slewing, and a slow
    // counter.
    for (measured, slew) in [(4000, 4000), (3998, 4002), (4002, 3998), (806, 806)] {
        let machine = Machine::default();
        machine.nanos.set(1_000_000_000_000);
        let counter = CycleClock::new(machine.clone());
        for step in 0..200_000_u64 {
            machine.run(1000 * (1 + step % 97), if step < 20_000 { measured } else { slew });
            assert_close(&counter, &machine);
        }
        assert!(matches!(*counter.state.lock(), State::Running(_)));
    }
}

#[test]
fn a_long_idle_time_is_not_drift() {
    let machine = Machine::default();
    let counter = CycleClock::new(machine.clone());
    for nanos in [1_000, 300_000_000, 1_000, 86_400_000_000_000, 1_000, 7_000_000] {
        machine.run(nanos, 2600);
        assert_close(&counter, &machine);
    }
}

// A thread may be preempted for long between a count and its conversion.
#[test]
fn a_delayed_count_is_never_ahead() {
    for (slew, wait) in [(2599, 50), (2601, 50), (2600, 30_000), (2601, 100_000)] {
        let machine = Machine::default();
        machine.nanos.set(1_000_000_000_000);
        let counter = CycleClock::new(machine.clone());
        machine.run(300_000_000, 2600);
        assert_close(&counter, &machine);
        machine.run(7_000_000, 2600);
        let (count, taken) = (counter.count().unwrap(), machine.nanos.get());
        machine.run(wait * 1_000_000, slew);
        assert_close(&counter, &machine);
        let shown = counter.nanos(count);
        assert!(shown + LAG >= taken, "{shown} is far behind {taken}");
        assert!(shown <= machine.nanos.get(), "{shown} is ahead");
    }
}

#[test]
fn rejects_a_slow_counter() {
    let machine = Machine::default();
    let counter = CycleClock::new(machine.clone());
    machine.run(300_000_000, 249);
    assert_close(&counter, &machine);
    assert!(matches!(*counter.state.lock(), State::Refused));
    machine.run(1_000_000, 249);
    assert_eq!(counter.now(), machine.nanos.get());
}

// A machine that was suspended may reset its counter, and one that was migrated may count faster.
#[test]
fn rejects_a_counter_that_jumps_or_changes_its_rate() {
    for disturb in [
        (|machine: &Machine| machine.count.set(5)) as fn(&Machine),
        |machine| machine.count.set(machine.count.get() + (1 << 60)),
        |machine| machine.run(60_000_000, 5200),
        |machine| machine.run(60_000_000, 1300),
    ] {
        let machine = Machine::default();
        machine.count.set(1 << 50);
        let counter = CycleClock::new(machine.clone());
        machine.run(300_000_000, 2600);
        assert_close(&counter, &machine);
        machine.run(30_000_000, 2600);
        disturb(&machine);
        machine.run(60_000_000, 2600);
        assert_close(&counter, &machine);
        assert!(matches!(*counter.state.lock(), State::Refused));
        machine.run(1_000_000, 1);
        assert_eq!(counter.now(), machine.nanos.get());
    }
}
