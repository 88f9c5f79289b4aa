//! Error messages of the compiler for mistakes that are easy to make.
//!
//! The expected messages are in `tests/ui/*.stderr`. After a change, `TRYBUILD=overwrite cargo test
//! -p slidegate-tower --test ui` writes them.

#[test]
fn compiler_errors_describe_the_fix() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
