//! What of the analysis options was typed: for commands shown again, and for recordings that cannot answer it.

use super::AnalysisArgs;
use crate::cli::names;
use crate::tables::GroupBy;

impl AnalysisArgs {
    /// The option that only events can answer, if one was given.
    pub(crate) fn needs_events(&self) -> Option<&'static str> {
        match (self.from, self.to, &self.step) {
            (Some(_), ..) => Some("--from"),
            (None, Some(_), _) => Some("--to"),
            (None, None, Some(_)) => Some("--step"),
            (None, None, None) => (self.group_by != GroupBy::default()).then_some("--group-by"),
        }
    }

    /// The options that are not at their defaults, as they would be typed.
    pub(crate) fn typed(&self) -> Vec<String> {
        let group_by = Some(self.group_by).filter(|&key| key != GroupBy::default());
        let pairs = [
            ("--device", self.device.map(|value| value.to_string())),
            ("--top", self.top.map(|value| value.to_string())),
            ("--group-by", group_by.map(|value| value.to_string())),
            ("--from", self.from.map(|value| value.to_string())),
            ("--to", self.to.map(|value| value.to_string())),
            ("--step", self.step.as_deref().map(names::shell_word)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))).collect()
    }
}
