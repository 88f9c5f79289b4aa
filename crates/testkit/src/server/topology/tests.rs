//! Tests of `topology`.

use super::*;

const TEXT: &str = "\
aa 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-99 200 [300->-bb]
bb 127.0.0.1:7002@17002,host master,fail - 0 0 2 connected 100-199
cc 127.0.0.1:7003@17003 slave aa 0 0 1 connected
";

#[test]
fn every_kind_of_line_is_read() {
    let topology = Topology::parse(TEXT).unwrap();
    assert_eq!(topology.primary_of(0), Some(7001));
    assert_eq!(topology.primary_of(99), Some(7001));
    assert_eq!(topology.primary_of(200), Some(7001));
    assert_eq!(topology.primary_of(201), None);
    assert_eq!(topology.primary_of(300), None);
    // Its primary has failed and was not replaced.
    assert_eq!(topology.primary_of(150), None);
    assert_eq!(topology.replicas_of(7001), [7003]);
    assert!(topology.replicas_of(7002).is_empty());
    assert_eq!(topology.primaries(), [7001]);
}

#[test]
fn rejects_invalid_lines() {
    assert!(Topology::parse("aa\n").is_err());
    assert!(Topology::parse("aa nowhere master - 0 0 1 connected\n").is_err());
}
