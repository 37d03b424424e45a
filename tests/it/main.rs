//! The one integration-test binary: it sees memlab as its users do, as a library and as a program.
