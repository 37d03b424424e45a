//! STUB, dropped at merge.
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::model::{Action, Format, Trace, TraceBuilder};

/// Stub.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Stub.
    pub budget: u64,
}

/// Stub.
///
/// # Errors
/// Stub.
pub fn read_path(path: &Path, _options: &ReadOptions, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Trace> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = std::fs::read(path)?;
    }
    progress(bytes.len() as u64, bytes.len() as u64);
    if !matches!(bytes.first(), Some(0x80..)) {
        return Err(Error::UnknownFormat { what: "begins with text".to_owned() });
    }
    let mut trace = TraceBuilder::new()
        .at("train.py", 12, "step")
        .segment_alloc(0x1000_0000, 2 << 20)
        .alloc(0x1000_0000, 4096)
        .free(0x1000_0000, 4096)
        .device(1)
        .event(Action::SegmentAlloc, 0x2000_0000, 2 << 20)
        .build();
    trace.format = Format::TorchSnapshot;
    Ok(trace)
}
