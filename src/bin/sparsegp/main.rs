//! The command line: parsing and printing; no maths.
fn main() {}
