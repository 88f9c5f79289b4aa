//! Tests of `request`.

use super::*;

fn read(query: &str) -> Option<Vec<(String, String)>> {
    Some(parameters(query).ok()?.into_owned().collect())
}

#[test]
fn parameters_are_decoded() {
    let expected = [("a", "1"), ("b c", "ü&"), ("flag", ""), ("x", "a=b")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(read("a=1&b+c=%C3%bc%26&&flag&x=a=b"), Some(expected.to_vec()));
    assert_eq!(read(""), Some(Vec::new()));
}

#[test]
fn rejects_invalid_encodings() {
    for query in ["a=%", "a=%4", "a=%zz", "a=%ff", "%c3=1"] {
        assert_eq!(read(query), None, "{query}");
    }
}
