//! `memlab completions` and `memlab man`: what the argument definitions say, for shells and for `man`.

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::Status;
use crate::cli::args;
use crate::cli::console::Console;

/// The page has no date: the same memlab always prints the same page. An empty field would be skipped, though.
const DATE: &str = " ";

/// Prints the completions of `shell`.
pub(crate) fn completions(shell: Shell, console: &Console) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "memlab", &mut script);
    console.print(&String::from_utf8_lossy(&script))?;
    Ok(Status::Done)
}

/// Prints one manual page with every command in it.
pub(crate) fn manual(console: &Console) -> anyhow::Result<Status> {
    console.print(&page()?)?;
    Ok(Status::Done)
}

fn page() -> anyhow::Result<String> {
    let mut out = Vec::new();
    let command = args::command().disable_help_subcommand(true);
    let man = Man::new(command.clone()).manual("User Commands").date(DATE);
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    Roff::new().control("SH", ["COMMANDS"]).to_writer(&mut out)?;
    for subcommand in command.get_subcommands() {
        write_command(subcommand, &mut out)?;
    }
    man.render_options_section(&mut out)?;
    write_notes(&command, "SH", &mut out)?;
    Ok(with_one_preamble(&String::from_utf8_lossy(&out)))
}

/// Every rendered part begins with the same two lines that set up quotes; one pair is enough.
fn with_one_preamble(page: &str) -> String {
    let (setup, rest): (Vec<_>, Vec<_>) =
        page.lines().partition(|line| line.starts_with(".ie ") || line.starts_with(".el "));
    let lines: Vec<_> = setup.into_iter().take(2).chain(rest).collect();
    lines.join("\n") + "\n"
}

/// A command as a subsection: usage, what it does, its own options, examples.
fn write_command(command: &clap::Command, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let name = format!("memlab {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().bin_name(&name).disable_help_flag(true));
    Roff::new().control("SS", [name.as_str()]).text([roman(about)]).control("PP", []).to_writer(out)?;
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    out.extend(below_a_subsection(&String::from_utf8_lossy(&sections)).into_bytes());
    write_notes(command, "PP", out)
}

/// Section headings become bold lines: roff has no third level.
fn below_a_subsection(sections: &str) -> String {
    let line = |line: &str| match line.strip_prefix(".SH ") {
        Some("SYNOPSIS") => ".PP\n".to_owned(),
        Some(heading) => format!(".PP\n\\fB{}\\fR\n", heading.trim_matches('"')),
        None => format!("{line}\n"),
    };
    sections.lines().map(line).collect()
}

/// The notes behind the options, line for line. Blocks are separated by empty lines and begin with a title.
fn write_notes(command: &clap::Command, level: &str, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let notes = command.get_after_long_help().or(command.get_after_help());
    let notes = notes.map(ToString::to_string).unwrap_or_default();
    for block in notes.split("\n\n").filter(|block| !block.is_empty()) {
        let (title, rest) = block.split_once('\n').unwrap_or((block, ""));
        let title = title.trim_end_matches(':');
        let mut roff = Roff::new();
        if level == "SH" {
            roff.control("SH", [title.to_uppercase().as_str()]);
        } else {
            roff.control("PP", []).text([bold(title)]);
        }
        roff.control("nf", []);
        for line in rest.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []).to_writer(out)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_with_its_options() {
        let page = page().unwrap();
        for command in args::command().get_subcommands() {
            assert!(page.contains(&format!("memlab {}", command.get_name())), "{}", command.get_name());
        }
        for word in [".TH memlab 1", "\\-\\-group\\-by", "\\-\\-codec", ".SH \"EXIT CODES\"", "NO_COLOR"] {
            assert!(page.contains(word), "{word} is missing in\n{page}");
        }
    }
}
