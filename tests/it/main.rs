//! The one integration-test binary: it sees memlab as its users do, as a library and as a program.

mod accounting;
mod escaping;
mod exactness;
mod hostile;
mod inputs;
mod pickles;
mod program;
mod roundtrip;
