//! Help, version, completions and the manual page.

use crate::sandbox::Sandbox;

#[test]
fn help_texts_are_as_recorded() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!("help", sandbox.run(&["--help"]).ends_with(0).stdout);
    insta::assert_snapshot!("help_short", sandbox.run(&["-h"]).ends_with(0).stdout);
    for command in [
        "analyze",
        "convert",
        "diff",
        "explain",
        "export",
        "info",
        "lines",
        "oom",
        "record",
        "reduce",
        "report",
        "run",
        "summary",
        "whatif",
        "completions",
        "man",
    ] {
        let run = sandbox.run(&[command, "--help"]).ends_with(0);
        assert_eq!(run.stderr, "");
        insta::assert_snapshot!(format!("help_{command}"), run.stdout);
    }
}

#[test]
fn help_says_how_runs_end() {
    let help = Sandbox::new().run(&["--help"]).ends_with(0).stdout;
    for word in ["Exit codes:", "NO_COLOR", "Examples:", "Global:"] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn the_version_names_the_trace_format() {
    let run = Sandbox::new().run(&["-V"]).ends_with(0);
    assert_eq!(run.stdout, concat!("memlab ", env!("CARGO_PKG_VERSION"), " (trace format 1)\n"));
}

#[test]
fn every_shell_gets_completions() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = sandbox.run(&["completions", shell]).ends_with(0);
        for word in ["memlab", "analyze", "group-by"] {
            assert!(run.stdout.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn the_manual_page_is_roff_with_every_command() {
    let run = Sandbox::new().run(&["man"]).ends_with(0);
    assert!(run.stdout.contains(".TH memlab 1"), "{}", run.stdout);
    for command in [
        "analyze",
        "convert",
        "explain",
        "export",
        "info",
        "lines",
        "oom",
        "record",
        "reduce",
        "report",
        "run",
        "summary",
        "whatif",
        "completions",
        "man",
    ] {
        assert!(run.stdout.contains(&format!(".SS \"memlab {command}\"")), "{command}");
    }
}
