//! Pickles, protocols 0 to 5, plain data only.
//!
//! Owns the machine that turns opcodes into a graph, the shortcuts that turn events into rows, and the
//! refusal of everything that would run code: nothing is ever looked up by name or called. Does not know
//! what a snapshot is beyond the shape of an event and of a frame.

mod containers;
mod cursor;
mod machine;
mod opcodes;
mod salvage;
mod shortcut;
mod steps;
mod text;

use crate::error::Result;

use super::Progress;
use super::graph::{Graph, Value};
use super::rows::Rows;

pub(super) use shortcut::known_action;

/// A pickle that was read.
pub(super) struct Parsed<'a> {
    /// Its objects.
    pub(super) graph: Graph<'a>,
    /// The outermost one.
    pub(super) root: Value,
    /// Whether the bytes ended too early and only a part was read.
    pub(super) truncated: bool,
}

/// Whether `byte` can begin a pickle.
pub(super) fn is_opcode(byte: u8) -> bool {
    opcodes::name(byte).is_some()
}

/// Reads a pickle. Events go to `rows`, the rest into the graph.
///
/// # Errors
/// Refused opcodes, contradictions, budgets; a pickle that ends too early, unless it has events.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    rows: &mut Rows,
    shortcuts: bool,
    progress: &Progress<'_>,
) -> Result<Parsed<'a>> {
    let mut machine = machine::Machine::new(bytes, rows, shortcuts);
    let error = match machine.run(progress) {
        Ok(root) => return Ok(Parsed { graph: machine.graph, root, truncated: false }),
        Err(error) => error,
    };
    if machine.reopened && shortcuts {
        drop(machine);
        *rows = Rows::new(bytes.len());
        return read(bytes, rows, false, progress);
    }
    if machine.cursor.ended
        && let Some(root) = machine.close_all()
    {
        return Ok(Parsed { graph: machine.graph, root, truncated: true });
    }
    Err(error)
}
