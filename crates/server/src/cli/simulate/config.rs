//! Replays logs through all rules of one or two configuration files, with the real engine and a simulated clock.

use core::net::IpAddr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use http::HeaderName;
use slidegate::ManualClock;
use slidegate_gate::{Ask, Caller, Gate, GateDecision, GateOutcome, check_all};
use slidegate_sim::read::{
    Extracted, Filter, LogReader, ReadCounts, Record, Timed, format_time, total_bytes,
};
use slidegate_sim::replay::{BATCH, Hits, KeySample, Timeline};
use slidegate_sim::report::{
    Comparison, ConfigReport, FileReport, RuleDecision, RuleReport, RuleTally,
};

use super::arguments::SimulateArguments;
use super::progress::Progress;
use super::{Failure, expand, input_name, nothing_to_replay, reading};
use crate::cli::config::{AuthRequest, into_memory, ready};
use crate::cli::exit;
use crate::config::scenario::HttpRequest;
use crate::config::{Loaded, Request, load};
use crate::engine::Engine;
use crate::gates::NoRestore;
use crate::http::auth::{MatchedRule, matching_rules};
use crate::spec::{KeyPart, RuleSpec};

/// Replays the logs through the files.
pub(super) fn replay(arguments: &SimulateArguments) -> Result<ConfigReport, Failure> {
    let mut files = vec![FileReplay::load(&arguments.config)?];
    if !arguments.compare.is_empty() {
        files.push(FileReplay::load(&arguments.compare)?);
    }
    let paths = expand(&arguments.files)?;
    let (options, filter) = reading(&arguments.reading)?;
    let disorder = u64::try_from(arguments.reading.disorder.as_millis()).unwrap_or(u64::MAX);
    let mut reader = LogReader::open(&paths, options, disorder).map_err(Failure::failed)?;
    let headers: Vec<String> = files.iter().flat_map(FileReplay::headers).collect();
    let extract = |record: &Record<'_>| request(record, &filter, &headers);
    let (total, bytes) = (total_bytes(&paths), reader.bytes_read());
    let progress = Progress::new(total.is_some());
    let mut all = Totals::new(files.len());
    let mut batch: Vec<Timed<HttpRequest>> = Vec::new();
    loop {
        reader.fill(&mut batch, BATCH, extract);
        if batch.is_empty() {
            break;
        }
        for Timed { at_ms, item } in &batch {
            let denied: Vec<bool> = files
                .iter_mut()
                .map(|file| file.decide(*at_ms, item))
                .collect::<Result<_, Failure>>()?;
            all.add(*at_ms, item.address, &denied);
        }
        let read = total.map(|total| slidegate_sim::share(bytes.load(Ordering::Relaxed), total));
        progress.show(read, || format!("{} requests", all.requests));
    }
    progress.end();
    let counts = reader.counts().clone();
    if all.requests == 0 {
        return Err(Failure::failed(nothing_to_replay(&counts)));
    }
    Ok(all.report(files, counts, input_name(&paths), usize::from(arguments.top)))
}

/// The request of a record, as a proxy would report it. `headers` are those that rules read.
fn request(record: &Record<'_>, filter: &Filter, headers: &[String]) -> Extracted<HttpRequest> {
    if !filter.accepts(record) {
        return Extracted::Filtered;
    }
    let Some(address) = record.client.as_deref().and_then(|text| text.parse::<IpAddr>().ok())
    else {
        return Extracted::WithoutKey;
    };
    let text = |field: Option<&str>| field.unwrap_or_default().to_owned();
    let header = |name: &String| Some((name.clone(), header(record, name)?));
    Extracted::Request(HttpRequest {
        method: text(record.method.as_deref()),
        path: text(record.path()),
        host: text(record.host.as_deref()),
        address,
        headers: headers.iter().filter_map(header).collect(),
    })
}

