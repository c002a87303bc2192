# Commands for work on sparsegp. `just` lists them.

# Build once, without what only a debugger needs.
export CARGO_PROFILE_DEV_DEBUG := "none"

# List the commands.
default:
    @just --list --unsorted

# Format, lint, and run the unit tests of the core: before every commit.
quick:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test -p sparsegp-kernels -p sparsegp --lib
    cargo test -p sparsegp-cli --test program documentation

# Count the public items of the core, and fail above 500; `--list` lists them.
public-items *ARGS:
    .ci/public-items {{ARGS}}

# Run everything that a change has to pass.
check:
    .ci/run

# Build and test what a release would publish; PYTHONS default to all that are found.
release-check *PYTHONS:
    .ci/release {{PYTHONS}}

# Build the book, the reference of the crates and that of the Python package into one site, target/site.
site:
    .ci/site
