//! What `memlab oom --json` prints.
//!
//! Owns shapes and names only. The first fourteen keys of a message are a contract; the others explain them.

use std::collections::BTreeMap;

use serde::Serialize;

/// One call of `memlab oom`.
#[derive(Clone, Debug, Serialize)]
pub struct OomReport {
    /// See [`crate::report::SCHEMA`].
    pub schema: u32,
    /// Every message, log by log in the order of the arguments.
    pub messages: Vec<MessageRow>,
    /// One entry per log.
    pub logs: Vec<LogRow>,
    /// What the words of the messages mean.
    pub glossary: BTreeMap<&'static str, &'static str>,
}

/// A log.
#[derive(Clone, Debug, Serialize)]
pub struct LogRow {
    /// Path as given.
    pub path: String,
    /// Bytes that were read, unpacked.
    pub bytes: u64,
    /// Lines that were read.
    pub lines: u64,
    /// Different messages.
    pub messages: u64,
    /// Messages beyond those that are kept.
    pub messages_left_out: u64,
    /// Why reading ended early; `null` when it did not.
    pub fault: Option<String>,
}

/// A message. What it does not print, or lost, is `null`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MessageRow {
    /// `V0` to `V10`, or `V2L`.
    pub variant: &'static str,
    /// Asked from the driver.
    pub requested_bytes: Option<u64>,
    /// Memory of the device.
    pub total_bytes: Option<u64>,
    /// Left on the device.
    pub free_bytes: Option<u64>,
    /// Handed out by PyTorch; includes free blocks of private pools.
    pub allocated_bytes: Option<u64>,
    /// Held by PyTorch: allocated and unallocated.
    pub reserved_bytes: Option<u64>,
    /// Held by PyTorch, but free.
    pub unallocated_bytes: Option<u64>,
    /// Limit of this process.
    pub allowed_bytes: Option<u64>,
    /// Free blocks of private pools.
    pub private_pool_bytes: Option<u64>,
    /// Held by this process, its context included.
    pub process_bytes: Option<u64>,
    /// Index of the device.
    pub device: Option<u32>,
    /// Cause, as in `memlab analyze`.
    pub verdict: &'static str,
    /// Sentences that prove it.
    pub explanation: String,
    /// Sentences that say what to do.
    pub remedy: String,
    /// `high` or `low`.
    pub confidence: Option<&'static str>,
    /// Free on the device and free inside PyTorch's segments.
    pub within_reach_bytes: Option<u64>,
    /// In use outside of this process's allocator.
    pub outside_bytes: Option<u64>,
    /// The part of it that belongs to this process.
    pub outside_in_process_bytes: Option<u64>,
    /// Processes that the message names by number.
    pub processes: Vec<ProcessRow>,
    /// Per figure, by how many bytes it may be off either way.
    pub rounding: BTreeMap<&'static str, u64>,
    /// Figures that were cut off.
    pub cut_off: Vec<&'static str>,
    /// Figures for which the driver had no answer, or of which there is no limit.
    pub no_answer: Vec<&'static str>,
    /// All variants that the text fits.
    pub variants: Vec<&'static str>,
    /// Who prints this variant.
    pub printed_by: &'static str,
    /// `cuda`, `hip`, `xpu` or `other`.
    pub platform: &'static str,
    /// Who asked, where it was not PyTorch's allocator.
    pub source: Option<&'static str>,
    /// `on` or `not-supported`, as far as the log tells.
    pub expandable_segments: Option<&'static str>,
    /// Path of the log.
    pub log: String,
    /// Line, from 1.
    pub line: u64,
    /// Offset of its first byte in the unpacked log.
    pub offset: u64,
    /// How often it is there.
    pub count: u64,
    /// Line of the last time.
    pub last_line: u64,
    /// Rank that stands in front of it.
    pub rank: Option<u32>,
    /// What else stands in front of it.
    pub prefix: String,
    /// Class of the exception.
    pub class: Option<String>,
    /// The message in one line.
    pub text: String,
}

/// A process that a message names by number.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub process: u64,
    /// What it holds; `null` when the driver had no answer.
    pub held_bytes: Option<u64>,
    /// Whether it is this process under its outer number, as in a container.
    pub is_this_process: bool,
}
