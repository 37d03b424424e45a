//! `memlab record`: starts a program with the driver-level recorder in it.
//!
//! Owns finding the recorder's libraries and the environment that they read (`inject/src/settings.rs`). Then it becomes
//! the program: signals, standard streams and the exit code are the program's own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::cli::Status;
use crate::cli::args::{Hook, RecordArgs};
use crate::cli::console::Console;
use crate::cli::failure::refuse;

/// The library that the CUDA driver loads.
const INJECT: &str = "libmemlab_inject.so";
/// The same with interposed functions.
const PRELOAD: &str = "libmemlab_preload.so";

/// How every trace begins.
const TRACE: [u8; 9] = *b"\x97\xa6memlab\0";

/// Becomes the program. Returns only if that fails.
pub(crate) fn run(args: &RecordArgs, console: &Console) -> anyhow::Result<Status> {
    let name = if args.hook == Hook::Cupti { INJECT } else { PRELOAD };
    let library = find(name)?;
    let output = absolute(&args.output).context("the current folder has no path")?;
    let folder = output.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() && !folder.to_string_lossy().contains('{') {
        return Err(refuse(
            format!("failed to write {}: there is no such folder", args.output.display()),
            "make the folder, or name another file with -o",
        ));
    }
    let (program, arguments) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    for (variable, value) in environment(args, &library, &output, console) {
        command.env(variable, value);
    }
    remove_earlier(&output)?;
    become_it(command, program)
}

/// A recording from before must not pass for this one's; any other file is not ours to remove.
fn remove_earlier(output: &Path) -> anyhow::Result<()> {
    let Ok(mut file) = File::open(output) else { return Ok(()) };
    let mut start = [0; TRACE.len()];
    if file.read_exact(&mut start).is_err() || start != TRACE {
        return Err(refuse(
            format!("{} is there already and is no trace", output.display()),
            "name another file with -o",
        ));
    }
    std::fs::remove_file(output).with_context(|| format!("failed to replace {}", output.display()))
}

/// What the library reads, and what has it loaded.
fn environment(
    args: &RecordArgs,
    library: &Path,
    output: &Path,
    console: &Console,
) -> Vec<(&'static str, OsString)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
    let mut environment: Vec<(&'static str, OsString)> = vec![
        ("CUDA_INJECTION64_PATH", library.into()),
        ("MEMLAB_DRIVER_OUTPUT", output.into()),
        ("MEMLAB_DRIVER_HOOK", args.hook.name().into()),
        ("MEMLAB_DRIVER_STACKS", args.stacks.name().into()),
        ("MEMLAB_DRIVER_SINCE", now.to_string().into()),
        ("MEMLAB_DRIVER_SAY", if console.is_quiet() { "0" } else { "1" }.into()),
    ];
    if args.hook != Hook::Cupti {
        let before = env::var_os("LD_PRELOAD").filter(|list| !list.is_empty());
        let mut list = library.as_os_str().to_owned();
        if let Some(before) = before {
            list.push(":");
            list.push(before);
        }
        environment.push(("LD_PRELOAD", list));
    }
    environment
}

/// The library: where `$MEMLAB_INJECT` says (a folder, or one of the libraries); beside this program; in the Python
/// package that it was installed with.
fn find(name: &str) -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os("MEMLAB_INJECT").filter(|path| !path.is_empty()) {
        let named = PathBuf::from(named);
        let folder = if named.is_dir() { named.as_path() } else { named.parent().unwrap_or(Path::new(".")) };
        let path = folder.join(name);
        return if path.is_file() {
            absolute(path).context("the current folder has no path")
        } else {
            Err(refuse(
                format!("there is no {name} in {}", folder.display()),
                "MEMLAB_INJECT names its folder",
            ))
        };
    }
    let here = env::current_exe().ok().and_then(|program| program.parent().map(PathBuf::from));
    let folders = here.iter().flat_map(|here| [here.clone()].into_iter().chain(packages(here)));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        refuse(
            format!("the recorder's library {name} is not installed"),
            "install the wheel for Linux, or build it (cargo build --release -p memlab-inject -p memlab-preload) \
             and have MEMLAB_INJECT name its folder",
        )
    })
}

/// Folders of the package `memlab` in the environment whose scripts lie in `scripts`.
fn packages(scripts: &Path) -> Vec<PathBuf> {
    let Some(library) = scripts.parent().map(|prefix| prefix.join("lib")) else { return Vec::new() };
    let entries = library.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut pythons: Vec<PathBuf> = entries
        .filter(|path| {
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("python"))
        })
        .collect();
    pythons.sort();
    let site =
        |python: PathBuf| ["site-packages", "dist-packages"].map(|name| python.join(name).join("memlab"));
    pythons.into_iter().flat_map(site).collect()
}

#[cfg(target_os = "linux")]
fn become_it(mut command: Command, program: &OsStr) -> anyhow::Result<Status> {
    use std::os::unix::process::CommandExt as _;

    let error = command.exec();
    Err(refuse(
        format!("cannot run {}: {error}", program.display()),
        "name the program as a shell would find it",
    ))
}

#[cfg(not(target_os = "linux"))]
fn become_it(_: Command, _: &OsStr) -> anyhow::Result<Status> {
    Err(refuse("driver calls can be recorded on Linux alone", "use `memlab run` for a PyTorch program"))
}
