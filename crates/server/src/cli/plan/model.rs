//! The arithmetic of `plan`.

use serde::Serialize;
use slidegate::{Algorithm, format_duration};
use slidegate_sim::number::{to_float, to_whole};
use slidegate_sim::report::grouped;

use super::arguments::{PlanArguments, PlanStore};
use super::measured::{
    COUNTER_NANOS, GRPC_RATE, HTTP_RATE, LOG_NANOS, Measured, REDIS_COUNTER, REDIS_FIXED,
    REDIS_GCRA, REDIS_KEY, REDIS_LOG, REDIS_RATE, REDIS_REPLICATION, REDIS_SEGMENTS, RESP_RATE,
    SHARDS_KIB,
};

/// The share of a node that is planned for. The rest is for a failed node and for uneven load.
const LOAD: f64 = 0.8;

/// Memory that is planned for each byte in Redis.
const REDIS_HEADROOM: f64 = 1.2;

/// The calls per second of one process for a denied key, which repeats a denial for up to 100 ms.
const DENIALS_PER_SECOND: f64 = 10.0;

/// The keys whose denials a process caches, by default.
const DENY_CACHE_KEYS: u64 = 10_000;

/// A number of the plan, and how it is computed.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) value: f64,
    #[serde(skip)]
    pub(super) text: String,
    pub(super) arithmetic: String,
}

/// What a limit needs.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
    pub(super) measured: Vec<Measured>,
    pub(super) notes: Vec<&'static str>,
}

impl Plan {
    /// Computes the plan.
    pub(super) fn new(arguments: &PlanArguments) -> Self {
        let mut plan = Self {
            title: title(arguments),
            lines: Vec::new(),
            measured: Vec::new(),
            notes: Vec::new(),
        };
        match arguments.store {
            PlanStore::Memory => plan.in_memory(arguments),
            PlanStore::Redis => plan.in_redis(arguments),
        }
        plan
    }

    fn add(&mut self, name: &'static str, value: f64, text: String, arithmetic: String) -> f64 {
        self.lines.push(Line { name, value, text, arithmetic });
        value
    }

    fn decisions(&mut self, arguments: &PlanArguments) -> f64 {
        let window = arguments.rate.window();
        let value =
            to_float(arguments.keys) * to_float(arguments.rate.limit()) / window.as_secs_f64();
        let arithmetic = format!(
            "{} keys * {} / {}",
            grouped(arguments.keys),
            grouped(arguments.rate.limit()),
            format_duration(window)
        );
        self.add("decisions per second", value, grouped_float(value), arithmetic)
    }

    fn in_memory(&mut self, arguments: &PlanArguments) {
        let decisions = self.decisions(arguments);
        let (slot, heap, how) = bytes_in_memory(arguments);
        let key = self.add("bytes per key", slot + heap, grouped_float(slot + heap), how);
        let shards = SHARDS_KIB.value * 1024.0;
        let limit = (to_float(arguments.keys) * key + shards) * 4.0 / 3.0;
        let how = "(keys * bytes per key + 376 KiB) * 4/3".to_owned();
        let limit = self.add("memory_limit", limit, size(limit), how);
        let check = match arguments.algorithm {
            Algorithm::Counter => COUNTER_NANOS,
            _ => LOG_NANOS,
        };
        let cores = (decisions * check.value / 1e9 / LOAD).ceil();
        let how = format!("decisions * {} ns / 80 %, in the library", check.value);
        self.add("cores", cores, grouped_float(cores), how);
        let by_memory = self.by_memory(limit, arguments.node_memory);
        for (name, rate) in [
            ("daemons, HTTP", HTTP_RATE),
            ("daemons, gRPC", GRPC_RATE),
            ("daemons, Redis protocol", RESP_RATE),
        ] {
            let nodes = nodes(decisions, rate).max(by_memory);
            let how = format!(
                "decisions / ({} * 80 %), at least those by memory",
                grouped_float(rate.value)
            );
            self.add(name, nodes, grouped_float(nodes), how);
        }
        self.measured = vec![SHARDS_KIB, check, HTTP_RATE, GRPC_RATE, RESP_RATE];
        self.notes = vec![
            "Several daemons share nothing: each key has to reach the same one (docs/scaling.md).",
        ];
        if !matches!(
            arguments.algorithm,
            Algorithm::Log | Algorithm::LogCapped { .. } | Algorithm::Counter
        ) {
            self.notes.push("The time of a check was measured for log and counter only; this is that of the log.");
        }
    }

