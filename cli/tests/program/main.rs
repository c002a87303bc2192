//! The program: what every command reads, prints, writes and refuses.

mod awkward;
mod categories;
mod choices;
mod cli;
mod columnar;
mod compare;
mod cross_validation;
mod documentation;
mod draws;
mod everyday;
mod figures;
mod glm_cli;
mod groups;
mod hostile;
#[cfg(feature = "serve")]
mod http;
mod limits;
mod modes;
mod options;
mod outputs;
mod pairs;
mod pipelines;
mod places;
mod refusals;
mod report;
mod resume;
mod search_cli;
#[cfg(feature = "serve")]
mod serve;
mod stream;
mod tasks;
mod told;
mod updates;
