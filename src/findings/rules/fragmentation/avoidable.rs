//! Segments were obtained although enough was free: growth that was avoidable, without any failure.
//!
//! Two shapes: pieces that live blocks or small segments keep apart, and a staircase of segments each of which
//! the next request outgrows.

use crate::error::Result;
use crate::findings::reserve::{Expandable, expandable, expandable_advice, is_share, with_replayed_setting};
use crate::findings::{Finding, LineBytes, Scene, Severity};
use crate::rebuild::{Moment, Rules, State};
use crate::tables::{self, Fragmentation, Staircase, Unserved, obtained_for, staircase, unserved};
use crate::units::{Bytes, Count, percent};

use super::RULE;

/// Less than this is not worth a change.
const LEAST_BYTES: u64 = 256 << 20;
/// Share of the peak of reserved memory (in percent).
const LEAST_PERCENT: u64 = 5;
/// Rising segments in a row.
const LEAST_RUNGS: u64 = 5;

pub(super) fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let peaks = &scene.history.peaks;
    // By no arrangement could less be reserved than is active at one time.
    let waste = peaks.reserved.bytes.saturating_sub(peaks.active.bytes);
    if !is_worth(scene, waste) {
        return Ok(Vec::new());
    }
    let pieces = pieces(scene);
    let stairs = stairs(scene, waste);
    match (pieces, stairs) {
        (Some(pieces), stairs) if stairs.is_none_or(|(of_stairs, _)| pieces.bytes >= of_stairs) => {
            Ok(vec![told_of_pieces(scene, &pieces)?])
        }
        (_, Some((bytes, stairs))) => Ok(vec![told_of_stairs(scene, bytes, stairs)]),
        _ => Ok(Vec::new()),
    }
}

fn is_worth(scene: &Scene<'_>, bytes: u64) -> bool {
    bytes >= LEAST_BYTES && is_share(bytes, scene.history.peaks.reserved.bytes, LEAST_PERCENT)
}

/// By how much the peak of reserved bytes is higher for free memory that was in pieces, and the largest request
/// that these did not serve.
fn pieces(scene: &Scene<'_>) -> Option<Pieces> {
    let found = unserved(scene.device, scene.history, &Rules::new(scene.settings()));
    let bytes = scene.history.peaks.reserved.bytes.saturating_sub(found.joined_peak_bytes);
    // Of equals the first.
    let most = *found.unserved.iter().rev().max_by_key(|of| of.bytes)?;
    is_worth(scene, bytes).then_some(Pieces { bytes, count: found.unserved.len() as u64, most })
}

/// Growth that free memory in pieces explains.
struct Pieces {
    /// By how much the peak of reserved bytes is higher.
    bytes: u64,
    /// Segments that were obtained so.
    count: u64,
    /// The largest of them.
    most: Unserved,
}

fn stairs(scene: &Scene<'_>, waste: u64) -> Option<(u64, Staircase)> {
    let stairs = staircase(scene.device, scene.history, scene.lines)?;
    // Growth by copy is told by `grow-by-copy`; where nothing was kept, all of it can be returned (`idle-cache`).
    let is_copied = stairs.copies.saturating_mul(2) >= stairs.rungs;
    let bytes = stairs.free_bytes.min(waste);
    let is_one = stairs.rungs >= LEAST_RUNGS && !is_copied && stairs.kept_bytes > 0;
    (is_one && is_worth(scene, bytes)).then_some((bytes, stairs))
}

/// Where the free bytes lay that did not serve.
fn around(scene: &Scene<'_>, most: &Unserved) -> Result<Fragmentation> {
    let ranges = &scene.history.ranges;
    let (stream, pool, kind) =
        (ranges.streams[most.range], ranges.pools[most.range], ranges.kinds[most.range]);
    let moment = Moment(most.event);
    let mut segments = scene.state_at(moment).into_owned().segments;
    segments.retain(|segment| {
        segment.stream == stream && segment.pool == pool && segment.kind == kind && !segment.is_expandable
    });
    tables::fragmentation(&State { segments }, moment, scene.lines)
}