    fn in_redis(&mut self, arguments: &PlanArguments) {
        let decisions = self.decisions(arguments);
        let calls = self.calls(arguments, decisions);
        let (state, more) = redis_value(arguments);
        let value = to_whole((state.value + more).ceil());
        let allocated = allocation(value);
        let key = REDIS_KEY.value + to_float(allocated);
        let how =
            format!("88 + {}, allocated for a value of {}", grouped(allocated), grouped(value));
        self.add("bytes per key", key, grouped_float(key), how);
        let memory = to_float(arguments.keys) * key * REDIS_HEADROOM;
        let how = "keys * bytes per key * 1.2; twice that while Redis forks to save".to_owned();
        self.add("memory", memory, size(memory), how);
        let by_memory = self.by_memory(memory, arguments.node_memory);
        let primaries = nodes(calls, REDIS_RATE).max(by_memory);
        let how = format!(
            "calls / ({} * 80 %), at least those by memory",
            grouped_float(REDIS_RATE.value)
        );
        self.add("primaries", primaries, grouped_float(primaries), how);
        self.measured = vec![REDIS_RATE, REDIS_KEY, state];
        self.notes = vec![
            "Keys of the last two windows take memory: count those.",
            "Leases decide most checks of a hot key without a call (docs/redis.md).",
        ];
        if arguments.denied > 0 {
            match arguments.processes {
                None => self.notes.push(
                    "Every denial is counted as a call. With --processes, the deny cache is included.",
                ),
                Some(_) if arguments.keys <= DENY_CACHE_KEYS => self.notes.push(
                    "A process repeats a denial for up to 100 ms, or until units are freed (docs/redis.md).",
                ),
                Some(_) => {}
            }
        }
        if matches!(arguments.algorithm, Algorithm::Log | Algorithm::LogCapped { .. }) {
            let sent = decisions * allowed_share(arguments) * REDIS_REPLICATION.value;
            let how = "allowed decisions * 135 bytes, for one replica of each primary".to_owned();
            self.add("replication per second", sent, size(sent), how);
            self.measured.push(REDIS_REPLICATION);
        } else {
            self.notes.push("The calls were measured with the log.");
        }
    }

    /// Adds the calls to Redis: all decisions, except the denials that the deny cache repeats.
    fn calls(&mut self, arguments: &PlanArguments, decisions: f64) -> f64 {
        let allowed = decisions * allowed_share(arguments);
        let (calls, how) = match arguments.processes {
            Some(processes) if arguments.denied > 0 && arguments.keys <= DENY_CACHE_KEYS => {
                // A process calls again after 100 ms, or earlier if units are freed, which were
                // allowed once.
                let renewals = to_float(arguments.keys) * DENIALS_PER_SECOND + allowed;
                let denied = (decisions - allowed).min(f64::from(processes) * renewals);
                let how = format!("allowed + min(denied, {processes} * (10 * keys + allowed))");
                (allowed + denied, how)
            }
            Some(_) if arguments.denied > 0 => (
                decisions,
                "decisions; with more than 10,000 keys, the deny cache is not counted on"
                    .to_owned(),
            ),
            _ => (decisions, "decisions".to_owned()),
        };
        self.add("calls per second", calls, grouped_float(calls), how)
    }

    fn by_memory(&mut self, bytes: f64, node_gigabytes: u32) -> f64 {
        let nodes = (bytes / (f64::from(node_gigabytes) * 1e9)).ceil();
        let how = format!("memory / {node_gigabytes} GB");
        self.add("nodes by memory", nodes, grouped_float(nodes), how)
    }
}

fn title(arguments: &PlanArguments) -> String {
    format!(
        "{} keys, {} requests per {} each, {} % denied, algorithm {}, in {}",
        grouped(arguments.keys),
        grouped(arguments.rate.limit()),
        format_duration(arguments.rate.window()),
        arguments.denied,
        arguments.algorithm,
        match arguments.store {
            PlanStore::Memory => "memory",
            PlanStore::Redis => "Redis",
        }
    )
}

/// Returns the nodes that a load needs.
fn nodes(per_second: f64, one: Measured) -> f64 {
    (per_second / (one.value * LOAD)).ceil()
}

fn allowed_share(arguments: &PlanArguments) -> f64 {
    1.0 - f64::from(arguments.denied) / 100.0
}

