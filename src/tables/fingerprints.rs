//! What a line is known by besides its number: the text of its stacks and the sizes it asks for.
//!
//! Owns how a stack's text is brought to hashes from which line numbers and folders are gone. One pass over the
//! events, no history. Does not own the comparison of two recordings (`compare`).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

use rustc_hash::FxHasher;

use crate::model::{Action, DeviceTrace, FrameId, Trace};

use super::{GroupKey, classify_frames, stack_facts};

/// What a line is known by besides its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFingerprint {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// Pairs of neighbouring frames on its stacks, callers and called, by file name and function, as hashes:
    /// ascending, each once, at most `MOST_HASHES`.
    pub stacks: Vec<u64>,
    /// Requested sizes in bytes and how often each came, ascending, at most `MOST_SIZES`, the most frequent.
    pub sizes: Vec<(u64, u64)>,
}

/// Hashes kept per line: of more the smallest, so that two lines keep the same part.
const MOST_HASHES: usize = 512;
/// Sizes kept per line.
const MOST_SIZES: usize = 64;

/// File, line, function.
type Place<'t> = (Option<&'t str>, Option<u64>, Option<&'t str>);

/// Stacks and sizes of one line, being collected.
#[derive(Default)]
struct Collected {
    stacks: BTreeSet<u64>,
    sizes: BTreeMap<u64, u64>,
}

/// The fingerprint of every line that allocates on `device` by its own frames, in order of the text.
#[must_use]
pub fn line_fingerprints(trace: &Trace, device: &DeviceTrace) -> Vec<LineFingerprint> {
    let facts = stack_facts(trace, &classify_frames(trace));
    let frames: Vec<_> = facts.into_iter().map(|facts| facts.user_frame).collect();
    fingerprints_of(trace, device, &frames)
}

/// As [`line_fingerprints`], where each stack stands for the frame that `frames` has for it.
pub(super) fn fingerprints_of(
    trace: &Trace,
    device: &DeviceTrace,
    frames: &[Option<FrameId>],
) -> Vec<LineFingerprint> {
    let names = frame_names(trace);
    let mut seen = vec![false; trace.stacks.len()];
    let mut lines: BTreeMap<Place<'_>, Collected> = BTreeMap::new();
    let events = &device.events;
    for (event, (&action, &stack)) in events.actions.iter().zip(&events.stacks).enumerate() {
        let Some(frame) = frames.get(stack.0 as usize).copied().flatten() else { continue };
        if action != Action::Alloc {
            continue;
        }
        let key = GroupKey::of_frame(trace, frame);
        let line = lines.entry((key.file(trace), key.line, key.function(trace))).or_default();
        let count = line.sizes.entry(events.sizes[event]).or_default();
        *count += 1;
        if !std::mem::replace(&mut seen[stack.0 as usize], true) {
            line.stacks.extend(neighbours(trace.stacks.get(stack), &names));
        }
    }
    let row = |((file, line, function), collected): (Place<'_>, Collected)| LineFingerprint {
        file: file.map(str::to_owned),
        line,
        function: function.map(str::to_owned),
        stacks: collected.stacks.into_iter().take(MOST_HASHES).collect(),
        sizes: most_frequent(collected.sizes),
    };
    lines.into_iter().map(row).collect()
}

fn most_frequent(sizes: BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut sizes: Vec<(u64, u64)> = sizes.into_iter().collect();
    if sizes.len() > MOST_SIZES {
        sizes.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
        sizes.truncate(MOST_SIZES);
        sizes.sort_unstable();
    }
    sizes
}

/// File name (without folders) and function of every frame, as one number.
fn frame_names(trace: &Trace) -> Vec<u64> {
    let name = |id: usize| {
        let frame = trace.frames.get(FrameId(id as u32));
        let file = trace.strings.get(frame.file);
        let mut hasher = FxHasher::default();
        hasher.write(file.rsplit(['/', '\\']).next().unwrap_or(file).as_bytes());
        hasher.write_u8(0xff);
        hasher.write(trace.strings.get(frame.function).as_bytes());
        hasher.finish()
    };
    (0..trace.frames.len()).map(name).collect()
}

/// Each frame with the one that called it; the outermost with nothing.
fn neighbours<'a>(frames: &'a [FrameId], names: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    let name = |at: usize| frames.get(at).and_then(|id| names.get(id.0 as usize)).copied().unwrap_or(0);
    (0..frames.len()).map(move |at| {
        let mut hasher = FxHasher::default();
        hasher.write_u64(name(at));
        hasher.write_u64(name(at + 1));
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    fn prints(lines: [u64; 2], folder: &str) -> Vec<LineFingerprint> {
        let file = format!("{folder}/train.py");
        let linear = "/opt/site-packages/torch/nn/modules/linear.py";
        let trace = TraceBuilder::new()
            .stack(&[(linear, 9, "forward"), (&file, lines[0], "step"), (&file, 90, "main")])
            .alloc(0x1000, 512)
            .alloc(0x2000, 512)
            .stack(&[(&file, lines[1], "step"), (&file, 90, "main")])
            .alloc(0x3000, 1024)
            .free(0x3000, 1024)
            .build();
        line_fingerprints(&trace, &trace.devices[0])
    }

    #[test]
    fn numbers_and_folders_leave_no_trace() {
        let (one, other) = (prints([10, 20], "/a"), prints([13, 24], "/b/c"));
        assert_eq!(one.iter().map(|line| line.line).collect::<Vec<_>>(), [Some(10), Some(20)]);
        for (one, other) in one.iter().zip(&other) {
            assert_ne!(one.file, other.file);
            assert_eq!((&one.stacks, &one.sizes), (&other.stacks, &other.sizes));
        }
        assert_ne!(one[0].stacks, one[1].stacks);
        assert_eq!((one[0].sizes.as_slice(), one[1].sizes.as_slice()), (&[(512, 2)][..], &[(1024, 1)][..]));
    }

    #[test]
    fn of_many_sizes_the_most_frequent_are_kept() {
        let sizes = (0..1_000u64).map(|size| (size, u64::from(size == 900) + 1)).collect();
        let kept = most_frequent(sizes);
        assert_eq!(kept.len(), MOST_SIZES);
        assert!(kept.contains(&(900, 2)) && kept.is_sorted());
    }
}
