//! Fuzzes the function in `tables/tests/tables/fuzzing/model.rs`, with mutations that keep the
//! description valid JSON.
#![no_main]

#[path = "../../tables/tests/tables/fuzzing/mod.rs"]
mod fuzzing;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::options::{ModelKind, ObjectiveKind};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzing::model::run(input);
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed));
    let changed = if random.random_bool(0.7) { mutated(&data[..size], &mut random) } else { None };
    match changed {
        Some(text) if text.len() <= max_size => {
            data[..text.len()].copy_from_slice(text.as_bytes());
            text.len()
        }
        // Random bytes, if the input is not JSON or its mutation does not fit.
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});

/// Returns the text form with some values of its description replaced.
fn mutated(data: &[u8], random: &mut ChaCha8Rng) -> Option<String> {
    let (description, arrays) = std::str::from_utf8(data).ok()?.split_once('\n')?;
    let mut description: Value = serde_json::from_str(description).ok()?;
    for _ in 0..random.random_range(1..4) {
        let leaves = count(&description);
        mutate(&mut description, &mut random.random_range(0..leaves), random);
    }
    Some(format!("{description}\n{arrays}"))
}

/// Returns the number of values in a document, including containers.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that comes after `left` others.
fn mutate(value: &mut Value, left: &mut usize, random: &mut ChaCha8Rng) -> bool {
    if *left == 0 {
        *value = replacement(value, random);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| mutate(item, left, random)),
        Value::Object(fields) => fields.values_mut().any(|field| mutate(field, left, random)),
        _ => false,
    }
}

/// Returns a value that is likely to be accepted in place of the old one.
fn replacement(old: &Value, random: &mut ChaCha8Rng) -> Value {
    match old {
        Value::Array(items) if !items.is_empty() => {
            let mut items = items.clone();
            let at = random.random_range(0..items.len());
            if random.random_bool(0.5) {
                items.push(items[at].clone());
            } else {
                items.remove(at);
            }
            Value::Array(items)
        }
        Value::Object(fields) if !fields.is_empty() => {
            let mut fields = fields.clone();
            let name = fields.keys().nth(random.random_range(0..fields.len())).cloned().unwrap_or_default();
            fields.remove(&name);
            Value::Object(fields)
        }
        Value::Bool(flag) => json!(!flag),
        Value::String(_) => {
            let words = WORDS.concat();
            json!(words[random.random_range(0..words.len())])
        }
        _ => number(random),
    }
}

fn number(random: &mut ChaCha8Rng) -> Value {
    const NUMBERS: [f64; 14] =
        [0.0, -1.0, 1.0, 2.0, 0.5, -0.0, 1e-300, 1e300, -1e300, 5e-324, 1e-12, 1e12, 1e6, 709.0];
    match random.random_range(0..20usize) {
        k if k < NUMBERS.len() => json!(NUMBERS[k]),
        14 => json!(f64::MAX),
        15 => json!(f64::MIN),
        16 => Value::Null,
        17 => json!(u64::MAX),
        _ => json!(random.random_range(0..100_000u32)),
    }
}

/// Words that are valid somewhere in a description.
const WORDS: [&[&str]; 6] = [
    &["", "x", "y", "a", "1", "2", "3", "NaN", "numeric", "categorical", "real", "unit_interval", "binary"],
    &["rbf(ard)", "rbf[0]", "matern12", "periodic(ard)", "rq + white", "scale(rbf * constant)"],
    &["variance", "lengthscales", "scale", "first_edge", "gaps", "df", "alpha", "noise_variance"],
    LikelihoodKind::WORDS,
    ObjectiveKind::WORDS,
    ModelKind::WORDS,
];
