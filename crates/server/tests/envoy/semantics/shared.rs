//! The same in a real Redis, and with every algorithm: units that another process took count here,
//! peeks and refunds use the limit's own number, and the failure mode decides while the store is
//! unavailable.

use slidegate::Algorithm;
use slidegate_gate::Caller;
use slidegate_server::domain::{
    self, AnswerError, Code, Descriptor, LimitRequest, Options, Override, Response,
};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::spec::{
    DescriptorSpec, EnvoyFailureMode, HitsUsage, RedisPlace, RedisSpec, Spec, StoreSpec, Unit,
};
use slidegate_testkit::server::RedisServer;

use super::setup::*;

/// Hours, so that no window passes while a test runs.
fn hour(text: &str, requests: u32) -> DescriptorSpec {
    limited(text, requests, Unit::Hour)
}

fn in_redis(server: &RedisServer, descriptors: Vec<DescriptorSpec>) -> Spec {
    let mut spec = spec(descriptors);
    // A busy machine is no reason for an answer without the store.
    let patience = slidegate_testkit::server::PATIENCE;
    let redis = RedisSpec {
        deadline: patience,
        connect_deadline: patience,
        place: RedisPlace::Single(server.url()),
        ..RedisSpec::default()
    };
    spec.stores.push(StoreSpec::Redis("shared".to_owned(), Box::new(redis)));
    "shared".clone_into(&mut spec.domains[0].store);
    spec
}

async fn ask(engine: &Engine, options: &Options, descriptors: Vec<Descriptor<'_>>) -> Response {
    try_ask(engine, options, descriptors).await.unwrap()
}

async fn try_ask(
    engine: &Engine,
    options: &Options,
    descriptors: Vec<Descriptor<'_>>,
) -> Result<Response, AnswerError> {
    let request = LimitRequest { domain: DOMAIN, descriptors, hits_addend: 0 };
    domain::answer(engine.plan().domains(), &request, options, Caller::IN_PROCESS).await
}

fn user<'a>() -> Descriptor<'a> {
    descriptor(&[("user", "a")])
}

#[tokio::test]
async fn two_daemons_share_the_counts_of_descriptors() {
    let server = RedisServer::start().unwrap();
    let spec = in_redis(&server, vec![hour("user", 5), hour("address", 1)]);
    let one = Engine::new(&spec, &mut NoRestore).unwrap();
    let two = Engine::new(&spec, &mut NoRestore).unwrap();
    let options = Options::default();
    let both = || vec![user(), descriptor(&[("address", "x")])];
    assert_eq!(remaining(&ask(&one, &options, both()).await), [4, 0]);
    let denied = ask(&two, &options, both()).await;
    assert_eq!((denied.overall, remaining(&denied)), (Code::OverLimit, vec![4, 0]));
    assert_eq!(remaining(&ask(&two, &options, vec![hits(&[("user", "a")], 0)]).await), [4]);
    assert_eq!(remaining(&ask(&two, &options, vec![hits(&[("user", "a")], 3)]).await), [1]);
    let over = ask(&one, &options, vec![hits(&[("user", "a")], 2)]).await;
    assert_eq!(over.overall, Code::OverLimit);
    let back = Descriptor { is_negative_hits: true, ..hits(&[("user", "a")], 2) };
    let given = ask(&one, &options, vec![back]).await;
    assert_eq!((given.overall, remaining(&given)), (Code::Ok, vec![3]));
    // A limit in the request uses the same count.
    let brought =
        Descriptor { limit: Some(Override { requests: 100, unit: Unit::Hour }), ..user() };
    assert_eq!(remaining(&ask(&two, &options, vec![brought]).await), [97]);
}

/// The outcome of a request: `None` is an error.
async fn code(engine: &Engine, options: &Options, descriptor: Descriptor<'_>) -> Option<Code> {
    match try_ask(engine, options, vec![descriptor]).await {
        Ok(response) => Some(response.overall),
        Err(error) => {
            assert_eq!(error, AnswerError::StoreFailed);
            None
        }
    }
}

