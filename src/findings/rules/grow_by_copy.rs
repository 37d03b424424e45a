//! `grow-by-copy`: a tensor grows by being concatenated into a larger one, again and again.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::findings::chains::{Chain, chains};
use crate::findings::{Check, Finding, Guide, LineBytes, Rule, Scene, Severity};
use crate::tables::peaks_without;
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "grow-by-copy",
    heading: "A tensor grows by copying itself",
    guide: Guide {
        says: "One place allocates a slightly larger tensor over and over, copies the old one into it and drops \
               the old one: `torch.cat` in a loop. While it copies, both are there, so the peak is about twice the \
               tensor; and as no freed block is large enough for the next copy, reserved bytes grow like a \
               staircase.",
        fires: "At least 8 allocations of one stack in a chain: each is larger than its predecessor by the same \
                number of requested bytes, and the predecessor is freed within 64 events after the copy was made. \
                Several chains may grow side by side from one line. The largest tensor must have at least 1 MiB, \
                or the copies together 64 MiB.",
        why: "Two or three such allocations happen by chance in programs with varying sizes; eight steps of one \
              constant size do not. Small tensors (a list of scalars) grow this way without harm.",
        needs: "Stacks. Requested sizes are exact in every recording.",
        is_not: "It is not a leak by itself: a cache that ends with its request is freed then. Where the tensor \
                 also stays, `growth` says so.",
        remedy: "Allocate the final size once and write into it (a static cache), or grow by doubling; collect \
                 results in a list on the host and concatenate once at the end.",
    },
    check: Check::Device(find),
};

/// Allocations that make a chain.
const LEAST_COPIES: usize = 8;
/// A largest tensor, or copies in all, below which growing does no harm.
const LEAST_BYTES: u64 = 1 << 20;
const LEAST_COPIED_BYTES: u64 = 64 << 20;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let rows = &scene.history.allocations;
    let mut found: Vec<Chain> = chains(scene.history, LEAST_COPIES);
    found.retain(|chain| {
        let largest = chain.rows.last().map_or(0, |&row| rows.requested_bytes[row as usize]);
        largest >= LEAST_BYTES || copied(scene, chain) >= LEAST_COPIED_BYTES
    });
    Ok(longest(&found).map(|longest| finding(scene, &found, longest)).into_iter().collect())
}

/// The chain of the largest tensor, for the example in the title.
fn longest(chains: &[Chain]) -> Option<&Chain> {
    chains.iter().rev().max_by_key(|chain| (chain.rows.len() as u64).saturating_mul(chain.step_bytes))
}

/// Bytes that were copied: each tensor but the last, once.
fn copied(scene: &Scene<'_>, chain: &Chain) -> u64 {
    let sizes = &scene.history.allocations.requested_bytes;
    let (_, copied) = chain.rows.split_last().unwrap_or((&0, &[]));
    copied.iter().fold(0, |sum: u64, &row| sum.saturating_add(sizes[row as usize]))
}

fn finding(scene: &Scene<'_>, chains: &[Chain], example: &Chain) -> Finding {
    let rows = &scene.history.allocations;
    let size = |row: Option<&u32>| row.map_or(0, |&row| rows.requested_bytes[row as usize]);
    let (first, last) = (size(example.rows.first()), size(example.rows.last()));
    let before_last = size(example.rows.iter().rev().nth(1));
    let copies: u64 = chains.iter().map(|chain| chain.rows.len() as u64 - 1).sum();
    let copied_bytes = chains.iter().fold(0, |sum: u64, chain| sum.saturating_add(copied(scene, chain)));
    let peak = scene.history.peaks.allocated.bytes;
    let without = peak_without_old_copies(scene, chains);
    let lines = by_line(scene, chains);
    let place = lines.first().map_or_else(|| "an unknown line".to_owned(), LineBytes::label);
    let title = format!(
        "{place} copies a growing tensor {} times: {} to {} in steps of {}, {} copied in all",
        Count(copies),
        Bytes(first),
        Bytes(last),
        Bytes(example.step_bytes),
        Bytes(copied_bytes)
    );
    let remedy = format!(
        "Allocate the final size once and write into it, or collect the parts on the host and concatenate once. \
         While it copies, old and new are there together ({} in the last step); writing in place would lower the \
         peak of {} to {}.",
        Bytes(last.saturating_add(before_last)),
        Bytes(peak),
        Bytes(without)
    );
    Finding::new(&RULE, Severity::Warning, scene.id(), last.saturating_add(before_last), title)
        .lines(lines)
        .evidence("chains", chains.len() as u64)
        .evidence("copies", copies)
        .evidence("longest_chain", example.rows.len() as u64)
        .evidence("first_bytes", first)
        .evidence("last_bytes", last)
        .evidence("step_bytes", example.step_bytes)
        .evidence("copied_bytes", copied_bytes)
        .evidence("peak_bytes", peak)
        .evidence("peak_without_bytes", without)
        .evidence("saved_bytes", peak.saturating_sub(without))
        .remedy(remedy)
}

/// The peak if, of every chain, only the newest tensor were there: the predecessors left out. Not exact where a
/// predecessor makes an earlier peak, which is why it is taken as the higher of this and the largest step.
fn peak_without_old_copies(scene: &Scene<'_>, chains: &[Chain]) -> u64 {
    let mut members = vec![0_u8; scene.history.allocations.len()];
    for chain in chains {
        let (_, old) = chain.rows.split_last().unwrap_or((&0, &[]));
        for &row in old {
            members[row as usize] = 1;
        }
    }
    peaks_without(scene.history, &members, 1).first().map_or(0, |peak| peak.bytes)
}

/// Bytes of the largest tensor of each chain, by line.
fn by_line(scene: &Scene<'_>, chains: &[Chain]) -> Vec<LineBytes> {
    let rows = &scene.history.allocations;
    let mut largest: BTreeMap<usize, u64> = BTreeMap::new();
    for chain in chains {
        if let Some(&row) = chain.rows.last() {
            largest.insert(row as usize, rows.requested_bytes[row as usize]);
        }
    }
    scene.by_line(largest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// `(64 + k) MiB` for k from 0, the new before the old is freed.
    fn growing(steps: u64, unit: u64) -> TraceBuilder {
        let size = |k: u64| (64 + k) * unit;
        let mut builder = TraceBuilder::new().at("cache.py", 12, "append");
        for k in 0..=steps {
            let at = A + k * 256 * MIB;
            builder = builder.segment_alloc(at, size(k)).alloc(at, size(k));
            if k > 0 {
                builder = builder.free(A + (k - 1) * 256 * MIB, size(k - 1));
            }
        }
        builder
    }

    #[test]
    fn a_cache_that_is_concatenated_is_named_with_its_two_last_sizes() {
        let found = found("grow-by-copy", &growing(64, MIB).build(), None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.bytes, finding.lines[0].line), ((127 + 128) * MIB, 12));
        assert_eq!(finding.evidence["copies"], 64);
        assert_eq!(finding.evidence["step_bytes"], MIB);
        assert_eq!(finding.evidence["peak_bytes"], 255 * MIB);
        assert_eq!(finding.evidence["peak_without_bytes"], 128 * MIB);
    }

    #[test]
    fn few_steps_and_tiny_tensors_are_no_finding() {
        assert!(found("grow-by-copy", &growing(6, MIB).build(), None).is_empty());
        assert!(found("grow-by-copy", &growing(64, 512).build(), None).is_empty());
    }
}
