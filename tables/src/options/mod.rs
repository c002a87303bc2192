//! Options as text and JSON: the one list of the options of a fit, with the name, values, default and help of each option and the fits that it applies to.
//!
//! The command line builds its arguments and help from this list, [`fit_options`] uses it to read values,
//! and the Python package takes the types of its parameters from it.

mod given;
mod kind;
mod list;
mod named;

pub use given::Given;
pub use kind::{Check, Kind};
pub use list::SECTIONS;
pub use named::{fit_options, names, unchecked};
use serde_json::Value;
use sparsegp::error::{Say, spoken};

/// The fits that an option has an effect on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// All fits, unless a separate check refuses the option.
    Any,
    /// Fits whose q takes steps on mini-batches.
    Steps,
    /// Sparse Gaussian processes.
    Sparse,
    /// Linear models.
    Linear,
    /// Linear models whose q takes steps on mini-batches.
    LinearSteps,
}

/// An option of a fit.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in Python. The command line writes `-` for `_`.
    pub name: &'static str,
    /// The kind of values that the option takes.
    pub kind: Kind,
    /// The name of the value in help texts; if empty, help texts show the option's name in capitals.
    pub value: &'static str,
    /// The default that help texts show; empty for an option without a default, or if `help` or `more` describes it.
    pub default: &'static str,
    /// The short help, one line. Other options are marked with ⟨⟩, as in messages.
    pub help: &'static str,
    /// The text that the long help adds; may be empty.
    pub more: &'static str,
    /// The fits that the option has an effect on.
    pub effect: Effect,
    /// The field of [`FitOptions`](sparsegp::options::FitOptions) whose struct holds the value, `constraints` or `growth`; empty if the value is a
    /// field of `FitOptions`.
    pub place: &'static str,
    /// True if the short help (`-h`) shows the option.
    pub everyday: bool,
    /// True if `compare` has the option too.
    pub compared: bool,
    /// The options that this option cannot be combined with. Some of them exist only on the command line.
    pub excludes: &'static [&'static str],
    /// The option that this option requires; empty for none.
    pub needs: &'static str,
}

impl Entry {
    /// Creates an option that applies to all fits and can be combined with all options. The functions below set its other fields.
    const fn new(name: &'static str, kind: Kind) -> Entry {
        Entry {
            name,
            kind,
            value: "",
            default: "",
            help: "",
            more: "",
            effect: Effect::Any,
            place: "",
            everyday: false,
            compared: true,
            excludes: &[],
            needs: "",
        }
    }

    const fn value(self, value: &'static str) -> Entry {
        Entry { value, ..self }
    }

    const fn default(self, default: &'static str) -> Entry {
        Entry { default, ..self }
    }

    const fn help(self, help: &'static str) -> Entry {
        Entry { help, ..self }
    }

    const fn more(self, more: &'static str) -> Entry {
        Entry { more, ..self }
    }

    const fn effect(self, effect: Effect) -> Entry {
        Entry { effect, ..self }
    }

    const fn place(self, place: &'static str) -> Entry {
        Entry { place, ..self }
    }

    const fn everyday(self) -> Entry {
        Entry { everyday: true, ..self }
    }

    const fn not_compared(self) -> Entry {
        Entry { compared: false, ..self }
    }

    const fn excludes(self, excludes: &'static [&'static str]) -> Entry {
        Entry { excludes, ..self }
    }

    const fn needs(self, needs: &'static str) -> Entry {
        Entry { needs, ..self }
    }

    /// Returns the short help, in which `say` writes the marked options.
    pub fn help_with(&self, say: &Say<'_>) -> String {
        spoken(self.help, say)
    }

    /// Returns the long help, in which `say` writes the marked options; `None` if the option has only a short help.
    pub fn long_help_with(&self, say: &Say<'_>) -> Option<String> {
        let more = Some(self.more).filter(|more| !more.is_empty())?;
        Some(format!("{}\n\n{}", self.help_with(say), spoken(more, say)))
    }

    /// Returns the name of the value in help texts.
    pub fn value_name(&self) -> String {
        if self.value.is_empty() { self.name.to_uppercase() } else { self.value.to_owned() }
    }

    /// Returns true if a value counts as unset: null, β = 1, and true for an option that can only be turned off.
    pub fn is_unset(&self, value: &Value) -> bool {
        let is_default = match self.kind {
            Kind::Switch => *value == Value::Bool(true),
            _ => self.name == "beta" && value.as_f64() == Some(1.0),
        };
        is_default || value.is_null()
    }
}

/// The options under one heading of the help.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The heading.
    pub heading: &'static str,
    /// The options, in the order of the help.
    pub options: &'static [Entry],
}

/// Returns all options, in the order of the help. If several options are at fault, messages name the first in this order.
pub fn options() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.iter().flat_map(|section| section.options)
}

/// Returns the option with a name.
pub fn find(name: &str) -> Option<&'static Entry> {
    options().find(|option| option.name == name)
}

/// The names of the options that have one of these effects.
pub(super) fn names_of(effects: &'static [Effect]) -> impl Iterator<Item = &'static str> {
    options().filter(|option| effects.contains(&option.effect)).map(|option| option.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};
    use sparsegp::options::FitOptions;
    use std::collections::BTreeSet;

    /// The fields of the options that no option of the same name sets.
    const OTHERWISE: [&str; 3] = ["constraints", "growth", "open"];

    #[test]
    fn every_field_of_the_options_is_in_the_list_once() {
        let json = serde_json::to_value(FitOptions::default()).expect("options as JSON");
        let names: BTreeSet<&str> = options().map(|option| option.name).collect();
        assert_eq!(names.len(), options().count());
        let fields = json.as_object().expect("fields").keys().map(String::as_str);
        let missing: Vec<&str> =
            fields.filter(|name| !OTHERWISE.contains(name) && !names.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_option_of_the_list_is_read_with_its_default_and_its_words() {
        let unset = fit_options(&Map::new(), &[]).expect("no options");
        for Entry { name, default, kind, .. } in options() {
            let of = |value: Value| Map::from_iter([((*name).to_owned(), value)]);
            let error = fit_options(&of(json!({ "no": "value" })), &[]).expect_err(name);
            assert!(error.options().contains(&(*name).to_owned()), "{name}: {error}");
            if !default.is_empty() {
                let set =
                    fit_options(&of(kind.parse(default).expect("a default")), &[]).expect("the default");
                assert_eq!(FitOptions { open: unset.open, ..set }, unset, "{name}");
            }
            let Kind::Words(words) = kind else { continue };
            for word in *words {
                // Some words require other options, but only the checks enforce this.
                let read = unchecked(&of(json!(word)), &Given::default());
                assert!(read.is_ok(), "{name} {word}: {:?}", read.err());
            }
        }
    }
}
