//! Tests of `nearest`.

use super::*;

#[test]
fn suggests_the_intended_word() {
    let words = ["quotas", "algorithm", "store", "mode"];
    for (slip, word) in
        [("qoutas", "quotas"), ("quota", "quotas"), ("Algoritm", "algorithm"), ("stroe", "store")]
    {
        assert_eq!(nearest(slip, words), Some(word), "{slip}");
    }
    assert_eq!(nearest("banana", words), None);
    assert_eq!(nearest("", words), None);
    assert_eq!(nearest(&"m".repeat(1000), words), None);
}
