//! `rounding-waste`: blocks are much larger than what was asked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::Result;
use crate::findings::reserve::is_share;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::rebuild::{MIN_BLOCK_BYTES, Rules};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "rounding-waste",
    heading: "Blocks are much larger than what was asked for",
    guide: Guide {
        says: "At the peak of allocated memory a tenth of it or more was never asked for: it is the difference \
               between the blocks handed out and the requests that they serve. Three things make a block larger: \
               requests are rounded up to 512 bytes; `roundup_power2_divisions` rounds them up to steps of a power \
               of two; and in the large pool a remainder of up to 1 MiB stays with its block (with `max_split_size_mb` \
               a larger one).",
        fires: "Over the allocations that are live when allocated bytes peak, the sum of (block - requested) is at \
                least 10 % of the sum of blocks, and at least 64 MiB.",
        why: "Ordinary jobs lose well under 1 %, so a tenth has a reason that can be named. Thousands of tiny tensors \
              waste most of their blocks and yet amount to nothing, hence 64 MiB.",
        needs: "Requested sizes and block sizes: events with the final segments, or a recording from the start.",
        is_not: "Not fragmentation: these bytes are inside blocks in use and are counted as allocated.",
        remedy: "Where `roundup_power2_divisions` makes most of it: raise the number of divisions, or take the setting \
                 out. Where many small tensors make it: keep them in one flat tensor (`foreach` and fused optimizers \
                 do). Where remainders make it: choose sizes that fill the block, or one large tensor instead of many \
                 of 1 to 2 MiB.",
    },
    check: Check::Device(find),
};

/// Share of the blocks (in percent).
const LEAST_PERCENT: u64 = 10;
/// Less than this amounts to nothing.
const LEAST_BYTES: u64 = 64 << 20;
/// Sizes that are listed.
const MOST_SIZES: usize = 5;

/// Where the waste comes from, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Waste {
    requested: u64,
    blocks: u64,
    /// Rounding up to 512 bytes.
    granule: u64,
    /// Rounding up to steps of a power of two.
    divisions: u64,
    /// Remainders that stay with their block.
    unsplit: u64,
}

impl Waste {
    fn all(&self) -> u64 {
        self.blocks.saturating_sub(self.requested)
    }

    fn add(&mut self, requested: u64, block: u64, rules: &Rules) {
        let requested = requested.min(block);
        let granule = requested.max(1).div_ceil(MIN_BLOCK_BYTES).saturating_mul(MIN_BLOCK_BYTES).min(block);
        let rounded = rules.round(requested).clamp(granule, block);
        let parts = [
            (&mut self.requested, requested),
            (&mut self.blocks, block),
            (&mut self.granule, granule - requested),
            (&mut self.divisions, rounded - granule),
            (&mut self.unsplit, block - rounded),
        ];
        for (sum, bytes) in parts {
            *sum = sum.saturating_add(bytes);
        }
    }
}

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let peak = scene.history.peaks.allocated;
    if peak.bytes < LEAST_BYTES {
        return Ok(Vec::new());
    }
    let rows = &scene.history.allocations;
    let rules = Rules::new(scene.settings());
    let mut waste = Waste::default();
    for row in scene.live_at(peak.moment) {
        waste.add(rows.requested_bytes[row], rows.block_bytes[row], &rules);
    }
    let is_much = waste.all() >= LEAST_BYTES && is_share(waste.all(), waste.blocks, LEAST_PERCENT);
    Ok(is_much.then(|| told(scene, &waste)).into_iter().collect())
}

fn told(scene: &Scene<'_>, waste: &Waste) -> Finding {
    let title = format!(
        "{} of {} allocated at the peak ({}) were not asked for: blocks are larger than their requests",
        Bytes(waste.all()),
        Bytes(waste.blocks),
        percent(waste.all(), waste.blocks)
    );
    let rows = &scene.history.allocations;
    let moment = scene.history.peaks.allocated.moment;
    let wasted = scene
        .live_at(moment)
        .map(|row| (row, rows.block_bytes[row].saturating_sub(rows.requested_bytes[row])));
    let divisions = scene.settings().roundup_power2_divisions();
    let mut finding = Finding::new(&RULE, Severity::Warning, scene.id(), waste.all(), title)
        .lines(scene.by_line(wasted).into_iter().filter(|line| line.bytes > 0).collect())
        .evidence("event", moment.event())
        .evidence("rounding_bytes", waste.all())
        .evidence("allocated_bytes", waste.blocks)
        .evidence("requested_bytes", waste.requested)
        .evidence("up_to_512_bytes", waste.granule)
        .evidence("up_to_division_bytes", waste.divisions)
        .evidence("unsplit_remainder_bytes", waste.unsplit)
        .evidence("sizes", sizes(scene));
    if divisions.iter().any(|&slot| slot > 1) {
        finding = finding.evidence("roundup_power2_divisions", divisions.to_vec());
    }
    finding.remedy(remedy(scene, waste))
}

