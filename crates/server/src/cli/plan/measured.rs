//! The measured numbers that a plan is made from.

use serde::Serialize;

/// A number, and the document that contains it with the command that measures it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Measured {
    pub(super) value: f64,
    pub(super) what: &'static str,
    pub(super) source: &'static str,
}

const fn measured(value: f64, what: &'static str, source: &'static str) -> Measured {
    Measured { value, what, source }
}

const MEMORY: &str = "docs/memory.md";
const REDIS: &str = "docs/redis.md";
const BENCHMARKS: &str = "docs/benchmarks.md";

pub(super) const LOG_NANOS: Measured =
    measured(216.0, "ns per check of the log, 1 M keys, one thread", BENCHMARKS);
pub(super) const COUNTER_NANOS: Measured =
    measured(132.4, "ns per check of the counter, 1 M keys, one thread", BENCHMARKS);
pub(super) const HTTP_RATE: Measured = measured(
    67_692.0,
    "requests per second over HTTP, two cores with the load generator",
    BENCHMARKS,
);
pub(super) const GRPC_RATE: Measured =
    measured(59_651.0, "requests per second over gRPC, the same", BENCHMARKS);
pub(super) const RESP_RATE: Measured =
    measured(121_457.0, "requests per second over the Redis protocol, the same", BENCHMARKS);
pub(super) const SHARDS_KIB: Measured = measured(376.0, "KiB for 1024 shards", MEMORY);

pub(super) const REDIS_RATE: Measured =
    measured(147_273.0, "decisions per second of one Redis, 100 k keys, 64 callers", REDIS);
pub(super) const REDIS_REPLICATION: Measured =
    measured(135.0, "bytes sent to a replica for an allowed decision", REDIS);
pub(super) const REDIS_KEY: Measured = measured(88.0, "bytes of a key without its value", REDIS);
pub(super) const REDIS_LOG: Measured = measured(63.0, "bytes of a log before its codes", REDIS);
pub(super) const REDIS_SEGMENTS: Measured =
    measured(33.0, "bytes of segments before their counts", REDIS);
pub(super) const REDIS_COUNTER: Measured = measured(37.0, "bytes of a counter", REDIS);
pub(super) const REDIS_GCRA: Measured = measured(24.0, "bytes of gcra", REDIS);
pub(super) const REDIS_FIXED: Measured = measured(30.0, "bytes of a fixed window", REDIS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::model::grouped_float;

    #[test]
    fn every_number_is_in_its_document() {
        for number in [
            LOG_NANOS,
            COUNTER_NANOS,
            HTTP_RATE,
            GRPC_RATE,
            RESP_RATE,
            SHARDS_KIB,
            REDIS_RATE,
            REDIS_REPLICATION,
            REDIS_KEY,
            REDIS_LOG,
            REDIS_SEGMENTS,
            REDIS_COUNTER,
            REDIS_GCRA,
            REDIS_FIXED,
        ] {
            let path = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), number.source);
            let page = std::fs::read_to_string(path).unwrap();
            let text = grouped_float(number.value);
            assert!(page.contains(&text), "{} does not contain {text}", number.source);
        }
    }
}
