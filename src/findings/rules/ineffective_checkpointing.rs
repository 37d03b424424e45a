//! `ineffective-checkpointing`: activations are recomputed, and yet nearly as much is kept.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::{FrameId, Trace};
use crate::rebuild::NONE;
use crate::tables::Phase;
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "ineffective-checkpointing",
    heading: "Checkpointing saves little",
    guide: Guide {
        says: "Regions are checkpointed (their activations are dropped in the forward pass and computed again in the \
               backward pass), but what they leave behind is about as large as what they drop: time is paid and \
               hardly any bytes are saved.",
        fires: "Of the bytes that checkpointed regions allocate in the forward pass, those still live when the \
                backward pass begins are *kept*; what the regions allocate in the backward pass is *recomputed*. \
                The rule fires when kept is at least half of kept plus recomputed (what a run without checkpointing \
                would hold), and at least 5 % of the peak.",
        why: "A region leaves one tensor: its output. Around one layer that output is all there was to drop; around \
              a block of a transformer it is one of ten to twenty. Half means that a region drops no more than it \
              keeps.",
        needs: "Python stacks: the frames of `torch/utils/checkpoint.py` show the regions.",
        is_not: "It does not compare with a run without checkpointing, which the recording does not hold: what is \
                 recomputed stands for what would have been kept.",
        remedy: "Wrap larger regions: whole blocks instead of single layers, so that each keeps one tensor of many. \
                 With only a few layers, leave it out.",
    },
    check: Check::Device(find),
};

/// The part of what a run without it would hold, in percent, that is kept.
const KEPT_PERCENT: u64 = 50;
/// The part of the peak, in percent, that matters.
const LEAST_PEAK_PERCENT: u64 = 5;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let in_region = stacks_in_regions(scene.trace);
    if !in_region.contains(&true) || !scene.phases().has(Phase::Backward) {
        return Ok(Vec::new());
    }
    let found = Regions::measure(scene, &in_region);
    let (kept, recomputed) = (found.kept_bytes(scene), found.recomputed_bytes);
    let all = kept.saturating_add(recomputed);
    let per_pass = kept / found.passes.max(1);
    let matters = per_pass.saturating_mul(100)
        >= scene.history.peaks.allocated.bytes.saturating_mul(LEAST_PEAK_PERCENT);
    if kept == 0 || !matters || kept.saturating_mul(100) < all.saturating_mul(KEPT_PERCENT) {
        return Ok(Vec::new());
    }
    Ok(vec![finding(scene, &found, kept)])
}

fn finding(scene: &Scene<'_>, found: &Regions, kept: u64) -> Finding {
    let passes = found.passes.max(1);
    let (kept_each, recomputed_each) = (kept / passes, found.recomputed_bytes / passes);
    let share = percent(kept, kept.saturating_add(found.recomputed_bytes));
    let title = format!(
        "Checkpointed regions keep {} for each backward pass and recompute {}: {share} of it is kept after all",
        Bytes(kept_each),
        Bytes(recomputed_each)
    );
    let rows = &scene.history.allocations;
    let lines = scene.by_line(found.kept.iter().map(|&row| (row, rows.block_bytes[row] / passes)));
    Finding::new(&RULE, Severity::Warning, scene.id(), kept_each, title)
        .lines(lines)
        .evidence("passes", passes)
        .evidence("kept_bytes", kept_each)
        .evidence("recomputed_bytes", recomputed_each)
        .evidence("kept_allocations", found.kept.len() as u64 / passes)
        .evidence("peak_bytes", scene.history.peaks.allocated.bytes)
        .remedy(
            "Wrap larger regions: whole blocks instead of single layers, so that each region keeps one tensor of \
             many. What a region keeps is its output, and around one layer that is all there was to drop.",
        )
}

/// What checkpointed regions did over the whole recording.
#[derive(Default)]
struct Regions {
    /// Rows of the forward pass that were live when a backward pass began.
    kept: Vec<usize>,
    recomputed_bytes: u64,
    /// Backward passes that recomputed or found something kept.
    passes: u64,
}

