//! Tests of `duplicates`.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn headers(name: &'static str, lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_str(line).unwrap());
    }
    headers
}

fn text(found: Result<Cow<'_, [u8]>, NoValue>) -> Result<String, NoValue> {
    found.map(|value| String::from_utf8(value.into_owned()).unwrap())
}

#[test]
fn several_values_follow_the_setting() {
    for lines in [&["a", "b"][..], &["a,b"], &["a, b"], &["a ,\tb"], &["a,x", "y", "x,b"]] {
        let headers = headers("x-key", lines);
        let value = |duplicates: Duplicates| text(duplicates.value(&headers, "X-Key"));
        assert_eq!(value(Duplicates::Deny), Err(NoValue::Several), "{lines:?}");
        assert_eq!(value(Duplicates::First).as_deref(), Ok("a"), "{lines:?}");
        assert_eq!(value(Duplicates::Last).as_deref(), Ok("b"), "{lines:?}");
    }
    // An empty value is one of several.
    for lines in [&["a", ""][..], &["", "a"], &["a,"], &[",a"], &[","]] {
        let headers = headers("x-key", lines);
        assert_eq!(Duplicates::Deny.value(&headers, "x-key"), Err(NoValue::Several), "{lines:?}");
    }
    for lines in [&[][..], &[""], &[" "]] {
        let headers = headers("x-key", lines);
        assert_eq!(Duplicates::Deny.value(&headers, "x-key"), Err(NoValue::Missing), "{lines:?}");
    }
}

#[test]
fn commas_are_part_of_some_fields() {
    let agent = "Mozilla/5.0 (KHTML, like Gecko)";
    let found = headers("user-agent", &[agent]);
    assert_eq!(text(Duplicates::Deny.value(&found, "User-Agent")).as_deref(), Ok(agent));
    let subject = "CN=a,O=b";
    let found = headers("x-subject", &[subject]);
    assert_eq!(text(Duplicates::Deny.commas_kept(&found, "x-subject")).as_deref(), Ok(subject));
    let found = headers("x-subject", &[subject, subject]);
    assert_eq!(Duplicates::Deny.commas_kept(&found, "x-subject"), Err(NoValue::Several));
}

// Services compare the scheme without case and skip the spaces behind it.
#[test]
fn spellings_of_credentials_are_one_value() {
    for line in ["Bearer abc=", "bearer abc=", "BEARER   abc=", "bEaReR \t abc="] {
        let found = headers("authorization", &[line]);
        let value = text(Duplicates::Deny.value(&found, "Authorization"));
        assert_eq!(value.as_deref(), Ok("bearer abc="), "{line}");
    }
    let digest = "Digest username=\"a\", realm=\"b\"";
    let found = headers("authorization", &[digest]);
    let value = text(Duplicates::Deny.value(&found, "authorization"));
    assert_eq!(value.as_deref(), Ok("digest username=\"a\", realm=\"b\""));
    let two = headers("authorization", &["Bearer a", "Bearer b"]);
    assert_eq!(Duplicates::Deny.value(&two, "authorization"), Err(NoValue::Several));
}

#[test]
fn lines_of_cookies_are_joined() {
    let found = headers("cookie", &["a=1", "b=2"]);
    assert_eq!(text(Duplicates::Deny.value(&found, "cookie")).as_deref(), Ok("a=1; b=2"));
}

proptest! {
    // Whatever a client adds, its requests have its own key, or are denied.
    #[test]
    fn junk_next_to_a_value_gives_no_new_key(
        junk in prop::collection::vec("[ -~]{0,12}", 0..4),
        before: bool,
        joined: bool,
    ) {
        let own = "valid".to_owned();
        let mut lines = junk;
        lines.insert(if before { 0 } else { lines.len() }, own);
        if joined {
            lines = vec![lines.join(", ")];
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let found = headers("x-key", &lines);
        if let Ok(value) = text(Duplicates::Deny.value(&found, "x-key")) {
            prop_assert_eq!(value, "valid");
        }
        let chosen = if before { Duplicates::First } else { Duplicates::Last };
        let value = text(chosen.value(&found, "x-key"));
        prop_assert_eq!(value.as_deref(), Ok("valid"));
    }
}
