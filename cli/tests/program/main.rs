//! The program: what every command reads, prints, writes and refuses.

mod awkward;
mod categories;
mod choices;
mod cli;
mod columnar;
mod compare;
mod constraints_cli;
mod documentation;
mod draws;
mod everyday;
mod figures;
mod glm_cli;
mod help;
mod hostile;
mod limits;
mod mixed;
mod modes;
mod outputs;
mod pipelines;
mod report;
mod resume;
mod search_cli;
mod stream;
mod tasks;
mod told;
mod updates;
