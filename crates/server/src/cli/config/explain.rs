//! `config explain`: the rules and limits that apply to a request, and why.

use std::io::{self, Write};

use serde_json::{Value, json};
use slidegate::format_duration;

use super::rule::{AuthRequest, RuleMatch};
use super::{quotas_in_words, written};
use crate::cli::exit;
use crate::config::Loaded;
use crate::config::scenario::HttpRequest;
use crate::domain::{Entry, LevelNames, MatchKind};
use crate::nearest::hint;
use crate::spec::{DescriptorSpec, DomainSpec, LimitSpec, PolicySpec, Rollout, RuleSpec};

/// The request to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A descriptor of a domain: keys with values.
    Descriptor {
        /// The domain.
        domain: String,
        /// One entry for each level.
        entries: Vec<(String, String)>,
    },
    /// A forward auth request.
    Request(HttpRequest),
}

impl Subject {
    /// Parses `shop user=alice,path=/cart`, or `POST /login x-plan:gold address=203.0.113.9`.
    ///
    /// # Errors
    ///
    /// Returns the expected syntax if the input is neither.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let wrong = "use DOMAIN KEY=VALUE,KEY=VALUE, or METHOD /PATH [NAME:VALUE...] \
                     [address=ADDRESS] [host=HOST]";
        match words {
            [domain, entries] if !entries.starts_with('/') => {
                let entry = |text: &str| {
                    let (key, value) = text.split_once('=').unwrap_or((text, ""));
                    (key.to_owned(), value.to_owned())
                };
                let entries: Vec<_> = entries.split(',').map(entry).collect();
                if entries.iter().any(|(key, _)| key.is_empty()) {
                    return Err(wrong.to_owned());
                }
                Ok(Self::Descriptor { domain: domain.clone(), entries })
            }
            [method, path, more @ ..] if path.starts_with('/') => {
                let path = path.split('?').next().unwrap_or(path);
                let mut request = HttpRequest::get(path);
                request.method = method.to_ascii_uppercase();
                for word in more {
                    add(&mut request, word)?;
                }
                Ok(Self::Request(request))
            }
            _ => Err(wrong.to_owned()),
        }
    }
}

fn add(request: &mut HttpRequest, word: &str) -> Result<(), String> {
    if let Some(address) = word.strip_prefix("address=") {
        request.address =
            address.parse().map_err(|_| format!("{address} is not an address: use 203.0.113.9"))?;
    } else if let Some(host) = word.strip_prefix("host=") {
        host.clone_into(&mut request.host);
    } else if let Some((name, value)) = word.split_once(':') {
        request.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    } else {
        return Err(format!("invalid argument {word}: use NAME:VALUE, address=..., host=..."));
    }
    Ok(())
}

/// Explains which limits apply to a subject. Returns exit code 1 if none applies.
pub fn explain(loaded: &Loaded, subject: &Subject, json: bool, out: &mut dyn Write) -> u8 {
    let (matched, lines, object) = match subject {
        Subject::Descriptor { domain, entries } => {
            match loaded.spec.domains.iter().find(|it| it.name == *domain) {
                Some(domain) => descriptor(domain, entries),
                None => {
                    let names = loaded.spec.domains.iter().map(|it| it.name.as_str());
                    let hint = hint(domain, names);
                    let line = format!("unknown domain `{domain}`, so nothing is limited{hint}");
                    (false, vec![line.clone()], json!({"matched": false, "why": line}))
                }
            }
        }
        Subject::Request(request) => rules(loaded, request),
    };
    let written_ = if json { writeln!(out, "{object}") } else { write_lines(out, &lines) };
    written(written_, if matched { exit::OK } else { exit::FAILED })
}

fn write_lines(out: &mut dyn Write, lines: &[String]) -> Result<(), io::Error> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn rules(loaded: &Loaded, request: &HttpRequest) -> (bool, Vec<String>, Value) {
    let mut lines = vec![format!("{} {} from {}", request.method, request.path, request.address)];
    let mut objects = Vec::new();
    let mut any = false;
    let request = AuthRequest::new(request, &loaded.settings);
    for rule in &loaded.spec.rules {
        let found = request.match_rule(rule);
        any |= !matches!(found, RuleMatch::Passes(_));
        objects.push(describe_rule(
            loaded,
            rule,
            request.tier(rule).as_deref(),
            &found,
            &mut lines,
        ));
    }
    if !any {
        lines.push("no rule applies: the request is allowed and not counted".to_owned());
    }
    (any, lines, json!({"matched": any, "rules": objects}))
}

fn describe_rule(
    loaded: &Loaded,
    rule: &RuleSpec,
    tier: Option<&str>,
    found: &RuleMatch,
    lines: &mut Vec<String>,
) -> Value {
    let name = &rule.name;
    match found {
        RuleMatch::Passes(why) => {
            lines.push(format!("- rule {name} does not apply: {why}"));
            json!({"rule": name, "applies": false, "why": why})
        }
        RuleMatch::Denies(why) => {
            // A request without a key is denied only if the policy is enforced for every key.
            let policy = loaded.spec.policy(&rule.policy);
            let lenient = policy.filter(|policy| {
                (policy.rollout, policy.enforce_percent) != (Rollout::Enforce, 100)
            });
            let verb = if lenient.is_some() { "would deny" } else { "denies" };
            lines.push(format!("- rule {name} {verb}: {why}"));
            lines.extend(lenient.map(|policy| format!("    how: {}", how(policy))));
            json!({"rule": name, "applies": true, "why": why, "denies": lenient.is_none()})
        }
        RuleMatch::Counts { why, key } => {
            let policy = loaded.spec.policy(&rule.policy);
            let shown = match policy {
                Some(policy) if policy.secret_keys => "(secret)",
                _ => key.as_str(),
            };
            lines.push(format!("- rule {name} applies: {why}"));
            lines.push(format!("    key: {shown}"));
            lines.push(format!("    units: {}", rule.cost));
            let Some(policy) = policy else { return json!({"rule": name, "applies": true}) };
            let tier = tier.and_then(|tier| policy.tiers.get_key_value(tier));
            let quotas = tier.map_or(&policy.quotas, |(_, quotas)| quotas);
            let tier = tier.map(|(name, _)| name);
            let of_tier = tier.map(|tier| format!(", tier {tier}")).unwrap_or_default();
            lines.push(format!(
                "    policy: {}{of_tier}: {}",
                policy.name,
                quotas_in_words(quotas)
            ));
            lines.push(format!("    how: {}", how(policy)));
            json!({
                "rule": name, "applies": true, "why": why, "key": shown, "units": rule.cost.get(),
                "policy": policy.name, "tier": tier, "limit": quotas_in_words(quotas),
                "how": how(policy),
            })
        }
    }
}