impl Regions {
    fn measure(scene: &Scene<'_>, in_region: &[bool]) -> Self {
        let rows = &scene.history.allocations;
        let passes: Vec<_> = scene.phases().runs.iter().filter(|run| run.phase == Phase::Backward).collect();
        let mut used = vec![false; passes.len()];
        let mut found = Self::default();
        for row in (0..rows.len()).filter(|&row| in_region[rows.stacks[row].0 as usize]) {
            let alloc = u64::from(rows.alloc_events[row]);
            if rows.alloc_events[row] == NONE {
                continue;
            }
            let next = passes.partition_point(|run| run.events.end <= alloc);
            let Some(run) = passes.get(next) else { continue };
            let free = u64::from(rows.given_back_event(row));
            if run.events.start <= alloc {
                found.recomputed_bytes = found.recomputed_bytes.saturating_add(rows.block_bytes[row]);
                used[next] = true;
            } else if free >= run.events.start {
                found.kept.push(row);
                used[next] = true;
            }
        }
        found.passes = used.iter().filter(|&&used| used).count() as u64;
        found
    }

    fn kept_bytes(&self, scene: &Scene<'_>) -> u64 {
        let bytes = &scene.history.allocations.block_bytes;
        self.kept.iter().fold(0, |sum: u64, &row| sum.saturating_add(bytes[row]))
    }
}

/// By stack number: whether a frame is PyTorch's checkpointing.
fn stacks_in_regions(trace: &Trace) -> Vec<bool> {
    let of_frame: Vec<bool> =
        trace.frames.rows().iter().map(|frame| is_checkpointing(trace.strings.get(frame.file))).collect();
    let is_in = |id: &FrameId| of_frame.get(id.0 as usize).copied().unwrap_or(false);
    trace.stacks.iter().map(|frames| frames.iter().any(is_in)).collect()
}

fn is_checkpointing(file: &str) -> bool {
    const PYTORCHS: [&str; 2] = ["torch/utils/checkpoint.py", "torch\\utils\\checkpoint.py"];
    PYTORCHS.iter().any(|ending| file.ends_with(ending))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::model::{Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;
    const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";

    /// Three passes of 6 regions of `layers` tensors of 20 MiB: of each the last is kept, all but the last are
    /// computed again.
    fn passes(layers: u64) -> Trace {
        let (region, graph) = (format!("{SITE}utils/checkpoint.py"), format!("{SITE}autograd/graph.py"));
        let forward =
            [("net.py", 9, "forward"), (region.as_str(), 512, "checkpoint"), ("train.py", 5, "step")];
        let recompute = [("net.py", 9, "forward"), (region.as_str(), 1130, "unpack_hook")];
        let backward = [(graph.as_str(), 865, "_engine_run_backward"), ("train.py", 6, "step")];
        let mut builder = TraceBuilder::new().segment_alloc(A, 8192 * MIB);
        let place = |region: u64, layer: u64| A + (region * 10 + layer) * 20 * MIB;
        for _ in 0..3 {
            for region in 0..6 {
                for layer in 0..layers {
                    builder = builder.stack(&forward).alloc(place(region, layer), 20 * MIB);
                    if layer > 0 {
                        builder = builder.free(place(region, layer - 1), 20 * MIB);
                    }
                }
            }
            builder = builder.stack(&backward).alloc(A + 4000 * MIB, 1024);
            for region in (0..6).rev() {
                for layer in 0..layers - 1 {
                    builder = builder.stack(&recompute).alloc(place(region, layer), 20 * MIB);
                }
                for layer in 0..layers {
                    builder = builder.free(place(region, layer), 20 * MIB);
                }
            }
            builder = builder.free(A + 4000 * MIB, 1024);
        }
        builder.at("train.py", 7, "step").alloc(A + 5000 * MIB, 1024).build()
    }

    #[test]
    fn a_region_around_each_layer_keeps_all_there_was_to_drop() {
        let found = found("ineffective-checkpointing", &passes(1), None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].evidence["passes"], 3);
        assert_eq!((found[0].bytes, found[0].evidence["recomputed_bytes"].as_u64()), (120 * MIB, Some(0)));
        assert_eq!(found[0].lines[0].file, "net.py");
    }

    #[test]
    fn regions_of_several_layers_are_what_it_is_for() {
        assert!(found("ineffective-checkpointing", &passes(4), None).is_empty());
    }

    #[test]
    fn without_checkpointing_nothing_is_said() {
        let trace = TraceBuilder::new().segment_alloc(A, 64 * MIB).at("a.py", 1, "f").alloc(A, MIB).build();
        assert!(found("ineffective-checkpointing", &trace, None).is_empty());
    }
}
