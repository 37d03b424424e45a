//! The steps that rules compare with one another: those of the report, or those between backward passes.
//!
//! Owns that choice. The report does not show the second kind: it is no period that was verified.

use std::borrow::Cow;

use crate::tables::{StepSource, StepTable, backward_steps};

use super::Scene;

/// Steps to compare; empty where nothing repeats.
pub(super) fn steps<'a>(scene: &Scene<'a>) -> Cow<'a, StepTable> {
    if scene.steps.source == StepSource::None {
        return Cow::Owned(backward_steps(scene.device, scene.history, &scene.lines.facts));
    }
    Cow::Borrowed(scene.steps)
}

/// Where they come from, in a word.
pub(super) fn source(scene: &Scene<'_>) -> &'static str {
    if scene.steps.source == StepSource::None { "backward" } else { scene.steps.source.name() }
}

/// Whether the program itself names its steps.
pub(super) fn are_named(scene: &Scene<'_>) -> bool {
    matches!(scene.steps.source, StepSource::Marks | StepSource::Annotations)
}