/// Describes the algorithm of a policy and whether its denials are enforced.
fn how(policy: &PolicySpec) -> String {
    let switch = match (policy.rollout, policy.enforce_percent) {
        (Rollout::Enforce, 100) => "enforced".to_owned(),
        (Rollout::Enforce, share) => format!("enforced for {share} % of the keys"),
        (Rollout::Shadow, _) => "shadow mode: never denied".to_owned(),
        (Rollout::Off, _) => "switched off: not counted".to_owned(),
    };
    format!("{}, in {}, {switch}", policy.algorithm, policy.store)
}

/// An entry, and the node that matches it at its level.
struct LevelMatch<'a> {
    entry: &'a (String, String),
    /// `None` if nothing matches, which ends the path.
    matched: Option<(&'a DescriptorSpec, MatchKind)>,
}

/// Returns the path of a descriptor through a tree.
fn walk<'a>(domain: &'a DomainSpec, entries: &'a [(String, String)]) -> Vec<LevelMatch<'a>> {
    let mut steps = Vec::with_capacity(entries.len());
    let mut level = domain.descriptors.as_slice();
    for entry in entries {
        let (key, value) = entry;
        let found = LevelNames::new(level).find(&Entry { key, value }, &mut String::new());
        let matched = found.map(|(index, kind)| (&level[index], kind));
        steps.push(LevelMatch { entry, matched });
        let Some((descriptor, _)) = matched else { break };
        level = &descriptor.descriptors;
    }
    steps
}

fn descriptor(domain: &DomainSpec, entries: &[(String, String)]) -> (bool, Vec<String>, Value) {
    let steps = walk(domain, entries);
    let mut lines = vec![format!("domain {}", domain.name)];
    lines.extend(steps.iter().map(describe_step));
    let last = steps.last().and_then(|step| step.matched).filter(|_| steps.len() == entries.len());
    let (matched, verdict) = match last {
        None => (false, "no entry of the tree matches: not limited".to_owned()),
        Some((spec, _)) => match &spec.limit {
            None if !spec.descriptors.is_empty() => {
                (false, "the limits are deeper in the tree: not limited".to_owned())
            }
            None => (false, "it has no limit: not limited".to_owned()),
            Some(limit) => {
                let mode = match (spec.shadow_mode, spec.quota_mode) {
                    (true, _) => ", in shadow mode: never denied",
                    (_, true) => ", in quota mode: denies only if all others in quota mode deny",
                    _ => "",
                };
                (true, format!("{}{mode}, counted in {}", describe_limit(limit), domain.store))
            }
        },
    };
    let counted = matched.then(|| counted(&steps));
    lines.push(verdict.clone());
    if let Some(counted) = &counted {
        lines.push(format!("counted by: {counted}"));
    }
    let path: Vec<String> =
        steps.iter().map(|step| describe_step(step).trim().to_owned()).collect();
    let object = json!({
        "matched": matched, "domain": domain.name, "path": path, "limit": verdict, "counted_by": counted,
    });
    (matched, lines, object)
}

fn describe_step(step: &LevelMatch<'_>) -> String {
    let (key, value) = step.entry;
    let entry = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
    match step.matched {
        None => format!("- {entry} matches nothing at this level"),
        Some((spec, how)) => {
            let name = spec.composite();
            let how = match how {
                MatchKind::Value => "by key and value",
                MatchKind::Wildcard => "by its `*`, the first match",
                MatchKind::Key => "by its key, for any value",
            };
            format!("- {entry} matches {name} {how}")
        }
    }
}

fn describe_limit(limit: &LimitSpec) -> String {
    let name = limit.name.as_ref().map(|name| format!("limit {name}: ")).unwrap_or_default();
    let replaces = match limit.replaces.as_slice() {
        [] => String::new(),
        names => format!(", instead of {}", names.join(", ")),
    };
    let what = match limit.rate {
        None => "unlimited".to_owned(),
        Some(rate) if rate.requests == 0 => "0: everything is denied".to_owned(),
        Some(rate) => format!(
            "{} in any {} ({})",
            rate.requests,
            format_duration(rate.unit.window()),
            rate.algorithm
        ),
    };
    format!("{name}{what}{replaces}")
}

/// Returns the parts that distinguish this count from others: the value, or the pattern if values
/// share a count.
fn counted(steps: &[LevelMatch<'_>]) -> String {
    let part = |step: &LevelMatch<'_>| {
        let (key, value) = step.entry;
        match step.matched {
            Some((spec, MatchKind::Wildcard)) if spec.share_threshold => {
                format!("{key}={}", spec.value.as_deref().unwrap_or_default())
            }
            _ => format!("{key}={value}"),
        }
    };
    steps.iter().map(part).collect::<Vec<_>>().join(", ")
}
