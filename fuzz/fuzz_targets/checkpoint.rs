//! Fuzzes the function in `tables/tests/tables/fuzzing/checkpoint.rs`.
#![no_main]

#[path = "../../tables/tests/tables/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzing::checkpoint::run(input);
});
