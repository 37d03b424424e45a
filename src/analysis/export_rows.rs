//! Findings and failed requests as rows of exported tables.
//!
//! Owns the translation; what is found and why a request failed is `findings`'. `tables` cannot see either, so it
//! is handed plain texts and figures.

use serde_json::{Value, json};

use crate::findings::{Finding, JudgedOom, LineBytes};
use crate::tables::{FindingEntry, OomEntry};

/// A finding in plain figures.
pub(super) fn finding(found: Finding) -> FindingEntry {
    let first_line = found
        .lines
        .first()
        .map(|line| (line.file.clone(), known_line(line), line.function.clone(), line.bytes));
    let lines: Vec<Value> = found.lines.iter().map(line).collect();
    FindingEntry {
        rule: found.rule.name,
        severity: found.severity.name(),
        title: found.title,
        bytes: found.bytes,
        first_line,
        lines: Value::from(lines).to_string(),
        evidence: Value::from(found.evidence).to_string(),
        remedy: found.remedy,
    }
}

fn line(line: &LineBytes) -> Value {
    json!({ "file": line.file, "line": known_line(line), "function": line.function, "bytes": line.bytes })
}

fn known_line(line: &LineBytes) -> Option<u64> {
    (line.line != 0).then_some(line.line)
}

/// A failed request in plain figures.
pub(super) fn oom(judged: &JudgedOom) -> OomEntry {
    let (oom, verdict) = (&judged.oom, &judged.verdict);
    let sums = &verdict.sums;
    OomEntry {
        event: oom.event,
        requested_bytes: sums.request_bytes,
        segment_bytes: sums.segment_bytes,
        verdict: verdict.kind.name(),
        cause: verdict.cause.name(),
        explanation: verdict.explanation.join(" "),
        device_free_bytes: sums.device_free_bytes,
        cap_bytes: verdict.refusal.cap().and_then(|cap| cap.allowed_bytes),
        outside_bytes: verdict.outside.map(|outside| outside.bytes),
        missing_bytes: verdict.missing_bytes(),
        reserved_bytes: sums.reserved_bytes,
        active_bytes: sums.active_bytes,
        allocated_bytes: oom.usage.allocated_bytes,
        pending_free_bytes: sums.pending_free_bytes,
        slack_bytes: sums.slack_bytes,
        private_pool_free_bytes: sums.private_free_bytes,
        largest_free_block_bytes: sums.largest_free_block_bytes,
        stream: oom.stream,
        pool: judged.pool,
        stack: oom.stack,
    }
}
