//! The command-line arguments for the options in the library's list.

use super::parsers::words;
use crate::output::dashes;
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use serde_json::{Map, Value};
use sparsegp_tables::options::{Entry, Kind, SECTIONS, find, options};

/// The options of a fit that the user set, with their values by name. `COMPARED` is true for `compare`, which has only some of the options.
#[derive(Clone, Debug, Default)]
pub struct OptionArgs<const COMPARED: bool>(pub Map<String, Value>);

impl<const COMPARED: bool> OptionArgs<COMPARED> {
    /// Returns the value of an option that the user set to a text; `None` for a number or an unset option.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn has(option: &Entry) -> bool {
        option.compared || !COMPARED
    }

    /// Returns true if the command has the option; options of `fit` that are not in the list belong to `fit` only.
    fn knows(name: &str) -> bool {
        find(name).map_or(!COMPARED, Self::has)
    }

    fn argument(option: &'static Entry, heading: &'static str) -> Arg {
        let words = dashes(option.name, None);
        let words = words.trim_start_matches('-');
        let known = option.excludes.iter().copied().filter(|name| Self::knows(name));
        let arg = Arg::new(option.name)
            .long(if matches!(option.kind, Kind::Switch) { format!("no-{words}") } else { words.to_owned() })
            .help(option.help_with(&dashes))
            .help_heading(heading)
            .conflicts_with_all(known);
        let arg = match option.long_help_with(&dashes) {
            Some(text) => arg.long_help(text),
            None => arg,
        };
        let arg = if option.needs.is_empty() { arg } else { arg.requires(option.needs) };
        let arg = if option.default.is_empty() { arg } else { arg.default_value(option.default) };
        match option.kind {
            Kind::Flag => arg.action(ArgAction::SetTrue),
            Kind::Switch => arg.action(ArgAction::SetFalse),
            Kind::Texts(_) => valued(arg.action(ArgAction::Append), option),
            _ => valued(arg.action(ArgAction::Set), option),
        }
    }

    /// Returns the value of an option that the user set.
    fn value(option: &Entry, matches: &ArgMatches) -> Option<Value> {
        if matches.value_source(option.name) != Some(ValueSource::CommandLine) {
            return None;
        }
        match option.kind {
            Kind::Flag | Kind::Switch => Some(Value::Bool(matches.get_flag(option.name))),
            Kind::Texts(_) => Some(matches.get_many::<Value>(option.name)?.cloned().collect()),
            _ => matches.get_one::<Value>(option.name).cloned(),
        }
    }
}

/// Returns the argument with a name and a parser for its value.
fn valued(arg: Arg, option: &'static Entry) -> Arg {
    let parse = |text: &str| option.kind.parse(text);
    let parser = match option.kind.words() {
        Some(known) => ValueParser::new(words(known, parse)),
        None => ValueParser::new(parse),
    };
    arg.value_name(option.value_name()).value_parser(parser).allow_negative_numbers(true)
}

impl<const COMPARED: bool> Args for OptionArgs<COMPARED> {
    fn augment_args(command: Command) -> Command {
        let of_section = SECTIONS.iter().flat_map(|section| {
            let options = section.options.iter().filter(|option| Self::has(option));
            options.map(|option| Self::argument(option, section.heading))
        });
        command.args(of_section)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const COMPARED: bool> FromArgMatches for OptionArgs<COMPARED> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let values = options().filter(|option| Self::has(option)).filter_map(|option| {
            let value = Self::value(option, matches).filter(|value| !option.is_unset(value))?;
            Some((option.name.to_owned(), value))
        });
        Ok(OptionArgs(values.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
