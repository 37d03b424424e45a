//! STUB, dropped at merge.
use std::io::Write;

use crate::error::Result;
use crate::model::Trace;

/// Stub.
pub const VERSION: (u32, u32) = (1, 0);

/// Stub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Stub.
    None,
    /// Stub.
    #[default]
    Zstd,
    /// Stub.
    Zlib,
}

/// Stub.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Stub.
    pub codec: Codec,
    /// Stub.
    pub level: i32,
    /// Stub.
    pub chunk_events: usize,
}

/// Stub.
///
/// # Errors
/// Stub.
pub fn write(_trace: &Trace, _options: &WriteOptions, out: &mut dyn Write) -> Result<()> {
    out.write_all(&[0x81, 1, 2, 3])?;
    Ok(())
}
