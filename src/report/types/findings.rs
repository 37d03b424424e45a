//! What went wrong: failed requests with their verdicts, and rules that fired. Shapes only, as all of `types`.

use serde::{Deserialize, Serialize};

use crate::report::packed::{self, Word};

/// A failed request and why it failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OomRow {
    /// Event number.
    pub event: u64,
    /// The rounded request.
    pub requested_bytes: u64,
    /// What the driver was asked for to serve it.
    pub segment_bytes: u64,
    /// Free bytes of the device, when recorded.
    pub device_free_bytes: Option<u64>,
    /// See the contract: `capacity`, `fragmentation`, ...
    pub verdict: String,
    /// Where the verdict is `memory-cap`: why the limited memory was not enough. Otherwise the verdict again.
    pub cause: String,
    /// The arithmetic that proves the verdict, as sentences.
    pub explanation: Vec<String>,
    /// Largest free block of the same stream and pool.
    pub largest_free_block_bytes: u64,
    /// Reserved.
    pub reserved_bytes: u64,
    /// Active.
    pub active_bytes: u64,
    /// Allocated.
    pub allocated_bytes: u64,
    /// Pending frees.
    pub pending_free_bytes: u64,
    /// Free inside segments of the request's pool.
    pub slack_bytes: u64,
    /// Free in other pools.
    pub private_pool_free_bytes: u64,
    /// How much is missing even if all free memory were in one piece; with a limit that is not known, the most
    /// that may be.
    pub missing_bytes: u64,
    /// The limit that refused, when known.
    pub cap_bytes: Option<u64>,
    /// Held outside the allocator, when the size of the device is known.
    pub outside_bytes: Option<u64>,
    /// Stream of the request, raw pointer value.
    pub stream: u64,
    /// Pool of the request, two numbers.
    pub pool: (u64, u64),
    /// Line of the failing request.
    pub line: Option<String>,
}

/// A rule that fired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingRow {
    /// Rule name of the contract.
    pub rule: String,
    /// `error`, `warning` or `info`.
    #[serde(deserialize_with = "packed::word")]
    pub severity: Word,
    /// One sentence.
    pub title: String,
    /// Bytes concerned.
    pub bytes: u64,
    /// Device.
    pub device: u32,
    /// Lines concerned.
    pub lines: Vec<FindingLine>,
    /// Figures.
    pub evidence: serde_json::Map<String, serde_json::Value>,
    /// What to do.
    pub remedy: String,
}

/// A line named by a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindingLine {
    /// File.
    pub file: String,
    /// Line.
    pub line: u64,
    /// Function.
    pub function: String,
    /// Bytes of it.
    pub bytes: u64,
}
