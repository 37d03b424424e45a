//! The one integration-test binary: it sees memlab as its users do, as a library and as a program.
#![allow(clippy::unwrap_used, missing_docs)]

mod allocator_model;
mod case_files;
mod fragmentation;
mod properties;
