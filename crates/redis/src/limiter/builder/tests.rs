use super::*;

#[test]
fn tick_and_algorithm_are_part_of_the_name() {
    let [usual, coarse] = [1, 10].map(Duration::from_millis);
    let name = |tick, algorithm| stored_as("api", tick, algorithm);
    assert_eq!(&*name(usual, Algorithm::Log), "api");
    assert_eq!(&*name(usual, Algorithm::LogCapped { bytes_max: 4096 }), "api");
    assert_eq!(&*name(coarse, Algorithm::Log), "api@10000us");
    assert_eq!(&*name(usual, Algorithm::Counter), "api@counter");
    assert_eq!(&*name(coarse, Algorithm::Gcra), "api@gcra-10000us");
}

#[test]
fn every_algorithm_has_a_script_and_a_name_of_its_own() {
    let tick = Duration::from_millis(1);
    let quotas = [Quota::per_minute(1)];
    let mut names = std::collections::HashSet::new();
    for algorithm in Algorithm::ALL {
        assert!(ScriptLimits::new(&quotas, algorithm, tick, tick).is_ok(), "{algorithm}");
        names.insert(stored_as("api", tick, algorithm));
    }
    // Only the log and the capped log share theirs.
    assert_eq!(names.len(), Algorithm::ALL.len() - 1);
}
