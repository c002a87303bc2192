//! The command `serve` in a program that was built without the feature `serve`: a one-line error.

use super::args::ServeArgs;
use sparsegp::{Error, Result};

pub fn run(args: &ServeArgs) -> Result<()> {
    Err(Error::usage(format!("serve cannot answer on {}: this program has no HTTP server", args.listen))
        .hint("build it with the feature serve: cargo install --path cli --features serve"))
}
