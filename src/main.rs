//! The `memlab` program: see the library for everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    memlab::cli::main()
}
