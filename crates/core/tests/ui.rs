//! Compiler messages for common mistakes.
//!
//! `TRYBUILD=overwrite cargo test -p slidegate --test ui` updates the expected messages.

#[test]
fn compiler_messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/key_*.rs");
    cases.compile_fail("tests/ui/quota_*.rs");
    cases.pass("tests/ui/const_*.rs");
}
