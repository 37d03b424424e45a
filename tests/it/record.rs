//! `memlab record`: what the program is started with, and that it is the program's own run from there on.

use std::path::Path;

use crate::inputs::{read, testdata};
use crate::sandbox::{Run, Sandbox, run};

/// A sandbox with files in place of the recorder's libraries.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("lib")).unwrap();
    sandbox.put("lib/libmemlab_inject.so", "");
    sandbox.put("lib/libmemlab_preload.so", "");
    sandbox
}

/// Runs `memlab record WORDS` with the libraries at `inject`.
fn record(sandbox: &Sandbox, words: &[&str], inject: &Path) -> Run {
    let mut command = sandbox.memlab();
    run(command.arg("record").args(words).env("MEMLAB_INJECT", inject).env_remove("LD_PRELOAD"))
}

#[test]
fn the_program_gets_the_library_and_where_to_write() {
    let sandbox = sandbox();
    let folder = sandbox.path("lib");
    let words = ["--hook", "cupti", "--stacks", "native", "-o", "t.msgpack", "--", "env"];
    let run = record(&sandbox, &words, &folder).ends_with(0);
    let value = |name: &str| {
        let line = run.stdout.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.map(str::to_owned)
    };
    assert_eq!(
        value("CUDA_INJECTION64_PATH"),
        Some(folder.join("libmemlab_inject.so").display().to_string())
    );
    assert_eq!(value("MEMLAB_DRIVER_OUTPUT"), Some(sandbox.path("t.msgpack").display().to_string()));
    assert_eq!(value("MEMLAB_DRIVER_STACKS").as_deref(), Some("native"));
    assert_eq!(value("LD_PRELOAD"), None);
    assert_eq!(run.stderr, "");
}

#[test]
fn interposed_functions_come_first_of_what_is_preloaded() {
    let sandbox = sandbox();
    let library = sandbox.path("lib").join("libmemlab_preload.so");
    let run = record(&sandbox, &["--", "env"], &library).ends_with(0);
    assert!(run.stdout.contains(&format!("LD_PRELOAD={}", library.display())), "{}", run.stdout);
    assert!(run.stdout.contains("MEMLAB_DRIVER_HOOK=auto"), "{}", run.stdout);
}

#[test]
fn the_exit_code_and_the_arguments_are_the_programs() {
    let sandbox = sandbox();
    let words = ["--hook", "cupti", "sh", "-c", "echo \"$0 $1\"; exit 7", "--output", "-q"];
    let run = record(&sandbox, &words, &sandbox.path("lib")).ends_with(7);
    assert_eq!(run.stdout, "--output -q\n");
}

#[test]
fn a_recording_from_before_is_removed_and_nothing_else_is() {
    let sandbox = sandbox();
    let words = ["--hook", "cupti", "-o", "t.msgpack", "true"];
    std::fs::write(sandbox.path("t.msgpack"), b"\x97\xa6memlab\0\0").unwrap();
    record(&sandbox, &words, &sandbox.path("lib")).ends_with(0);
    assert!(!sandbox.path("t.msgpack").exists());
    sandbox.put("t.msgpack", "a thesis");
    let run = record(&sandbox, &words, &sandbox.path("lib")).ends_with(2);
    assert!(run.stderr.contains("is no trace") && run.stderr.contains("hint: "), "{run:?}");
    assert_eq!(sandbox.read("t.msgpack"), "a thesis");
}

#[test]
fn what_is_missing_is_said() {
    let sandbox = sandbox();
    let folder = sandbox.path("lib");
    let said = |words: &[&str], inject: &Path| record(&sandbox, words, inject).ends_with(2).stderr;
    let missing = said(&["true"], &sandbox.path("elsewhere/x.so"));
    assert!(missing.contains("there is no libmemlab_preload.so") && missing.contains("hint: "), "{missing}");
    let no_folder = said(&["-o", "no/t.msgpack", "true"], &folder);
    assert!(no_folder.contains("no such folder"), "{no_folder}");
    let no_program = said(&["--hook", "cupti", "no-such-program"], &folder);
    assert!(no_program.contains("cannot run no-such-program"), "{no_program}");
}

#[test]
fn recordings_of_a_gpu_are_whole_and_read() {
    for (name, calls) in [("cupti", 36), ("preload", 32), ("torch", 422), ("expandable", 2462)] {
        let trace = read(&testdata("driver/recorded").join(format!("{name}.msgpack")));
        assert!(trace.complete && trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
        assert_eq!(trace.process.writer.as_deref(), Some("memlab-inject 0.1.0"));
        assert_eq!(trace.driver.unwrap().rows.len(), calls, "{name}");
    }
}
