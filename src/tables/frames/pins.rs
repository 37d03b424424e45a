//! One row per line whose live blocks pin stranded bytes.

use polars::prelude::DataFrame;

use crate::error::Result;
use crate::tables::Pin;

use super::FragmentationEntry;
use super::parts::{FrameSource, Positions, counts, texts};
use super::schema::TableSchema;
use super::schema::columns::{DEVICE, FILE, FUNCTION, LINE, bytes, count, text};

/// The table's schema.
pub const PINS: TableSchema = TableSchema {
    name: "pins",
    meaning: "Whose live blocks keep segments from being returned, at the moments of `fragmentation`, most stranded \
              bytes first. One segment may be pinned by several lines",
    columns: &[
        DEVICE,
        text("moment", "`peak`, `oom` or `end`"),
        FILE,
        LINE,
        FUNCTION,
        count("blocks", "blocks of this line in segments with stranded bytes"),
        bytes("block_bytes", "their bytes"),
        bytes("stranded_bytes", "stranded bytes of the segments in which it has a block"),
        bytes("sole_stranded_bytes", "the part of it in segments that no other line pins"),
    ],
};

/// The table of [`PINS`].
///
/// # Errors
/// When the table engine refuses the table, which would be a fault of memlab.
pub fn pins_frame(source: &FrameSource<'_>, moments: &[FragmentationEntry]) -> Result<DataFrame> {
    let mut rows: Vec<(&str, &Pin)> = Vec::new();
    for FragmentationEntry { moment, figures, .. } in moments {
        rows.extend(figures.pins.iter().map(|pin| (*moment, pin)));
    }
    let mut positions = Positions::default();
    for (_, pin) in &rows {
        let key = pin.group.and_then(|group| source.grouping.keys.get(group as usize));
        positions.push(source.trace, key);
    }
    let mut columns = vec![source.device_column(rows.len()), texts("moment", &rows, |(moment, _)| moment)];
    columns.extend(positions.columns());
    columns.extend([
        counts("blocks", &rows, |(_, pin)| pin.blocks),
        counts("block_bytes", &rows, |(_, pin)| pin.block_bytes),
        counts("stranded_bytes", &rows, |(_, pin)| pin.stranded_bytes),
        counts("sole_stranded_bytes", &rows, |(_, pin)| pin.sole_stranded_bytes),
    ]);
    PINS.frame(columns)
}
