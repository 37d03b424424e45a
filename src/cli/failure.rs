//! What went wrong, in the user's words: one line, its causes, and a hint where there is a remedy.
//!
//! Owns the refusals that the command line itself makes and the shape in which any error is shown. Does not
//! print: that is the console's.

use std::io;

use crate::error::Error;

/// A refusal by the command line itself, with what to do instead.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    message: String,
    hint: String,
}

/// An error that says `message` and suggests `hint`.
pub(crate) fn refuse(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Refusal { message: message.into(), hint: hint.into() }.into()
}

/// An error as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// `failed to read a.pickle: no such file`.
    pub title: String,
    /// Deeper causes, outermost first.
    pub causes: Vec<String>,
    /// What to try.
    pub hint: Option<String>,
}

/// Takes an error apart. The first cause joins the title; a cause that only repeats the one above is left out.
pub(crate) fn describe(error: &anyhow::Error) -> Description {
    let mut texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    texts.dedup();
    let mut texts = texts.into_iter();
    let title: Vec<String> = texts.by_ref().take(2).collect();
    Description { title: title.join(": "), causes: texts.collect(), hint: hint(error) }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(refusal.hint.clone());
        }
        if let Some(known) = cause.downcast_ref::<Error>().and_then(Error::hint) {
            return Some(known.to_owned());
        }
        io_hint(cause.downcast_ref::<io::Error>()?.kind()).map(str::to_owned)
    })
}

fn io_hint(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::NotFound => Some("check the path; `-` reads from standard input"),
        io::ErrorKind::IsADirectory => Some("name a file, for example snapshot.pickle in that folder"),
        io::ErrorKind::StorageFull => Some("free some space, or write to another folder"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_first_cause_joins_the_title_and_repeats_are_left_out() {
        let missing = Error::Io(io::Error::from(io::ErrorKind::NotFound));
        let error = Err::<(), _>(missing).context("failed to read a.pickle").unwrap_err();
        let shown = describe(&error);
        assert_eq!(shown.title, "failed to read a.pickle: entity not found");
        assert_eq!(shown.causes, Vec::<String>::new());
        assert!(shown.hint.unwrap().contains("standard input"));
    }

    #[test]
    fn the_library_knows_its_hints() {
        let error = anyhow::Error::from(Error::UnsupportedVersion { found: 9, supported: 1 });
        assert_eq!(describe(&error).hint.as_deref(), Some("install a newer memlab"));
    }

    #[test]
    fn deeper_causes_follow_one_by_one() {
        let error = anyhow::anyhow!("root").context("middle").context("top");
        let shown = describe(&error);
        assert_eq!((shown.title.as_str(), shown.causes), ("top: middle", vec!["root".to_owned()]));
    }
}
