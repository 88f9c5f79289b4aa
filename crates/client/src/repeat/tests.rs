//! Tests of `repeat`.

use super::*;
use http::{HeaderValue, StatusCode};
use slidegate_http::AdvertisedLimits;

#[test]
fn recognizes_idempotent_requests() {
    let mut headers = HeaderMap::new();
    let always = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS];
    assert!(always.iter().all(|method| Repeat::of(method, &headers) == Repeat::Always));
    let refused = [Method::POST, Method::PATCH, Method::CONNECT];
    assert!(refused.iter().all(|method| Repeat::of(method, &headers) == Repeat::Refused));
    headers.insert("idempotency-key", HeaderValue::from_static("8e03978e"));
    assert_eq!(Repeat::of(&Method::POST, &headers), Repeat::Always);
}

#[test]
fn repeats_refusals_and_503_only_if_idempotent() {
    let answer = |status| Answer::new(status, AdvertisedLimits::default());
    let settings = Settings::default();
    let allowed = |repeat: Repeat, status| repeat.is_allowed(&answer(status), &settings);
    for repeat in [Repeat::Never, Repeat::Refused, Repeat::Always] {
        assert!(!allowed(repeat, StatusCode::OK));
        assert!(!allowed(repeat, StatusCode::INTERNAL_SERVER_ERROR));
        let tried = repeat != Repeat::Never;
        assert_eq!(allowed(repeat, StatusCode::TOO_MANY_REQUESTS), tried);
        let harmless = repeat == Repeat::Always;
        assert_eq!(allowed(repeat, StatusCode::SERVICE_UNAVAILABLE), harmless);
    }
    let careful = Settings::builder().repeat_refused(false).build().unwrap();
    let refused = answer(StatusCode::TOO_MANY_REQUESTS);
    assert!(!Repeat::Refused.is_allowed(&refused, &careful));
    assert!(Repeat::Always.is_allowed(&refused, &careful));
}