/// A header of a request, by the names that logs give to headers.
fn header(record: &Record<'_>, name: &str) -> Option<String> {
    let usual = match name {
        "user-agent" => "agent",
        other => other,
    };
    let names = [
        name.to_owned(),
        usual.to_owned(),
        format!("http_{}", name.replace('-', "_")),
        format!("headers.{name}"),
        format!("request_headers.{name}"),
    ];
    names.iter().find_map(|name| Some(record.field(name)?.into_owned()))
}

/// A configuration whose rules decide the requests.
struct FileReplay {
    name: String,
    loaded: Loaded,
    engine: Engine,
    clock: ManualClock,
    hasher: RandomState,
    tallies: Vec<RuleTally>,
    denied: u64,
    denied_without_key: u64,
    unlimited: u64,
}

impl FileReplay {
    fn load(paths: &[PathBuf]) -> Result<Self, Failure> {
        // No real store is used, so its secrets are not needed.
        let request = Request { secrets: false, ..Request::new(paths.iter().cloned()) };
        let mut loaded = load(&request).map_err(|refused| {
            crate::cli::print_findings(&refused.findings);
            Failure { message: "the configuration is invalid".to_owned(), code: exit::CONFIG }
        })?;
        into_memory(&mut loaded.spec);
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let name = names.join(", ");
        if loaded.spec.rules.is_empty() {
            return Err(Failure::usage(format!(
                "{name} has no `rules`, so it does not limit the requests of an access log: add a rule, or use \
                 --quota for a single limit"
            )));
        }
        let clock = ManualClock::new(Duration::ZERO);
        let engine = Engine::with_clock(&loaded.spec, Some(clock.clone()), &mut NoRestore)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let plan = engine.plan();
        let tallies = loaded
            .spec
            .rules
            .iter()
            .map(|rule| tally(rule, &loaded, plan.gate(&rule.policy).map(AsRef::as_ref)));
        let tallies = tallies.collect();
        let hasher = RandomState::new();
        let (denied, denied_without_key, unlimited) = (0, 0, 0);
        Ok(Self {
            name,
            loaded,
            engine,
            clock,
            hasher,
            tallies,
            denied,
            denied_without_key,
            unlimited,
        })
    }

