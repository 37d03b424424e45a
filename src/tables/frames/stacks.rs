//! One row per frame of every stack in use.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{FrameId, StackId};
use crate::tables::{FrameClass, GroupKey, classify_frames};

use super::parts::{FrameSource, PIECE, Sink};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, count_or_null, flag, number, text};

/// The table's schema.
pub const STACKS: TableSchema = TableSchema {
    name: "stacks",
    meaning: "Every frame of every stack that an allocation, a segment or a failed request of this device names, \
              by stack number, innermost frame first",
    columns: &[
        DEVICE,
        number("stack", "number of the stack in its file: what other tables call `stack`"),
        text("stack_hash", "hash of the stack's text, the same in every file"),
        number("depth", "0 is the innermost frame"),
        text("file", "as recorded; `??` or empty when the recorder did not know it"),
        count_or_null("line", "its number; null when not known"),
        text("function", "Python function, or C++ symbol"),
        text("owner", "whose code it is: `user`, `library` or `native`"),
        flag("is_line", "whether this frame is the line that allocations with this stack are charged to"),
    ],
};

/// The table of [`STACKS`].
///
/// # Errors
/// Those of `sink`; when the table engine refuses the table, which would be a fault of memlab.
pub fn stack_frames(source: &FrameSource<'_>, sink: &mut Sink<'_>) -> Result<()> {
    let classes = classify_frames(source.trace);
    let mut rows: Vec<Row> = Vec::new();
    for stack in in_use(source) {
        let facts = source.grouping.facts.get(stack.0 as usize);
        let mut line = facts.and_then(|facts| facts.user_frame);
        for (depth, &frame) in source.trace.stacks.get(stack).iter().enumerate() {
            // Of a recursion, the innermost call.
            let is_line = line.take_if(|line| *line == frame).is_some();
            rows.push(Row { stack, depth: depth as u32, frame, is_line });
        }
        if rows.len() >= PIECE {
            sink(frame(source, &classes, &rows)?)?;
            rows.clear();
        }
    }
    if rows.is_empty() { Ok(()) } else { sink(frame(source, &classes, &rows)?) }
}

struct Row {
    stack: StackId,
    depth: u32,
    frame: FrameId,
    is_line: bool,
}

fn in_use<'a>(source: &FrameSource<'a>) -> impl Iterator<Item = StackId> + use<'a> {
    let history = source.history;
    let failed = history.ooms.iter().map(|oom| &oom.stack);
    let mut used = vec![false; source.trace.stacks.len()];
    for stack in history.allocations.stacks.iter().chain(&history.ranges.stacks).chain(failed) {
        if let Some(slot) = used.get_mut(stack.0 as usize) {
            *slot = true;
        }
    }
    let named = used.into_iter().enumerate().filter(|&(_, is_used)| is_used);
    named.map(|(stack, _)| StackId(stack as u32)).filter(|&stack| stack != StackId::NONE)
}

fn frame(source: &FrameSource<'_>, classes: &[FrameClass], rows: &[Row]) -> Result<DataFrame> {
    let trace = source.trace;
    let text = |id| trace.strings.get(id);
    let stacks: Vec<StackId> = rows.iter().map(|row| row.stack).collect();
    let line = |row: &Row| GroupKey::of_frame(trace, row.frame).line;
    let owner = |row: &Row| match classes.get(row.frame.0 as usize) {
        Some(FrameClass::User) => "user",
        Some(FrameClass::Library) => "library",
        Some(FrameClass::Native) | None => "native",
    };
    let files: Vec<_> = rows.iter().map(|row| text(trace.frames.get(row.frame).file)).collect();
    let functions: Vec<_> = rows.iter().map(|row| text(trace.frames.get(row.frame).function)).collect();
    let mut columns = vec![source.device_column(rows.len())];
    columns.extend(source.stack_columns(&stacks));
    columns.extend([
        Column::new("depth".into(), rows.iter().map(|row| row.depth).collect::<Vec<_>>()),
        Column::new("file".into(), files),
        Column::new("line".into(), rows.iter().map(line).collect::<Vec<_>>()),
        Column::new("function".into(), functions),
        Column::new("owner".into(), rows.iter().map(owner).collect::<Vec<_>>()),
        Column::new("is_line".into(), rows.iter().map(|row| row.is_line).collect::<Vec<_>>()),
    ]);
    STACKS.frame(columns)
}
