//! The `memlab` program: see the library for everything.

fn main() {}
