//! Tests of `reply`.

use super::*;

#[test]
fn numbers_of_all_sizes() {
    for number in [0, 9, 10, 12_345, -1, -10, i64::MAX, i64::MIN] {
        let mut replies = Replies::default();
        replies.integer(number);
        assert_eq!(replies.bytes(), format!(":{number}\r\n").as_bytes());
    }
}

#[test]
fn an_error_is_always_one_line() {
    let mut replies = Replies::default();
    replies.error("ERR a\r\n+OK\r\n");
    assert_eq!(replies.bytes(), b"-ERR a  +OK  \r\n");
}

#[test]
fn maps_and_nulls_by_version() {
    let mut replies = Replies::default();
    replies.map(2);
    replies.null();
    assert_eq!(replies.bytes(), b"*4\r\n$-1\r\n");
    let mut replies = Replies { is_resp3: true, ..Replies::default() };
    replies.map(2);
    replies.null();
    assert_eq!(replies.bytes(), b"%2\r\n_\r\n");
}
