//! The one integration-test binary: it sees memlab as its users do, as a library and as a program.

#![allow(clippy::unwrap_used)]

mod cli;
mod cli_files;
mod cli_help;
mod floors;
mod sandbox;
