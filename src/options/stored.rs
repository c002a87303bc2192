//! Options as fields of a file: any may be left out, and unknown ones are refused, or ignored in files of models.

use super::fit::FitOptions;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Returns the names of all fields of the options.
fn names() -> impl Iterator<Item = String> {
    // Empty lists and a number of 0 are not written.
    let unwritten = ["dimensions", "effects", "offsets"].map(str::to_owned);
    let json = serde_json::to_value(FitOptions::default()).unwrap_or_default();
    json.as_object().cloned().unwrap_or_default().into_iter().map(|(name, _)| name).chain(unwritten)
}

/// Refuses the fields that are no options.
pub(super) fn refuse_unknown<'de, D: Deserializer<'de>>(rest: D) -> Result<Vec<(String, f64)>, D::Error> {
    let rest = Map::deserialize(rest)?;
    let Some(field) = rest.keys().next() else { return Ok(Vec::new()) };
    let nearest = names().min_by_key(|name| strsim::damerau_levenshtein(name, field)).unwrap_or_default();
    Err(D::Error::custom(format!("unknown option '{field}'; did you mean '{nearest}'?")))
}

/// Reads the options of a fitted model. Options that no longer exist do not matter there.
pub(crate) fn of_model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FitOptions, D::Error> {
    let mut fields = Map::deserialize(deserializer)?;
    let known: Vec<String> = names().collect();
    fields.retain(|name, _| known.contains(name));
    FitOptions::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

/// Returns true for no columns, which files leave out.
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> serde_json::Result<FitOptions> {
        serde_json::from_str(text)
    }

    #[test]
    fn any_field_may_be_left_out_but_an_unknown_one_is_refused() {
        let options = read(r#"{"inducing": 50, "batch_size": 20, "effects": []}"#).expect("options");
        assert_eq!((options.inducing, options.steps.batch_size), (Some(50), 20));
        let whole = serde_json::to_string(&options).expect("JSON");
        assert_eq!(read(&whole).expect("options"), options);
        for (typed, meant) in [("inducng", "inducing"), ("batchsize", "batch_size"), ("Seed", "seed")] {
            let text = format!("{{\"{typed}\": 1}}");
            let error = read(&text).expect_err("a typing error").to_string();
            assert!(
                error.starts_with(&format!("unknown option '{typed}'; did you mean '{meant}'?")),
                "{error}"
            );
            let mut fields = serde_json::Deserializer::from_str(&text);
            assert_eq!(of_model(&mut fields).expect("options"), FitOptions::default());
        }
    }
}
