//! Event lists, one per device, and events that the shortcuts left alone.

use crate::error::{Error, Result};
use crate::import::graph::{NodeId, Value, View, Word};
use crate::import::pickle::known_action;
use crate::import::rows::Row;
use crate::model::{Action, DeviceId, FREE_UNKNOWN, StringId};

use super::{Builder, DEVICES_MAX};

/// Rows of one device, in order, as runs `(first, count)`.
pub(super) type Ranges = Vec<(u32, u32)>;

/// Which keys of an event were there.
#[derive(Default)]
struct Seen {
    size: bool,
    address: bool,
    /// `device_free`, with its value.
    free: Option<u64>,
    action: Option<Word>,
}

impl Builder<'_> {
    /// The rows of every device, by device index.
    pub(super) fn device_traces(&mut self, traces: Value) -> Result<Vec<(DeviceId, Ranges)>> {
        let (View::List(node) | View::Tuple(node)) = traces.view() else {
            return Err(Error::Shape {
                what: "not a memory snapshot: `device_traces` is not a list".to_owned(),
            });
        };
        let mut devices = Vec::new();
        for index in 0..self.graph.items(node).len() {
            let list = self.item(node, index)?;
            if index as u64 >= DEVICES_MAX {
                self.impossible("device", || format!("events of device {index} are left out"));
                break;
            }
            let Some((events, count)) = self.list(list, "device_traces") else { continue };
            let mut ranges = Ranges::new();
            for at in 0..count {
                let item = self.item(events, at)?;
                self.event(item, &mut ranges)?;
            }
            devices.push((DeviceId(index as u32), ranges));
        }
        Ok(devices)
    }

    fn event(&mut self, item: Value, ranges: &mut Ranges) -> Result<()> {
        match item.view() {
            View::Events { first, count } => {
                extend(ranges, first, count);
                Ok(())
            }
            View::Dict(node) => self.event_of_dict(node, ranges),
            _ => {
                self.odd("event", "a dict");
                Ok(())
            }
        }
    }

    fn event_of_dict(&mut self, node: NodeId, ranges: &mut Ranges) -> Result<()> {
        let entries = self.entries(node)?;
        let mut row = Row::default();
        let mut seen = Seen::default();
        for pair in entries.chunks_exact(2) {
            self.event_key(&mut row, &mut seen, pair[0], pair[1])?;
        }
        let Some(action) = seen.action else {
            self.missing("action", "an event, which is left out");
            return Ok(());
        };
        self.complete(&mut row, &seen);
        let first = self.rows.push_charged(&row, 0)?;
        extend(ranges, first, 1);
        if action == Word::Free {
            let completed = Row { action: Action::FreeCompleted, ..row };
            let second = self.rows.push_charged(&completed, 0)?;
            extend(ranges, second, 1);
        }
        Ok(())
    }

    fn event_key(&mut self, row: &mut Row, seen: &mut Seen, key: Value, value: Value) -> Result<()> {
        match key.word() {
            Word::Action => self.action(row, seen, value),
            Word::Addr => {
                row.address = self.pointer(value, "addr");
                seen.address = true;
            }
            Word::DeviceFree => seen.free = Some(self.unsigned(value, "device_free")),
            Word::Size => {
                row.size = self.unsigned(value, "size");
                seen.size = true;
            }
            Word::Stream => row.stream = self.pointer(value, "stream"),
            Word::TimeUs => row.time_us = self.time(value),
            Word::Frames => row.stack = self.stack(value)?,
            Word::CppFrames if row.stack == crate::model::StackId::NONE => row.stack = self.stack(value)?,
            Word::CppFrames => {}
            Word::CompileContext if value.word() == Word::NotApplicable => {}
            Word::CompileContext => row.compile_context = self.string(value, "compile_context"),
            Word::UserMetadata => row.user_metadata = self.string(value, "user_metadata"),
            Word::InternalMetadata => row.internal_metadata = self.string(value, "internal_metadata"),
            Word::ForwardFrames => row.forward_frames = self.joined(value)?,
            Word::PoolId => {
                if let Some(pool) = self.pool(value) {
                    row.pool = self.rows.pool_index(pool);
                }
            }
            _ => self.unknown_key(key, "an event"),
        }
        Ok(())
    }

    fn action(&mut self, row: &mut Row, seen: &mut Seen, value: Value) {
        if !value.is_text() {
            self.odd("action", "a text");
            return;
        }
        seen.action = Some(value.word());
        if value.word() == Word::Free {
            // Viewers write one event for both steps.
            row.action = Action::FreeRequested;
            return;
        }
        row.action = known_action(value.word()).unwrap_or(Action::Other);
        if row.action == Action::Other {
            row.other_action = self.string(value, "action");
            let name: String = self.rows.trace.strings.get(row.other_action).chars().take(80).collect();
            self.rows.trace.warnings.add("unknown-action", || {
                format!("action `{name}` is not known; such events are kept and change no figure")
            });
        }
    }

    /// Whether what the action needs was there.
    fn complete(&mut self, row: &mut Row, seen: &Seen) {
        match (row.action, seen.free) {
            (Action::Oom, Some(free)) => row.address = free,
            (Action::Oom, None) => {
                row.address = FREE_UNKNOWN;
                self.missing("device_free", "an event of an out-of-memory error");
            }
            (Action::Other, _) => {}
            _ if !seen.address => self.missing("addr", "an event"),
            _ => {}
        }
        if !seen.size && row.action != Action::Other {
            self.missing("size", "an event");
        }
    }

    /// Number of a text; the empty one for `None`.
    pub(super) fn string(&mut self, value: Value, what: &str) -> StringId {
        if let Some(text) = self.graph.as_text(value) {
            return self.rows.trace.strings.intern(&text);
        }
        if value.view() != View::None {
            self.odd(what, "a text");
        }
        StringId(0)
    }

    /// A list of texts as one, line by line.
    fn joined(&mut self, value: Value) -> Result<StringId> {
        let Some((node, count)) = self.list(value, "forward_frames") else { return Ok(StringId(0)) };
        let mut joined = String::new();
        for index in 0..count {
            let item = self.item(node, index)?;
            let text = self.graph.as_text(item).unwrap_or_default();
            self.visits.charge(text.len(), 0)?;
            if index > 0 {
                joined.push('\n');
            }
            joined.push_str(&text);
        }
        Ok(self.rows.trace.strings.intern(&joined))
    }
}

fn extend(ranges: &mut Ranges, first: u32, count: u32) {
    if let Some((start, length)) = ranges.last_mut()
        && start.checked_add(*length) == Some(first)
        && let Some(joined) = length.checked_add(count)
    {
        *length = joined;
        return;
    }
    ranges.push((first, count));
}