/// Returns the bytes of codes of a key: its recorded requests, times the mean bytes of a code.
///
/// The gaps of independent requests are distributed exponentially, and a code takes 1, 2, 4 or 7 bytes,
/// depending on the gap in ticks of 1 ms. `docs/memory.md` has the same numbers as a table.
fn code_bytes(arguments: &PlanArguments) -> f64 {
    let entries = to_float(arguments.rate.limit()) * allowed_share(arguments);
    let ticks = arguments.rate.window().as_secs_f64() * 1000.0;
    let longer = |gap: f64| (-gap * entries / ticks).exp();
    let mean = 1.0 + longer(191.0) + 2.0 * longer(15_551.0) + 3.0 * longer(16_777_215.0);
    entries * mean
}

/// Returns the bytes of a slot and of the heap in memory, and how they are computed.
fn bytes_in_memory(arguments: &PlanArguments) -> (f64, f64, String) {
    let codes = code_bytes(arguments);
    let log = |codes: f64| {
        // Codes of up to 20 bytes are in the slot.
        if codes <= 20.0 {
            return (64.0, 0.0, format!("64, with {codes:.0} bytes of codes in the slot"));
        }
        let block = round_up(codes * 9.0 / 8.0 + 8.0, 16.0);
        (
            64.0,
            block,
            format!("64 + a block of {} for {codes:.0} bytes of codes", grouped_float(block)),
        )
    };
    match arguments.algorithm {
        Algorithm::Log => log(codes),
        Algorithm::LogCapped { bytes_max } => log(codes.min(f64::from(bytes_max))),
        Algorithm::Segments { count } => {
            let block = round_up(count_bytes(arguments, count) + 10.0, 16.0);
            (54.0, block, format!("54 + a block of {block} for {count} segments"))
        }
        Algorithm::Counter => (43.0, 0.0, "43".to_owned()),
        Algorithm::Gcra | Algorithm::Fixed => (33.0, 0.0, "33".to_owned()),
    }
}

/// Returns the bytes of the value of a key in Redis: those of its state, and how many follow it.
fn redis_value(arguments: &PlanArguments) -> (Measured, f64) {
    match arguments.algorithm {
        // At most 64 KiB of codes; beyond that, neighboring entries are merged.
        Algorithm::Log => (REDIS_LOG, code_bytes(arguments).min(65_536.0)),
        Algorithm::LogCapped { bytes_max } => {
            (REDIS_LOG, code_bytes(arguments).min(f64::from(bytes_max)))
        }
        Algorithm::Segments { count } => (REDIS_SEGMENTS, count_bytes(arguments, count)),
        Algorithm::Counter => (REDIS_COUNTER, 0.0),
        Algorithm::Gcra => (REDIS_GCRA, 0.0),
        Algorithm::Fixed => (REDIS_FIXED, 0.0),
    }
}

/// Returns the bytes of the counts of a window with segments. Their width depends on the limit.
fn count_bytes(arguments: &PlanArguments, count: u16) -> f64 {
    let width = match arguments.rate.limit() {
        0..=255 => 1.0,
        256..=65_535 => 2.0,
        65_536..=4_294_967_295 => 4.0,
        _ => 8.0,
    };
    (f64::from(count) + 1.0) * width
}

/// Returns what jemalloc, the allocator of Redis, allocates: four sizes per power of two.
fn allocation(bytes: u64) -> u64 {
    let step = match bytes {
        0..=128 => 16,
        _ => bytes.next_power_of_two() / 8,
    };
    bytes.next_multiple_of(step)
}

fn round_up(value: f64, step: f64) -> f64 {
    (value / step).ceil() * step
}

/// Formats a number with commas. Fractions are kept for small numbers only.
pub(super) fn grouped_float(value: f64) -> String {
    if value < 1000.0 && value.fract() > 0.0 {
        return format!("{value:.1}");
    }
    grouped(to_whole(value.round()))
}

