//! A profile for `pprof`: which stack holds how much, in the tool that Go and C++ people use.
//!
//! Owns the profile ([`messages`] are its shape, `places` what its samples refer to, `write` its contents). Does not
//! own the sums (`tables::stack_totals`).

mod messages;
mod places;
mod write;

pub use write::write_pprof;
