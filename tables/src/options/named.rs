//! Options given by name with JSON values, as a binding to another language passes them.

use super::{Entry, Given, Kind, find, options};
use serde::Serialize;
use serde_json::{Map, Value};
use sparsegp::error::{Error, Result};
use sparsegp::latent::Jitter;
use sparsegp::options::{FitOptions, Open, Part};
use sparsegp::variational::Schedule;
use std::str::FromStr;

/// Returns the names that [`fit_options`] knows, in alphabetical order.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = options().map(|option| option.name.to_owned()).collect();
    names.sort_unstable();
    names
}

/// Returns the options with these names and values, resolved as on the command line. The names are those of the command line, with `_`
/// for `-`. A value is a word, a number, true or false; null counts as unset. An option that may be repeated on the command line takes
/// a list of texts. `others` names further options that the user gave and that are not options of a fit, such as `betas`.
///
/// ```
/// use serde_json::json;
/// use sparsegp::options::Open;
/// use sparsegp_tables::options::fit_options;
///
/// let json = json!({ "kernel": "matern52(ard)", "inducing": 50, "auto": "none", "fix": ["likelihood.noise_variance=0.1"] });
/// let options = fit_options(json.as_object().expect("names"), &[])?;
/// assert_eq!((options.inducing, options.open), (Some(50), Open::NOTHING));
/// # Ok::<(), sparsegp::Error>(())
/// ```
///
/// # Errors
///
/// Returns a usage error for an unknown name, for an invalid value, and for anything that [`Given::check`], [`Given::check_training`]
/// or [`FitOptions::validate`] refuses.
pub fn fit_options(values: &Map<String, Value>, others: &[&str]) -> Result<FitOptions> {
    let set = values.iter().filter(|(name, value)| find(name).is_none_or(|option| !option.is_unset(value)));
    let given: Given = set.map(|(name, _)| name.as_str()).chain(others.iter().copied()).collect();
    let options = given.by_batches(unchecked(values, &given)?);
    options.validate()?;
    given.check(&options)?;
    given.check_training(&options)?;
    Ok(options)
}

/// Returns the options with these names and values, without the checks of [`fit_options`]. Parts that are not
/// `given` are chosen on held-out rows.
///
/// # Errors
///
/// Returns a usage error for an unknown name or an invalid value. Invalid combinations of values are not detected.
pub fn unchecked(values: &Map<String, Value>, given: &Given) -> Result<FitOptions> {
    let mut fields = Map::from_iter([("open".to_owned(), Open::EVERYTHING.to_string().into())]);
    let mut options = read(&fields)?;
    for (name, value) in values {
        let Some(option) = find(name) else {
            return Err(Error::usage(format!("there is no option '{name}'"))
                .hint(format!("the options are {}", names().join(", "))));
        };
        if !option.is_unset(value) && !is_word(option, value) {
            store(option, value, &mut fields)?;
            options = read(&fields).map_err(|error| invalid(option, error.marked()))?;
        }
    }
    let word = |name: &str| values.get(name).and_then(Value::as_str);
    options.growth = word("inducing").map(|_| options.growth.unwrap_or_default());
    options.open = given.open(options.open);
    if word("neighbours") == Some("auto") {
        options.open = options.open.with(Part::Neighbours);
    }
    Ok(options)
}

/// Returns true if the value is a text, such as `auto`, for an option whose field holds only numbers.
fn is_word(option: &Entry, value: &Value) -> bool {
    matches!(option.kind, Kind::WholeOr(words) if value.as_str().is_some_and(|word| words.contains(&word)))
}

/// Converts the value of an option to its stored form and adds it to the fields.
fn store(option: &Entry, value: &Value, fields: &mut Map<String, Value>) -> Result<()> {
    let value = match (option.kind, option.name) {
        (Kind::WholeOr(words), _) if !value.is_u64() => {
            return Err(Error::usage(format!(
                "⟨{}⟩ is {value}, expected {} or a whole number, 0 or more",
                option.name,
                words.join(", ")
            )));
        }
        (Kind::Texts(_), _) if value.is_string() => Value::Array(vec![value.clone()]),
        (Kind::List(_), _) => joined(value),
        (Kind::Range, _) if value.is_string() => {
            let text = value.as_str().unwrap_or_default();
            option.kind.parse(text).map_err(|error| invalid(option, error.marked()))?
        }
        // These types are stored as structs, not as text.
        (_, "jitter") => parsed::<Jitter>(option, value)?,
        (_, "q_step") => parsed::<Schedule>(option, value)?,
        _ => value.clone(),
    };
    let fields = match option.place {
        "" => fields,
        place => {
            let inner = fields.entry(place).or_insert_with(|| Map::new().into());
            inner.as_object_mut().expect("the fields of a struct")
        }
    };
    let field = if option.name == "auto" { "open" } else { option.name };
    fields.insert(field.to_owned(), value);
    Ok(())
}

/// Joins a list of words with commas; the empty list becomes `none`.
fn joined(value: &Value) -> Value {
    let words =
        value.as_array().and_then(|words| words.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    match words {
        None => value.clone(),
        Some(words) if words.is_empty() => "none".into(),
        Some(words) => words.join(",").into(),
    }
}

/// Parses a text or a number as a `T`, and returns its stored form.
fn parsed<T: FromStr<Err = Error> + Serialize>(option: &Entry, value: &Value) -> Result<Value> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parsed: T = text.parse().map_err(|error: Error| invalid(option, error.marked()))?;
    serde_json::to_value(parsed).map_err(|error| invalid(option, &error.to_string()))
}

fn read(fields: &Map<String, Value>) -> Result<FitOptions> {
    serde_json::from_value(Value::Object(fields.clone())).map_err(|error| Error::usage(error.to_string()))
}

fn invalid(option: &Entry, problem: &str) -> Error {
    Error::usage(format!("⟨{}⟩: {problem}", option.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sparsegp::options::{Growth, Hyper, ModelKind};

    fn named(json: Value) -> Result<FitOptions> {
        fit_options(json.as_object().expect("an object"), &[])
    }

    #[test]
    fn without_options_all_parts_are_chosen() {
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
        assert_eq!(options.growth, Some(Growth { inducing_tolerance: None, max_inducing: Some(40) }));
        assert_eq!((options.jitter, options.hyper), (Jitter::Absolute(1e-8), Some(Hyper::Joint)));
        assert_eq!(options.open.to_string(), "kernel");
        assert_eq!(options.constraints.bounds.len(), 1);
        assert_eq!(named(json!({ "model": "glm" })).expect("a linear model").model, ModelKind::Glm);
    }
}
