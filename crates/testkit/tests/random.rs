//! Thousands of made-up traces for every algorithm, over memory and the naive models side by side.
//!
//! A failure prints the shortest trace that shows it; `compare` with its seed brings it back.

use slidegate_testkit::{Algorithm, compare};

const SEEDS: u64 = 3000;

fn failures(algorithm: Algorithm) -> Vec<String> {
    (0..SEEDS)
        .filter_map(|seed| compare(seed, algorithm).err())
        .take(5)
        .collect()
}

#[test]
fn memory_is_the_log() {
    let failures = failures(Algorithm::Log);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn memory_is_the_counter() {
    let failures = failures(Algorithm::Counter);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn memory_is_the_segments() {
    let failures = failures(Algorithm::Segments);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn memory_is_the_gcra() {
    let failures = failures(Algorithm::Gcra);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn memory_is_the_fixed_window() {
    let failures = failures(Algorithm::Fixed);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
