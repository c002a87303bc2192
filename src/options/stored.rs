//! Options as fields of a file: any may be left out, and unknown ones are refused.

use super::fit::FitOptions;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

impl Serialize for FitOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FitOptions::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for FitOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let known = serde_json::to_value(FitOptions::default()).map_err(D::Error::custom)?;
        let known = known.as_object().into_iter().flat_map(Map::keys);
        if let Some(field) = fields.keys().find(|field| !known.clone().any(|name| name == *field)) {
            let distance = |name: &&String| strsim::damerau_levenshtein(name, field);
            let nearest = known.min_by_key(distance).map_or("", String::as_str);
            return Err(D::Error::custom(format!("unknown option '{field}'; did you mean '{nearest}'?")));
        }
        FitOptions::deserialize(Value::Object(fields)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_field_may_be_left_out_but_an_unknown_one_is_refused() {
        fn read(text: &str) -> serde_json::Result<FitOptions> {
            serde_json::from_str(text)
        }
        let options = read(r#"{"inducing": 50, "batch_size": 20}"#).expect("options");
        assert_eq!((options.inducing, options.steps.batch_size), (Some(50), 20));
        let whole = serde_json::to_string(&options).expect("JSON");
        assert_eq!(read(&whole).expect("options"), options);
        for (typed, meant) in [("inducng", "inducing"), ("batchsize", "batch_size"), ("Seed", "seed")] {
            let error = read(&format!("{{\"{typed}\": 1}}")).expect_err("a typing error").to_string();
            assert_eq!(error, format!("unknown option '{typed}'; did you mean '{meant}'?"));
        }
    }
}