#[tokio::test]
async fn the_failure_mode_of_the_domain_or_the_descriptor_answers_for_a_store_that_is_gone() {
    use EnvoyFailureMode::{Allow, Deny, Error, Local};
    let modes = [
        (None, [None; 3]),
        (Some(Error), [None; 3]),
        (Some(Allow), [Some(Code::Ok); 3]),
        // Units that cannot be refunded deny no request.
        (Some(Deny), [Some(Code::OverLimit), Some(Code::OverLimit), Some(Code::Ok)]),
        (Some(Local), [Some(Code::Ok); 3]),
    ];
    for usage in [HitsUsage::Check, HitsUsage::Report] {
        for of_domain in [false, true] {
            let mut server = RedisServer::start().unwrap();
            let options = {
                let mut options = Options::default();
                options.envoy.usage = usage;
                options
            };
            let mut engines = Vec::new();
            for (mode, expected) in modes {
                let mut spec = in_redis(&server, vec![hour("user", 1)]);
                if of_domain {
                    spec.domains[0].failure_mode = mode.unwrap_or_default();
                } else {
                    // Two levels: the one below has the mode of the one above.
                    let above = with(above("user", vec![hour("path", 1)]), |above| {
                        above.failure_mode = mode;
                    });
                    spec.domains[0].descriptors = vec![above];
                }
                let engine = Engine::new(&spec, &mut NoRestore).unwrap();
                let name = if of_domain {
                    vec![("user", "a")]
                } else {
                    vec![("user", "a"), ("path", "x")]
                };
                assert_eq!(code(&engine, &options, hits(&name, 0)).await, Some(Code::Ok));
                engines.push((engine, name, mode, expected));
            }
            server.kill().unwrap();
            for (engine, name, mode, [take, look, give]) in engines {
                let back = Descriptor { is_negative_hits: true, ..hits(&name, 1) };
                let got = [
                    code(&engine, &options, hits(&name, 1)).await,
                    code(&engine, &options, hits(&name, 0)).await,
                    code(&engine, &options, back).await,
                ];
                assert_eq!(got, [take, look, give], "{mode:?}, {usage:?}");
                if mode == Some(Local) {
                    let over = code(&engine, &options, descriptor(&name)).await;
                    assert_eq!(over, Some(Code::OverLimit), "this process has a limit too");
                }
                let errors = engine.plan().domains().statistics().store_error.get();
                assert_eq!(errors, if mode == Some(Local) { 4 } else { 3 }, "{mode:?}");
            }
        }
    }
}

#[tokio::test]
async fn one_descriptor_with_an_error_is_enough_and_modes_share_the_counts() {
    let mut server = RedisServer::start().unwrap();
    let allow =
        |name| with(hour(name, 2), |spec| spec.failure_mode = Some(EnvoyFailureMode::Allow));
    let mut spec = in_redis(&server, vec![hour("user", 2), allow("free")]);
    let engine = Engine::new(&spec, &mut NoRestore).unwrap();
    let options = Options::default();
    let both = || vec![user(), descriptor(&[("free", "")])];
    assert_eq!(remaining(&ask(&engine, &options, both()).await), [1, 1]);
    // Another failure mode does not forget what was counted.
    spec.domains[0].descriptors = vec![allow("user"), hour("free", 2)];
    engine.swap(&spec).unwrap();
    assert_eq!(remaining(&ask(&engine, &options, both()).await), [0, 0]);
    server.kill().unwrap();
    assert_eq!(try_ask(&engine, &options, both()).await.unwrap_err(), AnswerError::StoreFailed);
    assert_eq!(ask(&engine, &options, vec![user()]).await.overall, Code::Ok);
}

fn algorithms() -> [Algorithm; 5] {
    [
        Algorithm::Log,
        Algorithm::Counter,
        Algorithm::Segments { count: 10 },
        Algorithm::Gcra,
        Algorithm::Fixed,
    ]
}

fn counting(mut spec: DescriptorSpec, algorithm: Algorithm) -> DescriptorSpec {
    spec.limit.as_mut().unwrap().rate.as_mut().unwrap().algorithm = algorithm;
    spec
}

fn tree(algorithm: Algorithm) -> Vec<DescriptorSpec> {
    let quota = with(hour("quota", 1), |spec| spec.quota_mode = true);
    [hour("user", 5), quota].map(|spec| counting(spec, algorithm)).to_vec()
}

