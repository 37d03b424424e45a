//! Whether to colour: the flag first, then the environment, then the terminal.
//!
//! Owns the decision only. The order is `--color`, `NO_COLOR`, `FORCE_COLOR` and `CLICOLOR_FORCE`, then
//! whether the stream is a terminal. No meaning is ever carried by colour alone.

use std::ffi::OsString;

/// Value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    // No documentation here: it would stand in every `--help`, five lines long.
    #[default]
    Auto,
    Always,
    Never,
}

/// What the environment says about colour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Environment {
    /// `NO_COLOR` is there and not empty.
    pub forbids: bool,
    /// `FORCE_COLOR` or `CLICOLOR_FORCE` is there, not empty and not `0`.
    pub forces: bool,
    /// The terminal cannot colour (`TERM=dumb`), or `CLICOLOR=0`.
    pub declines: bool,
}

impl Environment {
    /// Reads this process's environment.
    pub(crate) fn read() -> Self {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let is_set = |name| lookup(name).is_some_and(|value| !value.is_empty() && value != "0");
        Self {
            forbids: lookup("NO_COLOR").is_some_and(|value| !value.is_empty()),
            forces: is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE"),
            declines: lookup("TERM").is_some_and(|value| value == "dumb")
                || lookup("CLICOLOR").is_some_and(|value| value == "0"),
        }
    }
}

/// Whether a stream gets colour.
pub(crate) fn decide(when: ColorWhen, environment: Environment, is_terminal: bool) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto if environment.forbids => false,
        ColorWhen::Auto if environment.forces => true,
        ColorWhen::Auto => is_terminal && !environment.declines,
    }
}

/// The value of `--color` before the arguments are parsed: help and usage errors follow it too. Anything
/// that is not understood counts as `auto`; the parser will complain about it.
pub(crate) fn peek(arguments: &[OsString]) -> ColorWhen {
    let texts: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let after_flag = texts.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let joined = texts.iter().filter_map(|text| text.strip_prefix("--color="));
    match after_flag.chain(joined).last() {
        Some("always") => ColorWhen::Always,
        Some("never") => ColorWhen::Never,
        _ => ColorWhen::Auto,
    }
}

/// The same choice in clap's words, for help and usage errors; clap itself looks at the terminal.
pub(crate) fn for_clap(when: ColorWhen, environment: Environment) -> clap::ColorChoice {
    match (decide(when, environment, false), decide(when, environment, true)) {
        (true, _) => clap::ColorChoice::Always,
        (false, true) => clap::ColorChoice::Auto,
        (false, false) => clap::ColorChoice::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_flag_beats_the_environment() {
        assert!(decide(ColorWhen::Always, environment(&[("NO_COLOR", "1")]), false));
        assert!(!decide(ColorWhen::Never, environment(&[("FORCE_COLOR", "1")]), true));
    }

    #[test]
    fn no_color_beats_force_color_and_an_empty_one_says_nothing() {
        let both = environment(&[("NO_COLOR", "1"), ("FORCE_COLOR", "1")]);
        assert!(!decide(ColorWhen::Auto, both, true));
        let empty = environment(&[("NO_COLOR", ""), ("CLICOLOR_FORCE", "1")]);
        assert!(decide(ColorWhen::Auto, empty, false));
    }

    #[test]
    fn zero_does_not_force() {
        assert!(!decide(ColorWhen::Auto, environment(&[("CLICOLOR_FORCE", "0")]), false));
    }

    #[test]
    fn without_a_word_the_terminal_decides() {
        assert!(decide(ColorWhen::Auto, environment(&[]), true));
        assert!(!decide(ColorWhen::Auto, environment(&[]), false));
        assert!(!decide(ColorWhen::Auto, environment(&[("TERM", "dumb")]), true));
    }

    #[test]
    fn the_flag_is_found_before_parsing() {
        let of = |words: &[&str]| peek(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["memlab", "--color", "always", "--help"]), ColorWhen::Always);
        assert_eq!(of(&["memlab", "--color=never"]), ColorWhen::Never);
        assert_eq!(of(&["memlab", "--color"]), ColorWhen::Auto);
    }
}
