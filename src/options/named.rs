//! Options by the names and words of the command line, as another language passes them; no resolution of defaults.

use super::fit::FitOptions;
use super::given::Given;
use super::growth::Growth;
use super::list::OPTIONS;
use super::open::{Open, Part};
use super::steps::StepOptions;
use crate::error::{Error, Result};
use crate::hyper::Constraints;
use crate::latent::Jitter;
use crate::variational::Schedule;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

impl FitOptions {
    /// Returns the names that [`FitOptions::named`] knows, in alphabetical order.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> = OPTIONS.iter().map(|option| option.name.to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the options with these names and values, resolved as on the command line from the set of given options; null counts as
    /// unset. Names are those of the command line with `_` for `-`; values are its words, numbers and truth values. Options that may be
    /// repeated there are lists of texts. `others` are names that were also given and are not options of a fit, such as `betas`.
    ///
    /// ```
    /// use serde_json::json;
    /// use sparsegp::options::{FitOptions, Open};
    ///
    /// let json = json!({ "kernel": "matern52(ard)", "inducing": 50, "auto": "none", "fix": ["likelihood.noise_variance=0.1"] });
    /// let options = FitOptions::named(json.as_object().expect("names"), &[])?;
    /// assert_eq!((options.inducing, options.open), (Some(50), Open::NOTHING));
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Usage errors for an unknown name, an invalid value, and everything that [`Given::check`], [`Given::check_training`] and
    /// [`FitOptions::validate`] refuse.
    pub fn named(values: &Map<String, Value>, others: &[&str]) -> Result<FitOptions> {
        let known = FitOptions::names();
        let mut values: Map<String, Value> = values
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if let Some(name) = values.keys().find(|name| known.binary_search(name).is_err()) {
            return Err(Error::usage(format!("there is no option '{name}'"))
                .hint(format!("the options are {}", known.join(", "))));
        }
        let given: Given = values.keys().map(String::as_str).chain(others.iter().copied()).collect();
        let mut take = |name: &str| values.remove(name);
        let (inducing, neighbours) = (take("inducing"), take("neighbours"));
        let (jitter, step) = (take("jitter"), take("q_step"));
        let growth = Growth {
            tolerance: read("inducing_tolerance", take("inducing_tolerance"))?,
            most: read("max_inducing", take("max_inducing"))?,
        };
        let constraints = Constraints {
            bounds: read("bounds", take("bounds"))?.unwrap_or_default(),
            starts: read("start", take("start"))?.unwrap_or_default(),
            fix: read("fix", take("fix"))?.unwrap_or_default(),
            ties: read("tie", take("tie"))?.unwrap_or_default(),
            priors: read("prior", take("prior"))?.unwrap_or_default(),
            ..Constraints::default()
        };
        let (m, grows) = number_or("inducing", inducing, &["auto"])?;
        let (count, beside) = number_or("neighbours", neighbours, &["auto", "none"])?;
        let auto: Open = read("auto", take("auto"))?.unwrap_or(Open::EVERYTHING);
        let open = given.open(auto);
        let plain = plain(&values)?;
        let options = FitOptions {
            inducing: m,
            growth: grows.map(|_| growth),
            neighbours: count,
            open: if beside.as_deref() == Some("auto") { open.with(Part::Neighbours) } else { open },
            jitter: jitter_of(jitter)?.unwrap_or(plain.jitter),
            steps: StepOptions { step: step_of(step)?, ..plain.steps },
            constraints,
            ..plain
        };
        let options = given.by_batches(options);
        options.validate()?;
        given.check(&options)?;
        given.check_training(&options)?;
        Ok(options)
    }
}

/// Returns the options whose stored form equals their text form, each read separately so that messages name it.
fn plain(values: &Map<String, Value>) -> Result<FitOptions> {
    for (name, value) in values {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        read::<FitOptions>(name, Some(alone))?;
    }
    Ok(read("", Some(Value::Object(values.clone())))?.unwrap_or_default())
}