/// The pairs of request and block that waste most.
fn sizes(scene: &Scene<'_>) -> Value {
    let rows = &scene.history.allocations;
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for row in scene.live_at(scene.history.peaks.allocated.moment) {
        *counts.entry((rows.requested_bytes[row], rows.block_bytes[row])).or_default() += 1;
    }
    let mut sizes: Vec<(u64, u64, u64, u64)> = counts
        .into_iter()
        .map(|((requested, block), count)| {
            (block.saturating_sub(requested).saturating_mul(count), requested, block, count)
        })
        .filter(|size| size.0 > 0)
        .collect();
    sizes.sort_by_key(|size| (std::cmp::Reverse(size.0), size.1, size.2));
    let row = |&(wasted, requested, block, count): &(u64, u64, u64, u64)| json!({"requested_bytes": requested, "block_bytes": block, "count": count, "rounding_bytes": wasted});
    sizes.iter().take(MOST_SIZES).map(row).collect()
}

fn remedy(scene: &Scene<'_>, waste: &Waste) -> String {
    let most = waste.granule.max(waste.divisions).max(waste.unsplit);
    if most == waste.divisions {
        let text = scene.settings().conf_value("roundup_power2_divisions").unwrap_or("in force");
        return format!(
            "roundup_power2_divisions ({text}) rounds requests up, which makes {} of it: raise the number of divisions, \
             or take the setting out of PYTORCH_CUDA_ALLOC_CONF.",
            Bytes(waste.divisions)
        );
    }
    if most == waste.granule {
        return format!(
            "Every block is a multiple of 512 bytes, and tensors far smaller than that make {} of it: keep them \
             together in one flat tensor.",
            Bytes(waste.granule)
        );
    }
    let limit = scene.settings().max_split_bytes().map_or_else(String::new, |bytes| {
        format!(
            " max_split_size_mb:{} adds to it: a block of that size or more is never split; raise it or take it out.",
            Count(bytes >> 20)
        )
    });
    format!(
        "Remainders that the allocator does not split off make {} of it: in the large pool up to 1 MiB stays with a \
         block. Choose sizes that fill a multiple of 2 MiB, or one large tensor instead of many of 1 to 2 MiB.{limit}",
        Bytes(waste.unsplit)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::Finding;
    use crate::findings::scene::samples::found;
    use crate::model::{SettingValue, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn waste(builder: TraceBuilder) -> Vec<Finding> {
        found("rounding-waste", &builder.build(), None)
    }

    fn divided(divisions: i128) -> TraceBuilder {
        let slots = (0..16).map(|slot| ((1u64 << slot).to_string(), divisions)).collect();
        TraceBuilder::new().setting("roundup_power2_divisions", SettingValue::Map(slots))
    }

    /// `count` requests of `mib`, each in a segment of `segment` MiB.
    fn asked(builder: TraceBuilder, count: u64, kib: u64, segment: u64) -> TraceBuilder {
        (0..count).fold(builder.at("model.py", 4, "init"), |builder, index| {
            let at = A + (index << 32);
            builder.segment_alloc(at, segment * MIB).alloc(at, kib << 10)
        })
    }

    #[test]
    fn steps_of_a_power_of_two_are_named() {
        let found = waste(asked(divided(2), 30, 33 << 10, 48));
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!(finding.bytes, 30 * 15 * MIB);
        assert_eq!((finding.lines[0].label(), finding.lines[0].bytes), ("model.py:4 init".into(), 450 * MIB));
        assert_eq!(finding.evidence["up_to_division_bytes"], 450 * MIB);
        assert_eq!(finding.evidence["sizes"][0]["count"], 30);
        assert!(finding.remedy.starts_with("roundup_power2_divisions"), "{}", finding.remedy);
        assert!(waste(asked(divided(8), 30, 33 << 10, 36)).is_empty(), "8 %");
    }

    #[test]
    fn remainders_that_are_not_split_off_are_named() {
        let found = waste(asked(TraceBuilder::new(), 100, 5 << 10, 6));
        assert_eq!(found[0].evidence["unsplit_remainder_bytes"], 100 * MIB);
        assert!(found[0].remedy.contains("up to 1 MiB"), "{}", found[0].remedy);
        let split = TraceBuilder::new().setting("max_split_size", SettingValue::Int(64 << 20));
        let found = waste(asked(split, 10, 80 << 10, 96));
        assert!(found[0].remedy.contains("max_split_size_mb:64"), "{}", found[0].remedy);
    }

    #[test]
    fn many_tiny_tensors_make_it_only_where_they_amount_to_something() {
        let tiny = |count: u64| {
            let mut builder = TraceBuilder::new();
            for index in 0..count {
                if index % 4096 == 0 {
                    builder = builder.segment_alloc(A + index * 512, 2 * MIB);
                }
                builder = builder.alloc(A + index * 512, 8);
            }
            builder
        };
        assert!(waste(tiny(20_000)).is_empty(), "10 MiB");
        let found = waste(tiny(150_000));
        assert_eq!(found[0].evidence["up_to_512_bytes"], 150_000 * 504);
        assert!(found[0].remedy.contains("one flat tensor"), "{}", found[0].remedy);
    }

    #[test]
    fn plain_blocks_waste_nothing() {
        assert!(waste(asked(TraceBuilder::new(), 30, 40 << 10, 40)).is_empty());
    }
}