fn told_of_pieces(scene: &Scene<'_>, found: &Pieces) -> Result<Finding> {
    let (bytes, most) = (found.bytes, &found.most);
    let around = around(scene, most)?;
    let pieces: u64 = around.holes.iter().map(|hole| hole.stranded_blocks + hole.releasable_blocks).sum();
    let peaks = &scene.history.peaks;
    let title = format!(
        "{} of the peak of reserved memory ({}) were obtained although as much lay free in pieces: {} while {} lay free \
         in {} pieces of at most {}",
        Bytes(bytes),
        percent(bytes, peaks.reserved.bytes),
        Bytes(most.bytes),
        Bytes(most.free_bytes),
        Count(pieces),
        Bytes(around.largest_free_block_bytes)
    );
    let asked = obtained_for(scene.device, scene.history, most.range);
    let asked = asked.and_then(|row| scene.line_of(row, most.bytes));
    let pinned = around.stranded_bytes >= around.releasable_bytes;
    let pins = around.pins.iter().filter_map(|pin| scene.line_of_group(pin.group?, pin.stranded_bytes));
    let lines: Vec<LineBytes> = if pinned { pins.collect() } else { asked.clone().into_iter().collect() };
    let mut finding = Finding::new(&RULE, Severity::Warning, scene.id(), bytes, title)
        .lines(lines)
        .evidence("kind", "pieces")
        .evidence("avoidable_growth_bytes", bytes)
        .evidence("segments_obtained_so", found.count)
        .evidence("event", most.event)
        .evidence("segment_bytes", most.bytes)
        .evidence("free_bytes", most.free_bytes)
        .evidence("free_blocks", pieces)
        .evidence("largest_free_block_bytes", around.largest_free_block_bytes)
        .evidence("stranded_bytes", around.stranded_bytes)
        .evidence("releasable_bytes", around.releasable_bytes)
        .evidence("peak_reserved_bytes", peaks.reserved.bytes)
        .evidence("peak_active_bytes", peaks.active.bytes);
    let asker = asked.map(|line| line.label());
    if let Some(label) = &asker {
        finding = finding.evidence("requested_at", label.clone());
    }
    let mut said = Vec::new();
    if pinned {
        said.push(
            "Blocks of the lines named here keep the pieces apart: allocate what stays before what is short-lived, or \
             free it before the large request."
                .to_owned(),
        );
    } else {
        said.push(format!(
            "{} of it lay in whole segments, each too small: torch.cuda.empty_cache() right before the large request{} \
             would have given them back.",
            Bytes(around.releasable_bytes),
            asker.map(|label| format!(" (at {label})")).unwrap_or_default()
        ));
    }
    Ok(remedied(scene, finding, said))
}

fn told_of_stairs(scene: &Scene<'_>, bytes: u64, stairs: Staircase) -> Finding {
    let line = stairs.group.and_then(|group| scene.line_of_group(group, stairs.free_bytes));
    let peaks = &scene.history.peaks;
    let title = format!(
        "{} segments of rising size ({} to {}) were obtained, each request a little larger than all that was cached: {} \
         lay free at the last",
        Count(stairs.rungs),
        Bytes(stairs.first_bytes),
        Bytes(stairs.last_bytes),
        Bytes(stairs.free_bytes)
    );
    let finding = Finding::new(&RULE, Severity::Warning, scene.id(), bytes, title)
        .lines(line.into_iter().collect())
        .evidence("kind", "staircase")
        .evidence("avoidable_growth_bytes", bytes)
        .evidence("event", stairs.event)
        .evidence("rising_segments", stairs.rungs)
        .evidence("first_segment_bytes", stairs.first_bytes)
        .evidence("last_segment_bytes", stairs.last_bytes)
        .evidence("free_bytes", stairs.free_bytes)
        .evidence("peak_reserved_bytes", peaks.reserved.bytes)
        .evidence("peak_active_bytes", peaks.active.bytes);
    let said = "Sizes rise from one request to the next, so no segment is ever used again: run the largest first (sort by \
                falling length), allocate the largest size once, or pad sizes to a few steps.";
    remedied(scene, finding, vec![said.to_owned()])
}

/// The replayed setting where there is one; else what expandable segments can do here.
fn remedied(scene: &Scene<'_>, finding: Finding, mut said: Vec<String>) -> Finding {
    let (finding, replayed) = with_replayed_setting(scene, finding);
    said.push(match (replayed, expandable(scene)) {
        (Some(sentence), _) => sentence,
        (None, Expandable::Off) => {
            "Expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, PyTorch 2.1 and later) grow in place \
             and leave fewer pieces; `memlab whatif` says what that would save."
                .to_owned()
        }
        (None, _) => expandable_advice(scene),
    });
    finding.remedy(said.join(" "))
}

#[cfg(test)]
#[path = "avoidable_tests.rs"]
mod tests;