fn size(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes:.0} bytes"),
        |(unit, name)| format!("{:.1} {name}", bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: PlanArguments,
    }

    fn arguments(line: &str) -> PlanArguments {
        Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}")).plan
    }

    fn value(line: &str, name: &str) -> f64 {
        let plan = Plan::new(&arguments(line));
        plan.lines.iter().find(|line| line.name == name).unwrap().value
    }

    // The table of docs/memory.md: bytes per code for random arrivals.
    #[test]
    fn mean_code_bytes_are_those_of_the_document() {
        for (rate, expected) in [(1000, 1.04), (100, 1.7), (20, 1.95), (5, 2.5)] {
            let arguments = arguments(&format!("plan --keys 1 --rate {rate}/minute"));
            let mean = code_bytes(&arguments) / f64::from(rate);
            assert!((mean - expected).abs() < 0.04, "{rate} per minute: {mean}");
        }
    }

    // Measured with a policy name of 13 characters: 339 bytes with 100 entries, 1368 with 1000.
    #[test]
    fn bytes_in_redis_are_within_three_percent_of_those_measured() {
        for (rate, measured) in [("100/minute", 339.0), ("1000/minute", 1368.0)] {
            let planned =
                value(&format!("plan --keys 1 --rate {rate} --store redis"), "bytes per key");
            assert!(
                (planned / measured - 1.0).abs() < 0.03,
                "{rate}: {planned}, measured {measured}"
            );
        }
    }

    // Measured in docs/benchmarks.md, after division by the number of keys. A plan may be too high.
    #[test]
    fn bytes_in_memory_are_not_below_those_measured() {
        for (rest, accounted) in [
            ("--keys 1M --rate 5/minute", 63.4),
            ("--keys 100k --rate 100/minute", 272.0),
            ("--keys 1M --rate 1000/minute", 1134.0),
            ("--keys 10M --rate 5/minute --algorithm counter", 39.3),
            ("--keys 500k --rate 1k/min --algorithm segments:60", 195.6),
        ] {
            let planned = value(&format!("plan {rest}"), "bytes per key");
            let is_near = (0.98..=1.15).contains(&(planned / accounted));
            assert!(is_near, "{rest}: {planned}, measured {accounted}");
        }
    }

    #[test]
    fn memory_limit_of_the_documented_example() {
        // docs/memory.md: one million keys, 5 per minute, is 86 MB.
        let limit = value("plan --keys 1M --rate 5/minute", "memory_limit");
        assert_eq!(size(limit), "85.8 MB");
    }

    #[test]
    fn denials_are_calls_and_need_no_memory_and_no_replication() {
        let none = "plan --keys 1M --rate 1k/min --store redis";
        let half = format!("{none} --denied 50");
        let calls = |line| to_whole(value(line, "calls per second").round());
        assert_eq!((calls(none), calls(&half)), (16_666_667, 16_666_667));
        assert!(value(&half, "bytes per key") < value(none, "bytes per key"));
        let sent = |line| value(line, "replication per second");
        assert!((sent(&half) * 2.0 - sent(none)).abs() < 1.0);
    }

    // Per key: 1000 decisions per second, of which 10 are allowed. A process calls 10 times per second
    // for the time limit of the cache, and at most 10 times for units that were freed.
    #[test]
    fn deny_cache_bounds_the_calls_of_each_process_for_a_key() {
        let line = "plan --keys 100 --rate 1k/s --store redis --denied";
        let calls = |rest| to_whole(value(&format!("{line} {rest}"), "calls per second").round());
        assert_eq!(calls("99"), 100_000);
        assert_eq!(calls("99 --processes 1"), 3_000);
        assert_eq!(calls("99 --processes 4"), 9_000);
        assert_eq!(calls("99 --processes 1000"), 100_000);
    }

    #[test]
    fn deny_cache_saves_no_calls_for_more_keys_than_it_has() {
        let calls = |keys: u64| {
            let line = format!("plan --keys {keys} --rate 1k/s --store redis --denied 99");
            let calls = value(&format!("{line} --processes 1"), "calls per second");
            calls / to_float(keys)
        };
        assert!(calls(10_000) < 31.0, "{}", calls(10_000));
        assert!(calls(10_001) > 999.0, "{}", calls(10_001));
    }

    #[test]
    fn memory_may_need_more_nodes_than_calls() {
        let line = "plan --keys 1G --rate 1/day --store redis --node-memory 16";
        let nodes = to_whole(value(line, "primaries"));
        assert_eq!(nodes, to_whole(value(line, "nodes by memory")));
        assert!(nodes > 1, "{nodes}");
    }

    // STRLEN of keys that `slidegate bench redis://... --algorithm NAME` wrote.
    #[test]
    fn values_in_redis_are_those_measured() {
        for (algorithm, bytes) in
            [("counter", 37), ("gcra", 24), ("fixed", 30), ("segments:60", 94), ("segments:10", 44)]
        {
            let line = format!("plan --keys 1 --rate 100/minute --algorithm {algorithm}");
            let (state, more) = redis_value(&arguments(&line));
            assert_eq!(to_whole(state.value + more), bytes, "{algorithm}");
        }
    }

    #[test]
    fn allocations_have_four_sizes_per_power_of_two() {
        let sizes = [1, 128, 129, 160, 225, 256, 257, 1025, 1103].map(allocation);
        assert_eq!(sizes, [16, 128, 160, 160, 256, 256, 320, 1280, 1280]);
    }
}