    /// The headers that the rules read, with lowercase names.
    fn headers(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for rule in &self.loaded.spec.rules {
            let keys = rule.key.iter().filter_map(|part| match part {
                KeyPart::Header(name) => Some(name),
                _ => None,
            });
            let matched = rule.matches.headers.iter().map(|(name, _)| name);
            names.extend(keys.chain(matched).chain(&rule.tier_header).map(|name| {
                HeaderName::try_from(name).map_or_else(|_| name.clone(), |name| name.to_string())
            }));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Decides a request. Returns `true` if it is denied.
    fn decide(&mut self, at_ms: u64, request: &HttpRequest) -> Result<bool, Failure> {
        self.clock.set(Duration::from_millis(at_ms));
        let request = AuthRequest::new(request, &self.loaded.settings);
        let (plan, caller) = (self.engine.plan(), Caller::IN_PROCESS);
        let Ok(rules) = matching_rules(&plan, &request.source(), &request.headers, caller) else {
            self.denied += 1;
            self.denied_without_key += 1;
            return Ok(true);
        };
        let asks: Vec<Ask<'_>> = rules.iter().map(MatchedRule::ask).collect();
        let all = ready(check_all(&asks, None, caller)).map_err(Failure::failed)?;
        let all = all.map_err(|error| Failure::failed(error.to_string()))?;
        for (MatchedRule { place, gate, key, .. }, decided) in rules.iter().zip(&all) {
            let fingerprint = self.hasher.hash_one(key);
            let name = || {
                if gate.has_secret_keys() {
                    format!("secret key {fingerprint:016x}").into()
                } else {
                    String::from_utf8_lossy(key).into()
                }
            };
            if let Some(tally) = self.tallies.get_mut(*place) {
                tally.add(fingerprint, at_ms, outcome(decided), name);
            }
        }
        let is_denied = all.iter().any(|decided| !decided.decision.is_allowed());
        self.denied += u64::from(is_denied);
        self.unlimited += u64::from(rules.is_empty());
        Ok(is_denied)
    }
}

fn outcome(decided: &GateDecision) -> RuleDecision {
    RuleDecision {
        denied: decided.outcome.is_rejected(),
        would_deny: decided.outcome == GateOutcome::ShadowDenied,
        candidate_denied: decided.candidate.as_ref().is_some_and(|one| !one.is_allowed()),
    }
}

fn tally(rule: &RuleSpec, loaded: &Loaded, gate: Option<&Gate>) -> RuleTally {
    let policy = loaded.spec.policies.iter().find(|policy| policy.name == rule.policy);
    RuleTally::new(RuleReport {
        name: rule.name.clone(),
        policy: rule.policy.clone(),
        quotas: policy
            .map(|policy| policy.quotas.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        algorithm: policy.map(|policy| policy.algorithm.to_string()).unwrap_or_default(),
        mode: gate.map(|gate| gate.mode().to_owned()).unwrap_or_default(),
        ..RuleReport::default()
    })
}

/// What all files have in common, and how they differ.
struct Totals {
    requests: u64,
    first_ms: Option<u64>,
    last_ms: u64,
    hasher: RandomState,
    /// For each address, the files that denied it, one bit each.
    addresses: KeySample,
    timeline: Timeline,
    comparison: Comparison,
    no_longer: Hits,
    newly: Hits,
}

impl Totals {
    fn new(files: usize) -> Self {
        Self {
            requests: 0,
            first_ms: None,
            last_ms: 0,
            hasher: RandomState::new(),
            addresses: KeySample::default(),
            timeline: Timeline::new(files),
            comparison: Comparison::default(),
            no_longer: Hits::default(),
            newly: Hits::default(),
        }
    }

    fn add(&mut self, at_ms: u64, address: IpAddr, denied: &[bool]) {
        self.requests += 1;
        self.first_ms.get_or_insert(at_ms);
        self.last_ms = at_ms;
        let step = self.timeline.step(at_ms);
        self.timeline.add_request(step);
        let mut denied_by = 0_u64;
        for (file, denied) in denied.iter().enumerate() {
            if *denied {
                denied_by |= 1 << file;
                self.timeline.add_denial(step, file);
            }
        }
        let fingerprint = self.hasher.hash_one(address);
        self.addresses.merge(fingerprint, |files| *files |= denied_by);
        let name = || address.to_string().into_boxed_str();
        match denied {
            [true, true] => self.comparison.both_denied += 1,
            [true, false] => {
                self.comparison.only_first_denied += 1;
                self.no_longer.add_named(fingerprint, at_ms, name);
            }
            [false, true] => {
                self.comparison.only_second_denied += 1;
                self.newly.add_named(fingerprint, at_ms, name);
            }
            _ => {}
        }
    }

    fn report(
        self,
        files: Vec<FileReplay>,
        counts: ReadCounts,
        input: String,
        hits: usize,
    ) -> ConfigReport {
        let comparison = (files.len() == 2).then(|| Comparison {
            no_longer_denied: self.no_longer.top(hits),
            newly_denied: self.newly.top(hits),
            ..self.comparison
        });
        let addresses = &self.addresses;
        let configs = files.into_iter().enumerate().map(|(place, file)| FileReport {
            file: file.name,
            allowed: self.requests - file.denied,
            denied: file.denied,
            denied_share: slidegate_sim::share(file.denied, self.requests),
            keys_denied: addresses.count(|files| files & (1 << place) != 0),
            denied_without_key: file.denied_without_key,
            unlimited: file.unlimited,
            rules: file.tallies.into_iter().map(|tally| tally.finish(hits)).collect(),
        });
        ConfigReport {
            requests: self.requests,
            keys: addresses.keys(),
            keys_estimated: !addresses.is_exact(),
            from: format_time(self.first_ms.unwrap_or(0)),
            until: format_time(self.last_ms),
            input,
            counts,
            configs: configs.collect(),
            comparison,
            timeline: self.timeline,
        }
    }
}
