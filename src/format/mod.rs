//! Stub: the trace format is written by another branch.

use crate::error::{Error, Result};
use crate::model::Trace;

/// Whether `bytes` begin like a trace of this format.
#[must_use]
pub fn is_trace(_bytes: &[u8]) -> bool {
    false
}

/// Reads a trace.
///
/// # Errors
/// Always, in this stub.
pub fn read(_bytes: &[u8]) -> Result<Trace> {
    Err(Error::UnknownFormat { what: "trace format not built in".to_owned() })
}
