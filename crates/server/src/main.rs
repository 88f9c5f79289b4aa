//! The program `slidegate`.

fn main() {}
