//! Tests of `redis`.

use super::*;

#[test]
fn credentials_are_never_shown() {
    let builder = Redis::single("redis://carol:hunter2@127.0.0.1:1").unwrap();
    assert!(!format!("{builder:?}").contains("hunter2"));
    let redis = builder.password("swordfish").key_secret(b"a very secret secret").build();
    let shown = format!("{:?}", redis.unwrap());
    for secret in ["hunter2", "swordfish", "very secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("127.0.0.1:1"));
}

#[test]
fn an_invalid_address_is_rejected_without_showing_it() {
    for address in ["http://carol:hunter2@host", "redis://carol:hunter2@host:notaport", ""] {
        let error = Redis::single(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(Redis::cluster::<&str>(&[]).is_err());
}

#[test]
fn settings_have_bounds() {
    let builder = || Redis::single("redis://127.0.0.1:1").unwrap();
    assert!(builder().deadline(Duration::ZERO).build().is_err());
    assert!(builder().in_flight_max(0).build().is_err());
    assert!(builder().checks_per_call_max(0).build().is_err());
    assert!(builder().checks_per_call_max(257).build().is_err());
    assert!(builder().prefix("{}").build().is_err());
    assert!(builder().key_secret(b"short").build().is_err());
}
