//! Chunks of events: what is left when all are decoded.
//!
//! Owns the optional columns of a device, joined from its chunks, and the removal of rows whose chunk turned
//! out to be bad.

use std::ops::Range;

use crate::model::{Action, Events, OptionalColumn, StringId, Trace};

use super::events_decode::{Decoded, OTHER_ACTION};
use super::events_plan::{Part, warn_of_actions, warn_of_facts};
use super::read::damaged;

/// Joins what the chunks of one device gave, and takes out the rows of bad chunks.
pub(super) fn settle(events: &mut Events, parts: &[Part<'_>], results: Vec<Decoded>, trace: &mut Trace) {
    let mut optional: [Vec<u32>; 6] = Default::default();
    let (mut read_at, mut write_at) = (0, 0);
    for (part, mut decoded) in parts.iter().zip(results) {
        let rows = read_at..read_at + part.rows;
        read_at = rows.end;
        if let Some(fault) = decoded.fault {
            damaged(trace, &part.chunk, fault);
            continue;
        }
        if rows.start != write_at {
            move_rows(events, rows.clone(), write_at);
        }
        trace.warnings.merge(std::mem::take(&mut decoded.warnings));
        trace.warnings.add_many("unknown-id", decoded.unknown_ids, || {
            "events name stacks, streams, pools or strings that the trace does not define".to_owned()
        });
        warn_of_facts(trace, decoded.has_wrong_facts);
        name_other_actions(&mut decoded, trace, part.rows);
        events.other_actions.extend(other_actions(events, &decoded, write_at, part.rows));
        for (joined, values) in optional.iter_mut().zip(decoded.optional) {
            if values.iter().any(|&value| value != 0) {
                joined.resize(write_at, 0);
                joined.extend(values);
            }
        }
        write_at += part.rows;
    }
    truncate(events, write_at);
    let [pools, compile_contexts, user_metadata, internal_metadata, forward_frames, _] = optional;
    events.pools = OptionalColumn::from_values(trimmed(pools));
    events.compile_contexts = strings(compile_contexts);
    events.user_metadata = strings(user_metadata);
    events.internal_metadata = strings(internal_metadata);
    events.forward_frames = strings(forward_frames);
}

/// Gives codes that this version does not know a name that says which code it was.
fn name_other_actions(decoded: &mut Decoded, trace: &mut Trace, rows: usize) {
    warn_of_actions(trace, decoded.unknown_actions.len() as u64);
    if decoded.unknown_actions.is_empty() {
        return;
    }
    let names = &mut decoded.optional[OTHER_ACTION];
    names.resize(rows, 0);
    for &(row, code) in &decoded.unknown_actions {
        if names[row] == 0 {
            names[row] = trace.strings.intern(&format!("action {code}")).0;
        }
    }
}

fn other_actions(events: &Events, decoded: &Decoded, at: usize, rows: usize) -> Vec<(u64, StringId)> {
    let actions = events.actions[at..at + rows].iter().enumerate();
    let names = &decoded.optional[OTHER_ACTION];
    actions
        .filter(|&(_, &action)| action == Action::Other)
        .map(|(row, _)| ((at + row) as u64, StringId(names.get(row).copied().unwrap_or(0))))
        .collect()
}

fn trimmed(mut values: Vec<u32>) -> Vec<u32> {
    values.truncate(values.iter().rposition(|&value| value != 0).map_or(0, |last| last + 1));
    values
}

fn strings(values: Vec<u32>) -> OptionalColumn<StringId> {
    OptionalColumn::from_values(trimmed(values).into_iter().map(StringId).collect())
}

fn move_rows(events: &mut Events, rows: Range<usize>, to: usize) {
    events.actions.copy_within(rows.clone(), to);
    events.times_us.copy_within(rows.clone(), to);
    events.addresses.copy_within(rows.clone(), to);
    events.sizes.copy_within(rows.clone(), to);
    events.streams.copy_within(rows.clone(), to);
    events.stacks.copy_within(rows, to);
}

fn truncate(events: &mut Events, rows: usize) {
    events.actions.truncate(rows);
    events.times_us.truncate(rows);
    events.addresses.truncate(rows);
    events.sizes.truncate(rows);
    events.streams.truncate(rows);
    events.stacks.truncate(rows);
}
