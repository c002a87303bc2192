//! Fuzzes what `tests/fuzzing/checkpoint.rs` does with an input; no checks.
#![no_main]

#[path = "../../tests/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzing::checkpoint::run(input);
});
