//! The policies in force.

use http::Request;
use hyper::body::Incoming;
use slidegate::Quota;

use super::no_query;
use crate::http::ask::unknown_policy;
use crate::http::json::Json;
use crate::http::problem::Refusal;
use crate::http::{HttpState, Reply, answer, query};
use crate::spec::{PolicySpec, Rollout};

/// All of them.
pub(crate) fn policies(state: &HttpState, request: &Request<Incoming>) -> Result<Reply, Refusal> {
    no_query(request.uri().query())?;
    let plan = state.engine().plan();
    let policies = &plan.spec().policies;
    let mut json = Json::with_capacity(256 * policies.len());
    json.open(b'{');
    json.name("policies");
    json.open(b'[');
    for policy in policies {
        write(&mut json, policy);
    }
    json.close(b']');
    json.close(b'}');
    Ok(answer::plain(json))
}

/// One of them.
pub(crate) fn policy(
    state: &HttpState,
    request: &Request<Incoming>,
    name: &str,
) -> Result<Reply, Refusal> {
    no_query(request.uri().query())?;
    let name = query::decode(name, false)?;
    let plan = state.engine().plan();
    let policy = plan.spec().policy(&name).ok_or_else(|| unknown_policy(&plan, &name))?;
    let mut json = Json::with_capacity(512);
    write(&mut json, policy);
    Ok(answer::plain(json))
}

fn write(json: &mut Json, policy: &PolicySpec) {
    json.open(b'{');
    json.name("name");
    json.text(&policy.name);
    json.name("quotas");
    write_quotas(json, &policy.quotas);
    json.name("algorithm");
    json.text(&policy.algorithm.to_string());
    json.name("mode");
    json.text(mode(policy.switch));
    json.name("enforce_percent");
    json.number(policy.enforce_percent.into());
    json.name("store");
    json.text(&policy.store);
    json.name("failure_mode");
    json.text(policy.failure_mode.name());
    json.name("tiers");
    json.open(b'{');
    for (name, quotas) in &policy.tiers {
        json.any_name(name);
        write_quotas(json, quotas);
    }
    json.close(b'}');
    if let Some(candidate) = &policy.candidate {
        json.name("candidate");
        json.open(b'{');
        json.name("quotas");
        write_quotas(json, &candidate.quotas);
        json.name("algorithm");
        json.text(&candidate.algorithm.to_string());
        json.close(b'}');
    }
    json.close(b'}');
}

fn write_quotas(json: &mut Json, quotas: &[Quota]) {
    json.open(b'[');
    for quota in quotas {
        json.open(b'{');
        json.name("limit");
        json.number(quota.limit());
        json.name("window");
        json.seconds(quota.window());
        json.close(b'}');
    }
    json.close(b']');
}

fn mode(switch: Rollout) -> &'static str {
    match switch {
        Rollout::Enforce => "enforce",
        Rollout::Shadow => "shadow",
        Rollout::Off => "off",
    }
}
