//! Lines whose allocations are left out or scaled.

use crate::error::{Error, Result};
use crate::model::Trace;
use crate::report::ChangedLineRow;
use crate::simulate::Requests;

/// A change to all allocations with a line on their stack: those it makes itself, and those made by what it
/// calls.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChange {
    /// File, or the end of its path.
    pub file: String,
    /// Line.
    pub line: u64,
    /// Share of each allocation's size that remains; 0 leaves it out.
    pub factor: f64,
}

/// `requests` with all `changes` made, and what each of them met.
pub(super) fn apply(
    trace: &Trace,
    requests: &Requests,
    changes: &[LineChange],
) -> Result<(Requests, Vec<ChangedLineRow>)> {
    let mut changed = requests.clone();
    let mut rows = Vec::new();
    for change in changes {
        let on_stack = stacks_with(trace, change);
        let is_met = |stack: crate::model::StackId| on_stack.get(stack.0 as usize).copied().unwrap_or(false);
        let (next, met) = changed.scaled(|stack| is_met(stack).then_some(change.factor));
        if met == 0 {
            let what = format!("no allocation has {}:{} on its stack", change.file, change.line);
            return Err(Error::Shape { what });
        }
        changed = next;
        rows.push(ChangedLineRow::of(change, met));
    }
    Ok((changed, rows))
}

/// For every stack, whether the line is on it.
fn stacks_with(trace: &Trace, change: &LineChange) -> Vec<bool> {
    let frames: Vec<bool> = trace
        .frames
        .rows()
        .iter()
        .map(|frame| frame.line == change.line && ends_with_path(trace.strings.get(frame.file), &change.file))
        .collect();
    let is_on = |ids: &[crate::model::FrameId]| ids.iter().any(|id| frames.get(id.0 as usize) == Some(&true));
    trace.stacks.iter().map(is_on).collect()
}

/// Whether `path` ends with the components of `end`.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|front| front.is_empty() || front.ends_with('/') || end.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_match_by_whole_components() {
        assert!(ends_with_path("/home/me/train.py", "train.py"));
        assert!(ends_with_path("train.py", "train.py"));
        assert!(ends_with_path("/home/me/train.py", "me/train.py"));
        assert!(!ends_with_path("/home/me/pretrain.py", "train.py"));
    }
}
