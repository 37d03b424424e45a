//! Where allocations come from, for rules that compare those of one place with one another.
//!
//! Owns the numbering: one origin per stack that has a line of the user's; allocations without one (those of
//! the backward pass) go by the line they are charged to. What is found about an origin is the rules'.

use crate::rebuild::History;

use super::Grouping;

/// The origin of every allocation of a device, by row in its history.
#[derive(Clone, Debug)]
pub struct Origins {
    of_allocation: Vec<u32>,
    count: usize,
}

impl Origins {
    /// One origin for every stack, as far as it names a line; `lines` groups by line.
    #[must_use]
    pub fn by_stack(lines: &Grouping, history: &History) -> Self {
        let (stacks, groups) = (lines.facts.len(), lines.keys.len());
        let origin = |(row, stack): (usize, &crate::model::StackId)| {
            let group = lines.of_allocation.get(row).map_or(usize::MAX, |&group| group as usize);
            let says_line = |facts: &super::StackFacts| facts.user_frame.is_some() || group >= groups;
            match lines.facts.get(stack.0 as usize) {
                Some(facts) if says_line(facts) => stack.0,
                _ => (stacks + group.min(groups)) as u32,
            }
        };
        let of_allocation = history.allocations.stacks.iter().enumerate().map(origin).collect();
        Self { of_allocation, count: stacks + groups + 1 }
    }

    /// One origin for every line, and one for what has none.
    #[must_use]
    pub fn by_line(lines: &Grouping) -> Self {
        let groups = lines.keys.len() as u32;
        let of_allocation = lines.of_allocation.iter().map(|&group| group.min(groups)).collect();
        Self { of_allocation, count: groups as usize + 1 }
    }

    /// Number of allocations.
    #[must_use]
    pub fn allocations(&self) -> usize {
        self.of_allocation.len()
    }

    /// Number of origins; some may have no allocation.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none. There always is: what has neither stack nor line has its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The origin of allocation `row`.
    #[inline]
    #[must_use]
    pub fn of(&self, row: usize) -> u32 {
        self.of_allocation[row]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;
    use crate::tables::GroupBy;

    #[test]
    fn stacks_are_told_apart_and_the_backward_pass_goes_by_its_line() {
        let torch = "/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py";
        let trace = TraceBuilder::new()
            .segment_alloc(0, 2 << 20)
            .stack(&[("net.py", 4, "f"), ("a.py", 1, "g")])
            .alloc(0, 512)
            .stack(&[("net.py", 4, "f"), ("a.py", 2, "g")])
            .alloc(512, 512)
            .stack(&[(torch, 374, "backward"), ("a.py", 3, "g")])
            .alloc(1024, 512)
            .stack(&[])
            .alloc(1536, 512)
            .alloc(2048, 512)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        let lines = Grouping::build(&trace, &trace.devices[0], &history, GroupBy::Line);
        let stacks = Origins::by_stack(&lines, &history);
        let of: Vec<u32> = (0..5).map(|row| stacks.of(row)).collect();
        assert!(of[0] != of[1] && of[2] != of[3], "{of:?}");
        assert_eq!(of[3], of[4]);
        assert!(of.iter().all(|&origin| (origin as usize) < stacks.len()));
        let by_line = Origins::by_line(&lines);
        assert_eq!((by_line.of(0), by_line.of(2)), (by_line.of(1), by_line.of(3)));
    }
}
