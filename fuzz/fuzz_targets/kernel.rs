//! Fuzzes what `tests/fuzzing/kernel.rs` does with an input; nothing of its own.
#![no_main]

#[path = "../../tests/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzing::kernel::run(input);
});
