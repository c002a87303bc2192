//! The program: what every command reads, prints, writes and refuses.

mod awkward;
mod categories;
mod choices;
mod cli;
mod columnar;
mod compare;
mod conformal;
mod cross_validation;
mod documentation;
mod forecast;
mod glm_cli;
mod groups;
mod hostile;
mod known;
mod modes;
mod offsets;
mod options;
mod outputs;
mod pairs;
mod pipelines;
mod places;
mod refusals;
mod report;
mod resume;
#[cfg(feature = "serve")]
mod serve;
mod stream;
mod tasks;
mod trials;
mod updates;