fn read<T: DeserializeOwned>(name: &str, value: Option<Value>) -> Result<Option<T>> {
    let wrong = |error: serde_json::Error| Error::usage(format!("⟨{name}⟩: {error}"));
    value.map(|value| serde_json::from_value(value).map_err(wrong)).transpose()
}

/// A number, or one of some words.
fn number_or(name: &str, value: Option<Value>, words: &[&str]) -> Result<(Option<usize>, Option<String>)> {
    match value {
        Some(Value::String(word)) if words.contains(&word.as_str()) => Ok((None, Some(word))),
        Some(Value::Number(number)) if number.is_u64() => Ok((read(name, Some(number.into()))?, None)),
        Some(other) => Err(Error::usage(format!(
            "⟨{name}⟩ is {other}, expected {} or a whole number, 0 or more",
            words.join(", ")
        ))),
        None => Ok((None, None)),
    }
}

/// Parses a step schedule; it is stored by its parts.
fn step_of(value: Option<Value>) -> Result<Option<Schedule>> {
    let text: Option<String> = read("q_step", value)?;
    let wrong = |error: Error| Error::usage(format!("⟨q_step⟩: {}", error.marked()));
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Parses a jitter: a number relative to the mean diagonal, or `abs:` and a number.
fn jitter_of(value: Option<Value>) -> Result<Option<Jitter>> {
    let wrong = |value: &Value| {
        Error::usage(format!("⟨jitter⟩ is {value}, expected a number, or a text such as abs:1e-6"))
    };
    let Some(value) = value else { return Ok(None) };
    let absolute = value.as_str().and_then(|text| text.strip_prefix("abs:")).map(str::parse);
    match (value.as_f64(), absolute) {
        (Some(number), _) => Ok(Some(Jitter::Relative(number))),
        (_, Some(Ok(number))) => Ok(Some(Jitter::Absolute(number))),
        _ => Err(wrong(&value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Hyper, ModelKind};
    use serde_json::json;

    fn named(json: Value) -> Result<FitOptions> {
        FitOptions::named(json.as_object().expect("an object"), &[])
    }

    #[test]
    fn nothing_said_leaves_everything_open() {
        let options = named(json!({ "kernel": null })).expect("no options");
        assert_eq!(options, FitOptions { open: Open::EVERYTHING, ..FitOptions::default() });
    }

    #[test]
    fn every_form_of_an_option_is_read() {
        let options = named(json!({
            "inducing": "auto", "max_inducing": 40, "neighbours": "none", "jitter": "abs:1e-8", "q_step": "const:0.5",
            "likelihood": "student-t", "bounds": ["*.lengthscales=0.1,"], "auto": "kernel", "hyper": "joint"
        }));
        let options = options.expect("words of the command line");
        assert_eq!(options.growth, Some(Growth { tolerance: None, most: Some(40) }));
        assert_eq!((options.jitter, options.hyper), (Jitter::Absolute(1e-8), Some(Hyper::Joint)));
        assert_eq!(options.open.to_string(), "kernel");
        assert_eq!(options.constraints.bounds.len(), 1);
        assert_eq!(named(json!({ "model": "glm" })).expect("a linear model").model, ModelKind::Glm);
    }

    #[test]
    fn what_is_no_option_or_none_of_its_values_is_named() {
        let said = |json| named(json).expect_err("refused").message_with(&|name, _| format!("<{name}>"));
        assert!(said(json!({ "kernal": "rbf" })).contains("'kernal'"));
        for (name, value) in [
            ("objective", json!("elbow")),
            ("kernel", json!(3)),
            ("inducing", json!(-1)),
            ("neighbours", json!("many")),
            ("jitter", json!([])),
            ("q_step", json!("sometimes")),
            ("beta", json!(-1.0)),
            ("fix", json!(["=3"])),
            ("max_inducing", json!(3)),
        ] {
            let text = said(Value::Object(Map::from_iter([(name.to_owned(), value)])));
            assert!(text.contains(&format!("<{name}>")), "{name}: {text}");
        }
    }
}
