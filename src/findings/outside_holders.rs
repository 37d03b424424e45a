//! Who holds what lies outside PyTorch's allocator, where driver calls were recorded.
//!
//! Owns the choice of names and lines. How much is outside is for the rule to say: calls explain it in part.

use serde_json::{Value, json};

use crate::driver::{Claims, HolderKind};
use crate::model::{DeviceId, Trace};
use crate::units::Bytes;

use super::LineBytes;
use super::driver_lines::driver_lines;

/// Holders that are named.
const NAMED: usize = 3;

/// What driver calls held outside the allocator at one moment.
pub(super) struct OutsideHolders {
    /// Names and bytes, most first.
    pub(super) holders: Vec<(String, u64)>,
    /// Where the largest holder's memory was asked for; of others the lines that are known.
    pub(super) lines: Vec<LineBytes>,
    /// What the largest holder's note says.
    pub(super) note: Option<&'static str>,
}

impl OutsideHolders {
    /// Those on `device` at `time_us` (Unix microseconds); `None` without driver calls.
    pub(super) fn at(trace: &Trace, device: DeviceId, time_us: i64) -> Option<Self> {
        let claims = Claims::of(trace)?;
        let calls = claims.calls_until(time_us);
        let is_outside = |holder: u32| claims.holder(holder).kind != HolderKind::Allocator;
        let held = claims.held_by(device, calls).into_iter().filter(|(holder, _)| is_outside(*holder));
        let held: Vec<(u32, u64)> = held.collect();
        let named = held.iter().map(|&(holder, bytes)| (claims.holder(holder).name.clone(), bytes));
        let note = held.first().and_then(|(holder, _)| claims.holder(*holder).note);
        let outside = claims.held(device, calls).filter(|(index, _)| is_outside(claims.of_taking(*index)));
        let lines = driver_lines(trace, &claims, outside).into_iter().map(|found| found.line).collect();
        Some(Self { holders: named.collect(), lines, note })
    }

    /// All bytes of them.
    pub(super) fn bytes(&self) -> u64 {
        self.holders.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// The largest, as a sentence has them: `NCCL 4.0 GiB, cuBLAS 65.1 MiB`.
    pub(super) fn named(&self) -> String {
        let mut named: Vec<String> = self
            .holders
            .iter()
            .take(NAMED)
            .map(|(name, bytes)| format!("{name} {}", Bytes(*bytes)))
            .collect();
        if let Some(more) = self.holders.len().checked_sub(NAMED).filter(|&more| more > 0) {
            named.push(format!("{more} more"));
        }
        named.join(", ")
    }

    /// The list as evidence.
    pub(super) fn evidence(&self) -> Value {
        self.holders.iter().map(|(holder, bytes)| json!({ "holder": holder, "bytes": bytes })).collect()
    }
}
