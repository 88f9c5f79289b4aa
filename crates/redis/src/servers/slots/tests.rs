//! Tests of `slots`.

use super::*;

fn answer(rows: &[(i64, i64, &str, i64)]) -> Value {
    let row = |&(first, last, host, port): &(i64, i64, &str, i64)| {
        let node =
            vec![Value::BulkString(host.into()), Value::Int(port), Value::BulkString("id".into())];
        Value::Array(vec![Value::Int(first), Value::Int(last), Value::Array(node)])
    };
    Value::Array(rows.iter().map(row).collect())
}

#[test]
fn slots_match_redis() {
    // As `CLUSTER KEYSLOT` returns.
    assert_eq!(slot_of(b"foo"), 12_182);
    assert_eq!(slot_of(b"{foo}.bar"), 12_182);
    assert_eq!(slot_of(b"x{foo}y{bar}"), 12_182);
    assert_eq!(slot_of(b"123456789"), 0x31C3 % SLOTS);
    assert_eq!(slot_of(b"{}a"), crc16(b"{}a") % SLOTS);
}

#[test]
fn finds_the_node_of_a_slot() {
    let map = answer(&[(5461, 10_922, "b", 2), (0, 5460, "", 1), (10_923, 16_383, "c", 3)]);
    let map = SlotMap::read(&map, "asked").unwrap();
    assert_eq!(map.address(0), Some("asked:1"));
    assert_eq!(map.address(5460), Some("asked:1"));
    assert_eq!(map.address(5461), Some("b:2"));
    assert_eq!(map.address(16_383), Some("c:3"));
    assert_eq!(map.addresses(), ["asked:1", "b:2", "c:3"]);
}

#[test]
fn a_moved_slot_leaves_its_neighbors() {
    let mut map = SlotMap::read(&answer(&[(0, 100, "a", 1), (200, 300, "b", 2)]), "").unwrap();
    for slot in [0, 50, 100, 150, 200] {
        map.moved(slot, "c:3");
        assert_eq!(map.address(slot), Some("c:3"));
    }
    assert_eq!(map.address(1), Some("a:1"));
    assert_eq!(map.address(49), Some("a:1"));
    assert_eq!(map.address(51), Some("a:1"));
    assert_eq!(map.address(99), Some("a:1"));
    assert_eq!(map.address(101), None);
    assert_eq!(map.address(201), Some("b:2"));
    assert_eq!(map.address(300), Some("b:2"));
}

#[test]
fn rejects_invalid_replies() {
    assert!(SlotMap::read(&Value::Nil, "").is_none());
    assert!(SlotMap::read(&answer(&[(0, 20_000, "a", 1)]), "").is_none());
    assert!(SlotMap::read(&Value::Array(vec![Value::Int(1)]), "").is_none());
}
