//! What waits for its way into the file.
//!
//! Owns the queue of rows and what they name, and what the writer's thread is asked for. Does not lock, and does not
//! write.

use crate::call::{NO_DEVICE, Row};
use crate::native_table::NativeTable;
use crate::python_table::PythonTable;
use crate::readings::{Sample, Wish};
use crate::wire::Chunk;

/// Devices that are read, at most.
const MOST_DEVICES: usize = 64;

/// What is not in the file yet.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) rows: Vec<Row>,
    pub(crate) native: NativeTable,
    pub(crate) python: PythonTable,
    pub(crate) samples: Vec<Sample>,
    pub(crate) faults: Vec<(i64, String)>,
    /// Devices that the process uses.
    pub(crate) devices: Vec<u32>,
    /// What the writer is asked to read for, and whether it is at a reading that was asked for.
    pub(crate) wish: Option<Wish>,
    pub(crate) is_reading: bool,
    /// Where readings come from, in the words of the file.
    pub(crate) readings: Option<String>,
}

/// What goes to the file at once, in this order.
pub(crate) struct Batch {
    pub(crate) tables: Vec<Chunk>,
    pub(crate) rows: Vec<Row>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) faults: Vec<(i64, String)>,
}

impl Waiting {
    /// Notes the device of a call. Answers whether it is the first of its device: then a reading tells what the context
    /// alone takes.
    pub(crate) fn uses(&mut self, row: &Row) -> bool {
        let is_new = row.device != NO_DEVICE
            && row.result == 0
            && !self.devices.contains(&row.device)
            && self.devices.len() < MOST_DEVICES;
        if is_new {
            self.devices.push(row.device);
            self.wish.get_or_insert(Wish::Context);
        }
        is_new
    }

    /// Everything that waits.
    pub(crate) fn take(&mut self) -> Batch {
        Batch {
            tables: self.native.drain().into_iter().chain(self.python.drain()).collect(),
            rows: std::mem::take(&mut self.rows),
            samples: std::mem::take(&mut self.samples),
            faults: std::mem::take(&mut self.faults),
        }
    }
}
