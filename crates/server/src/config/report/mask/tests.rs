//! Tests of `mask`.

use super::*;

#[test]
fn passwords_are_stars_and_columns_stay() {
    for (text, expected) in [
        ("redis: redis://me:hunter2@host:6379/1", "redis: redis://me:*******@host:6379/1"),
        ("redis: \"redis://:p@ss@host\", x", "redis: \"redis://:****@host\", x"),
        ("redis: redis://host:6379", "redis: redis://host:6379"),
        ("[redis://a:b@c, redis://d:e@f]", "[redis://a:*@c, redis://d:*@f]"),
        ("password: hunter2", "password: *******"),
        ("REDIS_AUTH=hunter2", "REDIS_AUTH=*******"),
        ("password_file: /run/secret", "password_file: /run/secret"),
        ("{\"password\": \"x\"}", "{\"password\": ****"),
    ] {
        assert_eq!(line(text), expected);
    }
}
