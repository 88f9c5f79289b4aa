//! Tests of `secrets`.

use super::*;

#[test]
fn names_of_secrets_are_found() {
    for name in [
        "password",
        "PASSWORD",
        "REDIS_AUTH",
        "REDIS_SENTINEL_AUTH",
        "tokens",
        "token",
        "pasword",
        "passwrd",
        "authorization",
        "key_secret",
        "sentinel_password",
        "client-secret",
        "secrets",
        "pass",
        "credentials",
    ] {
        assert!(is_secret(name), "{name}");
    }
    for name in [
        "password_file",
        "key_secret_file",
        "secret_keys",
        "tls_authority",
        "redis",
        "limit",
        "name",
        "client_authority",
        "policy",
        "access",
        "scopes",
        "quotas",
        "paths",
    ] {
        assert!(!is_secret(name), "{name}");
    }
}

#[test]
fn passwords_of_addresses_end_at_the_last_at_sign() {
    for (text, secret) in [
        ("redis://me:a,b@host", "a,b"),
        ("redis://:p@s s\"'@host", "p@s s\"'"),
        ("redis://hunter2@host", "hunter2"),
        ("me:hunter2@host:1", "hunter2"),
        ("redis://a:b@c,redis://d:e@f", "b@c,redis://d:e"),
    ] {
        assert_eq!(credentials(text).map(|part| &text[part]), Some(secret), "{text}");
    }
    assert_eq!(credentials("redis://host:6379"), None);
}
