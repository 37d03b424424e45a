//! Placing lives with foresight: in any order, each as low as the lives that it meets leave room.

use super::Life;

/// Meetings of lives that may be looked at in all.
const BUDGET: u64 = 6_000_000;

/// Which gap between the lives that are met a life goes into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// The lowest that holds it.
    Lowest,
    /// The smallest that holds it.
    Tightest,
}

/// Offsets of `lives`, placed in descending order of `key`; `None` when it would take too long.
pub(super) fn place<K: Ord>(lives: &[Life], gap: Gap, key: impl Fn(&Life) -> K) -> Option<Vec<u64>> {
    let mut order: Vec<u32> = (0..lives.len() as u32).collect();
    order.sort_by_cached_key(|&number| (std::cmp::Reverse(key(&lives[number as usize])), number));
    let mut placed = Placed::new(lives.len());
    let mut offsets = vec![0; lives.len()];
    let mut budget = BUDGET;
    let mut met: Vec<(u64, u64)> = Vec::new();
    for number in order {
        let life = &lives[number as usize];
        met.clear();
        placed.for_each_meeting(life, &mut |other| {
            met.push((offsets[other], offsets[other].saturating_add(lives[other].room())));
        });
        budget = budget.checked_sub(met.len() as u64 + 1)?;
        offsets[number as usize] = fitting_gap(&mut met, life.room(), gap);
        placed.add(number, life.end);
    }
    Some(offsets)
}

/// An offset at which `bytes` meet none of `taken`.
fn fitting_gap(taken: &mut [(u64, u64)], bytes: u64, gap: Gap) -> u64 {
    taken.sort_unstable();
    let mut offset = 0u64;
    let mut best: Option<(u64, u64)> = None;
    for &(begin, end) in &*taken {
        if begin >= offset.saturating_add(bytes) {
            if gap == Gap::Lowest {
                return offset;
            }
            let candidate = (begin - offset, offset);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
        offset = offset.max(end);
    }
    best.map_or(offset, |(_, offset)| offset)
}

/// Lives that have their place: a tree over their numbers (which are their begins) that knows in each node
/// how long the longest of its lives lasts.
struct Placed {
    /// Complete binary tree, root at 1; 0 where nothing is placed.
    last_end: Vec<u32>,
    leaves: usize,
}

impl Placed {
    fn new(lives: usize) -> Self {
        let leaves = lives.next_power_of_two();
        Self { last_end: vec![0; leaves * 2], leaves }
    }

    fn add(&mut self, number: u32, end: u32) {
        let mut node = self.leaves + number as usize;
        while node > 0 {
            self.last_end[node] = self.last_end[node].max(end);
            node /= 2;
        }
    }

    /// Calls `found` for every placed life that is live at some time of `life`.
    fn for_each_meeting(&self, life: &Life, found: &mut impl FnMut(usize)) {
        self.visit(1, 0, self.leaves, life, found);
    }

    /// Depth is the logarithm of the number of lives.
    fn visit(&self, node: usize, from: usize, width: usize, life: &Life, found: &mut impl FnMut(usize)) {
        if from >= life.end as usize || self.last_end[node] <= life.begin {
            return;
        }
        if width == 1 {
            found(from);
            return;
        }
        let half = width / 2;
        self.visit(node * 2, from, half, life, found);
        self.visit(node * 2 + 1, from + half, half, life, found);
    }
}
