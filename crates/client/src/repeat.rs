//! Whether a request may be sent again.

use http::{HeaderMap, Method};

use crate::answer::Answer;
use crate::settings::Settings;

/// Whether a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Never: its body can be read only once.
    Never,
    /// If the server certainly did not handle it, because it answered 429.
    Refused,
    /// Even if the server may have handled it: doing it twice is the same as once.
    Always,
}

impl Repeat {
    /// For a request whose body, if there is one, can be sent again: [`Repeat::Always`] for
    /// idempotent methods and for requests with an `Idempotency-Key`, else [`Repeat::Refused`].
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        if method.is_idempotent() || headers.contains_key("idempotency-key") {
            Self::Always
        } else {
            Self::Refused
        }
    }

    pub(crate) fn is_allowed(self, answer: &Answer, settings: &Settings) -> bool {
        match self {
            Self::Never => false,
            Self::Refused => settings.repeat_refused && answer.is_over_quota(),
            Self::Always => answer.is_refused(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, StatusCode};
    use slidegate_http::AdvertisedLimits;

    #[test]
    fn methods_that_can_be_done_twice() {
        let mut headers = HeaderMap::new();
        let always = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS];
        assert!(always.iter().all(|method| Repeat::of(method, &headers) == Repeat::Always));
        let refused = [Method::POST, Method::PATCH, Method::CONNECT];
        assert!(refused.iter().all(|method| Repeat::of(method, &headers) == Repeat::Refused));
        headers.insert("idempotency-key", HeaderValue::from_static("8e03978e"));
        assert_eq!(Repeat::of(&Method::POST, &headers), Repeat::Always);
    }

    #[test]
    fn only_refusals_are_repeated_and_what_may_have_begun_only_if_harmless() {
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
}
