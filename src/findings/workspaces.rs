//! Workspaces of matrix libraries among what stays: known by native frames, or by size and place.
//!
//! Owns the sizes that PyTorch asks for by default and what counts as "the place": the first call of a
//! stack whose other allocations come and go. Claims nothing that two different things would look like.

use std::collections::{BTreeMap, HashMap};

use crate::model::StackId;
use crate::rebuild::NONE;
use crate::tables::Maker;

use super::Scene;

/// cuBLAS's default before Hopper: 2 x 4 MiB + 8 x 16 KiB. Nobody else asks for this.
const BEFORE_HOPPER_BYTES: u64 = 8_519_680;
/// cuBLAS's default on Hopper and later: 8 x 4 MiB. A round number, so its place must fit too.
const SINCE_HOPPER_BYTES: u64 = 33_554_432;
/// A first call may have allocated this often before it comes to its workspace (casts of its inputs).
const MOST_BEFORE: u64 = 4;
/// As many allocations of the same stack must have come and gone since.
const LEAST_AFTER: u64 = 2;

/// More candidates of one stack than a job has streams are no workspaces.
const MOST_STREAMS: usize = 64;

/// Allocations that are workspaces.
#[derive(Debug, Default)]
pub(super) struct Workspaces {
    /// Whose native frames say so.
    pub(super) by_frames: Vec<usize>,
    /// Whose size and place say so.
    pub(super) by_place: Vec<usize>,
}

impl Workspaces {
    /// Looks through what stays; a pass over the allocations only where a size asks for it.
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let is_made = |row: &usize| scene.maker(*row) == Maker::Workspace;
        let by_frames = scene.survivors().iter().copied().filter(is_made).collect();
        Self { by_frames, by_place: by_place(scene) }
    }
}

/// Stream that allocation `row` is of; `None` when its segment is unknown.
pub(super) fn stream_of(scene: &Scene<'_>, row: usize) -> Option<u64> {
    let range = scene.history.allocations.ranges[row];
    scene.history.ranges.streams.get(range as usize).copied()
}

/// What else was allocated by the stack of a candidate.
struct Story {
    row: usize,
    stream: Option<u64>,
    /// Allocations of its stack on its stream before it.
    before: u64,
    /// Allocations of its stack and size on its stream, its own included.
    of_its_size: u64,
    /// Allocations of its stack, on any stream, that came before it and are gone.
    gone_before: u64,
}

/// The candidates of one stack, and how many of its allocations are gone.
#[derive(Default)]
struct Stack {
    stories: Vec<Story>,
    gone: u64,
}

fn by_place(scene: &Scene<'_>) -> Vec<usize> {
    let mut stacks: HashMap<StackId, Stack> = HashMap::new();
    for &row in scene.survivors().iter().filter(|&&row| is_candidate(scene, row)) {
        let stories = &mut stacks.entry(scene.history.allocations.stacks[row]).or_default().stories;
        if stories.len() < MOST_STREAMS {
            let stream = stream_of(scene, row);
            stories.push(Story { row, stream, before: 0, of_its_size: 0, gone_before: 0 });
        }
    }
    if stacks.is_empty() {
        return Vec::new();
    }
    read(scene, &mut stacks);
    let fits = |row: &usize| {
        let stack = stacks.get(&scene.history.allocations.stacks[*row]);
        let story =
            stack.and_then(|stack| Some((stack, stack.stories.iter().find(|story| story.row == *row)?)));
        story.is_some_and(|(stack, story)| story.fits(scene, stack))
    };
    let mut found: Vec<usize> = scene.survivors().iter().copied().filter(fits).collect();
    found.extend(twins_of_backward(scene, &found));
    found.sort_unstable();
    found
}

fn is_candidate(scene: &Scene<'_>, row: usize) -> bool {
    let is_odd = match scene.history.allocations.requested_bytes[row] {
        BEFORE_HOPPER_BYTES => true,
        SINCE_HOPPER_BYTES => false,
        _ => return false,
    };
    let stack = scene.history.allocations.stacks[row];
    let has_python = scene.lines.facts.get(stack.0 as usize).is_some_and(|facts| facts.has_python);
    let may_be = match scene.maker(row) {
        Maker::Unknown | Maker::Compute => is_odd || has_python,
        Maker::Backward => is_odd,
        _ => false,
    };
    may_be && !has_native(scene, stack)
}

/// Native frames would say what it is: where there are any and they do not, it is something else.
fn has_native(scene: &Scene<'_>, stack: StackId) -> bool {
    scene.trace.stacks.get(stack).iter().any(|&id| {
        let file = scene.trace.strings.get(scene.trace.frames.get(id).file);
        file.is_empty() || file.starts_with("??")
    })
}

/// Fills in the stories: one pass over the allocations.
fn read(scene: &Scene<'_>, stacks: &mut HashMap<StackId, Stack>) {
    let allocations = &scene.history.allocations;
    let mut is_asked = vec![false; scene.trace.stacks.len()];
    for (id, slot) in is_asked.iter_mut().enumerate() {
        *slot = stacks.contains_key(&StackId(id as u32));
    }
    for (row, &stack) in allocations.stacks.iter().enumerate() {
        if !is_asked.get(stack.0 as usize).is_some_and(|&asked| asked) {
            continue;
        }
        let Some(stack) = stacks.get_mut(&stack) else { continue };
        let stream = stream_of(scene, row);
        for story in stack.stories.iter_mut().filter(|story| story.stream == stream) {
            story.before += u64::from(row < story.row);
            let same = allocations.requested_bytes[row] == allocations.requested_bytes[story.row];
            story.of_its_size += u64::from(same);
            if row == story.row {
                story.gone_before = stack.gone;
            }
        }
        stack.gone += u64::from(scene.survivors().binary_search(&row).is_err());
    }
}

impl Story {
    fn fits(&self, scene: &Scene<'_>, stack: &Stack) -> bool {
        if scene.history.allocations.requested_bytes[self.row] == BEFORE_HOPPER_BYTES {
            return true;
        }
        let is_recorded = scene.history.allocations.alloc_events[self.row] != NONE;
        let are_gone = stack.gone.saturating_sub(self.gone_before);
        is_recorded && self.of_its_size == 1 && self.before <= MOST_BEFORE && are_gone >= LEAST_AFTER
    }
}

/// The engine's thread has a handle of its own: its workspace is the first allocation without frames that is
/// as large as that of the calling thread, unless something else that stays has that size too.
fn twins_of_backward(scene: &Scene<'_>, found: &[usize]) -> Vec<usize> {
    let allocations = &scene.history.allocations;
    let kind = |row: usize| (stream_of(scene, row), allocations.requested_bytes[row]);
    let mut others: BTreeMap<_, Vec<usize>> = found.iter().map(|&row| (kind(row), Vec::new())).collect();
    for &row in scene.survivors() {
        if found.binary_search(&row).is_err()
            && let Some(rows) = others.get_mut(&kind(row))
        {
            rows.push(row);
        }
    }
    let is_engines = |row: usize| {
        scene.maker(row) == Maker::Backward && scene.trace.stacks.get(allocations.stacks[row]).is_empty()
    };
    let only =
        |rows: Vec<usize>| if let [row] = rows[..] { Some(row).filter(|&row| is_engines(row)) } else { None };
    others.into_values().filter_map(only).collect()
}
