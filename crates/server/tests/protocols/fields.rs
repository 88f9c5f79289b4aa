//! The rate limit fields of replies, and the body of denials, as configured.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use slidegate::{Cost, Quota};
use slidegate_http::QuotaUnit;
use slidegate_server::config::{
    DenialBody, HeaderSettings, PartitionSecret, RateLimitForm, ResetForm,
};
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_server::spec::{KeyPart, MatchSpec, MissingKey, PolicySpec, Rollout, RuleSpec, Spec};

use crate::http_client::{Answer, Client, Running, engine};

fn spec() -> Spec {
    let mut api = PolicySpec::new("api", vec![Quota::per_minute(1)]);
    api.quota_unit = QuotaUnit::new("tokens").unwrap();
    let mut watched = PolicySpec::new("watched", vec![Quota::per_hour(1)]);
    watched.rollout = Rollout::Shadow;
    let rule = |policy: &str| RuleSpec {
        name: policy.to_owned(),
        matches: MatchSpec::default(),
        key: vec![KeyPart::Header("x-user".to_owned())],
        policy: policy.to_owned(),
        tier_header: None,
        cost: Cost::ONE,
        missing: MissingKey::Skip,
        ..RuleSpec::default()
    };
    Spec {
        rules: vec![rule("api"), rule("watched")],
        policies: vec![api, watched],
        ..Spec::default()
    }
}

/// An allowance and a denial, each from the API and from forward auth.
async fn answers(headers: HeaderSettings) -> [[Answer; 2]; 2] {
    let (engine, _clock) = engine(&spec());
    let settings = HttpSettings { headers, ..HttpSettings::default() };
    let server = Running::of(Arc::new(HttpState::new(engine, settings))).await;
    let mut client = Client::connect(server.address).await;
    let ask = |key: &str, policy: &str| json!({"policy": policy, "key": key});
    let asks = json!({"asks": [ask("alice", "api"), ask("alice", "watched")]});
    let path = "/v1/check_all?status=429";
    let api = [client.post(path, &asks).await, client.post(path, &asks).await];
    let fields = "x-forwarded-method: GET\r\nx-forwarded-uri: /\r\nx-user: alice\r\n";
    let auth = [
        client.send("GET", "/auth", fields, "").await,
        client.send("GET", "/auth", fields, "").await,
    ];
    for (status, [allowed, denied]) in [(200, &api), (204, &auth)] {
        assert_eq!((allowed.status, denied.status), (status, 429));
        assert_eq!(denied.field("cache-control"), Some("no-store"));
    }
    [api, auth]
}

#[tokio::test]
async fn by_default_the_newest_draft_and_seconds() {
    for [allowed, denied] in answers(HeaderSettings::default()).await {
        assert_eq!(allowed.field("ratelimit"), Some(r#""api";r=0;t=60"#));
        assert_eq!(allowed.field("ratelimit-policy"), Some(r#""api";q=1;qu="tokens";w=60"#));
        assert_eq!(denied.field("x-ratelimit-reset"), Some("60"));
        assert_eq!(denied.field("retry-after"), Some("60"));
        assert_eq!(denied.field("content-type"), Some("application/problem+json"));
        assert_eq!(denied.json()["violated-policies"], json!(["api"]));
    }
}

fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the field is compared with the time of day")]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

// Clients in the field compare it with the wall clock: a number of seconds would be in 1970.
#[tokio::test]
async fn the_reset_can_be_a_time_since_the_epoch() {
    let headers = HeaderSettings { x_ratelimit: ResetForm::Epoch, ..HeaderSettings::default() };
    let before = now();
    for answer in answers(headers).await.as_flattened() {
        let reset: u64 = answer.field("x-ratelimit-reset").unwrap().parse().unwrap();
        assert!((before + 60..=now() + 61).contains(&reset), "{before} {reset}");
    }
}

#[tokio::test]
async fn older_drafts_and_no_fields() {
    let with = |ratelimit| HeaderSettings { ratelimit, ..HeaderSettings::default() };
    for [allowed, _] in answers(with(RateLimitForm::Dictionary)).await {
        assert_eq!(allowed.field("ratelimit"), Some("limit=1, remaining=0, reset=60"));
    }
    for [allowed, _] in answers(with(RateLimitForm::Triple)).await {
        assert_eq!(allowed.field("ratelimit"), None);
        assert_eq!(allowed.field("ratelimit-limit"), Some("1"));
        assert_eq!(allowed.field("ratelimit-reset"), Some("60"));
    }
    let none = HeaderSettings {
        x_ratelimit: ResetForm::Off,
        retry_after: false,
        ..with(RateLimitForm::Off)
    };
    for answer in answers(none).await.as_flattened() {
        let limits = answer.fields.iter().filter(|(name, _)| name.contains("ratelimit"));
        assert_eq!(limits.count(), 0, "{answer:?}");
        assert_eq!(answer.field("retry-after"), None);
    }
}

#[tokio::test]
async fn shadow_policies_are_shown_but_never_blamed() {
    let headers =
        HeaderSettings { shadow: true, body: DenialBody::Json, ..HeaderSettings::default() };
    for [allowed, denied] in answers(headers).await {
        assert_eq!(allowed.field("ratelimit"), Some(r#""api";r=0;t=60, "watched";r=0;t=3600"#));
        assert_eq!(denied.field("content-type"), Some("application/json"));
        assert_eq!(denied.json()["error"], "quota_exceeded");
        assert_eq!(denied.json()["violated-policies"], json!(["api"]));
        assert_eq!(denied.field("retry-after"), Some("60"));
    }
}

#[tokio::test]
async fn partition_keys_are_hashes_under_a_secret() {
    let with = |secret: &str| HeaderSettings {
        partition_secret: Some(PartitionSecret::new(secret.as_bytes())),
        ..HeaderSettings::default()
    };
    let keys = async |secret| {
        let [[api, _], [auth, _]] = answers(with(secret)).await;
        [api, auth].map(|answer| {
            let field = answer.field("ratelimit").unwrap().to_owned();
            let (_, key) = field.split_once(";pk=:").unwrap();
            assert_eq!(key.len(), 25, "{field}");
            assert!(answer.field("ratelimit-policy").unwrap().ends_with(&format!(";pk=:{key}")));
            key.to_owned()
        })
    };
    let one = keys("a secret of the nodes").await;
    assert_eq!(one, keys("a secret of the nodes").await);
    // A rule's key has another text than the API's.
    assert_ne!(one[0], one[1]);
    assert_ne!(one, keys("another secret").await);
    assert!(!format!("{:?}", with("a secret of the nodes")).contains("nodes\""));
}