/// Everything that takes, looks and gives back, by the limit's own number.
async fn by_its_own_number(engine: &Engine, algorithm: Algorithm, store: &str) {
    let what = format!("{algorithm:?} in {store}");
    let (each, mut all) = (Options::default(), Options::default());
    all.envoy.usage = HitsUsage::Report;
    let left = async |descriptors| remaining(&ask(engine, &each, descriptors).await);
    let look = || vec![hits(&[("user", "a")], 0)];
    assert_eq!(left(vec![hits(&[("user", "a")], 3)]).await, [2], "{what}: taken");
    assert_eq!(left(look()).await, [2], "{what}: looked at");
    // A used-up quota gives back what the other limit took.
    let both = || vec![user(), descriptor(&[("quota", "")])];
    assert_eq!(left(both()).await, [1, 0], "{what}: both");
    let denied = ask(engine, &each, both()).await;
    assert_eq!((denied.overall, remaining(&denied)), (Code::OverLimit, vec![1, 0]), "{what}");
    assert_eq!(left(look()).await, [1], "{what}: after the quota");
    // What crosses the limit is owed.
    let owed = ask(engine, &all, vec![hits(&[("user", "a")], 4)]).await;
    assert_eq!(owed.overall, Code::OverLimit, "{what}: crosses");
    let over = ask(engine, &each, look()).await;
    assert_eq!(over.overall, Code::OverLimit, "{what}: owed");
    let back = Descriptor { is_negative_hits: true, ..hits(&[("user", "a")], 5) };
    assert_eq!(left(vec![back]).await, [2], "{what}: given back, the debt too");
}

#[tokio::test]
async fn every_algorithm_applies_the_limits_own_number_in_memory() {
    for algorithm in algorithms() {
        let house = TestEngine::new(tree(algorithm));
        by_its_own_number(&house.engine, algorithm, "memory").await;
    }
}

#[tokio::test]
async fn every_algorithm_applies_the_limits_own_number_in_redis() {
    let server = RedisServer::start().unwrap();
    for algorithm in algorithms() {
        let engine = Engine::new(&in_redis(&server, tree(algorithm)), &mut NoRestore).unwrap();
        by_its_own_number(&engine, algorithm, "Redis").await;
    }
}

#[tokio::test]
async fn usage_reported_by_parallel_streams_is_recorded_in_full_in_redis() {
    let server = RedisServer::start().unwrap();
    let spec = in_redis(&server, vec![hour("tokens", 1000)]);
    let one = Engine::new(&spec, &mut NoRestore).unwrap();
    let two = Engine::new(&spec, &mut NoRestore).unwrap();
    let mut options = Options::default();
    options.envoy.usage = HitsUsage::ReportAboveOne;
    let report = |engine| ask(engine, &options, vec![hits(&[("tokens", "a")], 600)]);
    for _ in 0..10 {
        let _ = tokio::join!(report(&one), report(&two));
    }
    let back = Descriptor { is_negative_hits: true, ..hits(&[("tokens", "a")], 11_400) };
    assert_eq!(remaining(&ask(&one, &options, vec![back]).await), [400]);
}

#[test]
fn a_domain_may_count_in_several_ways() {
    let house = TestEngine::new(vec![
        counting(hour("fixed", 2), Algorithm::Fixed),
        counting(hour("exact", 3), Algorithm::Log),
    ]);
    assert_eq!(house.passes(&[("fixed", "")]), 2);
    assert_eq!(house.passes(&[("exact", "")]), 3);
    // What comes with a request counts as the first that is configured.
    let brought = |requests| Descriptor {
        limit: Some(Override { requests, unit: Unit::Hour }),
        ..descriptor(&[("fixed", "")])
    };
    assert_eq!(remaining(&house.ask(vec![brought(10)])), [7]);
}

/// Keys in each of the first four databases.
fn keys(server: &RedisServer) -> [u64; 4] {
    [0, 1, 2, 3].map(|database| {
        let client = redis::Client::open(format!("{}/{database}", server.url())).unwrap();
        let mut connection = client.get_connection().unwrap();
        redis::cmd("DBSIZE").query(&mut connection).unwrap()
    })
}

#[tokio::test]
async fn a_database_that_is_set_is_above_that_of_the_address() {
    let server = RedisServer::start().unwrap();
    let mut expected = [0; 4];
    for (database, found_in) in [(None, 3), (Some(0), 0), (Some(2), 2)] {
        let mut spec = in_redis(&server, vec![hour("user", 5)]);
        let Some(StoreSpec::Redis(_, redis)) = spec.stores.last_mut() else { unreachable!() };
        redis.place = RedisPlace::Single(format!("{}/3", server.url()));
        redis.database = database;
        let engine = Engine::new(&spec, &mut NoRestore).unwrap();
        assert_eq!(remaining(&ask(&engine, &Options::default(), vec![user()]).await), [4]);
        expected[found_in] += 1;
        assert_eq!(keys(&server), expected, "{database:?}");
    }
}
