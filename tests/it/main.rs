//! The one integration-test binary: it sees memlab as its users do, as a library and as a program.
#![allow(clippy::unwrap_used, missing_docs)]

mod accounting;
mod allocator_model;
mod categories;
mod cli;
mod cli_files;
mod cli_help;
mod docs;
mod emitted;
mod escaping;
mod exactness;
mod floors;
mod fragmentation;
mod hostile;
mod inputs;
mod lines;
mod pickles;
mod program;
mod properties;
mod recorded;
mod roundtrip;
mod sandbox;
mod sizes;
mod whatif;
mod whatif_properties;
