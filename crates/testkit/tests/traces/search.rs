//! Every sequence of operations in small worlds, compared with the definition.

use slidegate_testkit::definition::Counting;
use slidegate_testkit::search::{InMemory, World, explore};

/// In memory, a check under a shorter window drops entries of a log that a longer one would count, which is
/// an exception that the guarantees state. So all tiers of a log have the same window here.
fn with_one_window(world: &mut World) {
    let window = world.tiers[0][0].window;
    for quota in world.tiers.iter_mut().skip(1).flatten() {
        quota.window = window;
    }
}

#[test]
fn log() {
    explore(Counting::Log, |world| {
        with_one_window(world);
        Ok(InMemory::new)
    });
}

#[test]
fn capped_log_below_its_cap() {
    explore(Counting::Log, |world| {
        with_one_window(world);
        world.bytes_max = 64;
        Ok(InMemory::new)
    });
}

#[test]
fn segments() {
    explore(Counting::Segments(2), |_| Ok(InMemory::new));
}

#[test]
fn counter() {
    explore(Counting::Counter, |_| Ok(InMemory::new));
}

#[test]
fn fixed() {
    explore(Counting::Fixed, |_| Ok(InMemory::new));
}

#[test]
fn gcra() {
    explore(Counting::Gcra, |_| Ok(InMemory::new));
}
