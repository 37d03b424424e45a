//! `memlab run`: hands over to the Python package, which is installed beside this program.
//!
//! Owns the choice of the interpreter. Everything else, options included, is `python -m memlab run`'s.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::cli::Status;
use crate::cli::args::RunArgs;
use crate::cli::failure::refuse;

/// Becomes `python -m memlab run WORDS`. Returns only if that fails, or once it has ended where a process cannot
/// be replaced.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Status> {
    let mut python = Command::new(interpreter());
    python.args(["-m", "memlab", "run"]).args(&args.words);
    become_it(python)
}

#[cfg(unix)]
fn become_it(mut python: Command) -> anyhow::Result<Status> {
    use std::os::unix::process::CommandExt as _;

    let error = python.exec();
    Err(no_python(&python, &error))
}

#[cfg(not(unix))]
fn become_it(mut python: Command) -> anyhow::Result<Status> {
    let status = python.status().map_err(|error| no_python(&python, &error))?;
    std::process::exit(status.code().unwrap_or(2));
}

fn no_python(python: &Command, error: &std::io::Error) -> anyhow::Error {
    let name = python.get_program().to_string_lossy();
    refuse(
        format!("cannot run {name}: {error}"),
        "set PYTHON to the interpreter that has torch and memlab (pip install .)",
    )
}

/// `$PYTHON`; else the interpreter of the environment that this program is installed in; else that of the path.
fn interpreter() -> OsString {
    if let Some(named) = env::var_os("PYTHON").filter(|name| !name.is_empty()) {
        return named;
    }
    let here = env::current_exe().ok().and_then(|program| program.parent().map(PathBuf::from));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = here.into_iter().chain(env::split_paths(&path)).collect();
    let names = if cfg!(windows) { ["python.exe", "python3.exe"] } else { ["python3", "python"] };
    let found = folders
        .iter()
        .find_map(|folder| names.map(|name| folder.join(name)).into_iter().find(|file| file.is_file()));
    found.map_or_else(|| OsString::from("python3"), PathBuf::into_os_string)
}
