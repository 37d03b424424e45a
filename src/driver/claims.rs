//! Whom every taking is charged to.
//!
//! Owns the rule that joins both layers: memory at a segment's address is the allocator's, whatever its stack says; all other
//! is charged to whose code asked.

use std::collections::BTreeMap;

use crate::model::{Action, DeviceId, DriverLayer, Events, NO_DEVICE, NO_TIME, Segment, Trace};

use super::{Holder, Holders, Join, Obtained, Taking, Takings, counts_on};

/// What the allocator's events of one device say of the driver's memory.
#[derive(Clone, Debug, Default)]
pub struct AllocatorEvents {
    /// Segments and ranges in the order in which they were obtained.
    pub obtained: Vec<Obtained>,
    /// Failed requests: time in Unix microseconds, and the bytes that the driver had left.
    pub failed: Vec<(i64, u64)>,
}

impl AllocatorEvents {
    /// Takes in further events.
    pub fn take(&mut self, events: &Events) {
        for event in 0..events.len() {
            let (time_us, address) = (events.times_us[event], events.addresses[event]);
            match events.actions[event] {
                Action::SegmentAlloc | Action::SegmentMap => self.obtained.push(Obtained {
                    address,
                    bytes: events.sizes[event],
                    time_us: Some(time_us).filter(|&time| time != NO_TIME),
                }),
                // The address of such an event is what the driver had left.
                Action::Oom => self.failed.push((time_us, address)),
                _ => {}
            }
        }
    }

    /// Of all devices of `trace`.
    #[must_use]
    pub fn of(trace: &Trace) -> BTreeMap<DeviceId, Self> {
        let of_device = |entry: &crate::model::DeviceTrace| {
            let mut found = Self::default();
            found.take(&entry.events);
            (entry.device, found)
        };
        trace.devices.iter().map(of_device).collect()
    }
}

/// The takings of a process, each with its holder.
pub struct Claims<'a> {
    /// The calls.
    pub layer: &'a DriverLayer,
    /// What they took.
    pub takings: Takings,
    /// Who holds.
    pub holders: Holders,
    /// What the allocator's events say, by device.
    pub events: BTreeMap<DeviceId, AllocatorEvents>,
    joins: BTreeMap<DeviceId, Join>,
    /// Holder of every taking.
    of_taking: Vec<u32>,
}

impl<'a> Claims<'a> {
    /// Those of the driver calls of `trace`; `None` without any.
    #[must_use]
    pub fn of(trace: &'a Trace) -> Option<Self> {
        // Most recordings have no calls: only of these are the events looked at.
        trace.driver.as_ref()?;
        Self::with(trace, AllocatorEvents::of(trace))
    }

    /// As [`Claims::of`], with what the allocator's events say, where `trace` has not all of them.
    #[must_use]
    pub fn with(trace: &'a Trace, events: BTreeMap<DeviceId, AllocatorEvents>) -> Option<Self> {
        let layer = trace.driver.as_deref()?;
        let takings = Takings::of(&layer.rows);
        let mut holders = Holders::of(layer, program(trace));
        let joins: BTreeMap<DeviceId, Join> = events
            .iter()
            .filter_map(|(&device, found)| {
                let live = trace.device(device).and_then(|entry| entry.segments.as_deref());
                Some((device, join(layer, &takings, device, &found.obtained, live.unwrap_or_default())?))
            })
            .collect();
        if !joins.is_empty() {
            holders.include_allocator();
        }
        let allocator = holders.allocator();
        let claim = |(index, taking): (usize, &Taking)| {
            let is_segment = joins.get(&taking.device).is_some_and(|join| join.is_segment[index]);
            let by_stack = || holders.of_stack(layer.rows[taking.row as usize].native);
            allocator.filter(|_| is_segment).unwrap_or_else(by_stack)
        };
        let of_taking = takings.all.iter().enumerate().map(claim).collect();
        Some(Self { layer, takings, holders, events, joins, of_taking })
    }

    /// The allocator's segments in the driver's memory; `None` where no segment is known.
    #[must_use]
    pub fn join(&self, device: DeviceId) -> Option<&Join> {
        self.joins.get(&device)
    }

    /// Holder of the taking of this index, as an index in [`Holders::all`].
    #[must_use]
    pub fn of_taking(&self, taking: usize) -> u32 {
        self.of_taking.get(taking).copied().unwrap_or(0)
    }

    /// The holder of this index.
    #[must_use]
    pub fn holder(&self, index: u32) -> &Holder {
        &self.holders.all[if (index as usize) < self.holders.all.len() { index as usize } else { 0 }]
    }

    /// Devices of which something was taken, ascending.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let of_takings = self.takings.all.iter().map(|taking| taking.device);
        let mut devices: Vec<DeviceId> = of_takings.filter(|&device| device != NO_DEVICE).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// How many calls were made up to `time_us` (Unix microseconds).
    #[must_use]
    pub fn calls_until(&self, time_us: i64) -> u32 {
        self.layer.rows.partition_point(|row| row.time_us <= time_us) as u32
    }

    /// Who holds how much of `device` after so many calls, most bytes first.
    #[must_use]
    pub fn held_by(&self, device: DeviceId, calls: u32) -> Vec<(u32, u64)> {
        let mut bytes = vec![0u64; self.holders.all.len()];
        for (index, taking) in self.held(device, calls) {
            let sum = &mut bytes[self.of_taking(index) as usize];
            *sum = sum.saturating_add(taking.bytes);
        }
        let mut held: Vec<(u32, u64)> = (0..).zip(bytes).filter(|(_, bytes)| *bytes > 0).collect();
        held.sort_by_key(|&(holder, bytes)| (std::cmp::Reverse(bytes), holder));
        held
    }

    /// Takings that count on `device` and are held after so many calls, with their indices.
    pub fn held(&self, device: DeviceId, calls: u32) -> impl Iterator<Item = (usize, &Taking)> {
        let takings = self.takings.all.iter().enumerate();
        takings.filter(move |(_, taking)| taking.is_held_after(calls) && counts_on(taking, device))
    }
}

/// Name of the recorded executable.
#[must_use]
pub fn program(trace: &Trace) -> Option<&str> {
    trace.process.other.get("driver")?.get("program")?.as_str()
}

fn join(
    layer: &DriverLayer,
    takings: &Takings,
    device: DeviceId,
    obtained: &[Obtained],
    live: &[Segment],
) -> Option<Join> {
    let is_known = !obtained.is_empty() || !live.is_empty();
    is_known.then(|| Join::of(&layer.rows, takings, device, obtained, live))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::HolderKind;
    use crate::driver::samples::{Calls, recorded};
    use crate::model::{DriverCall, TraceBuilder};

    #[test]
    fn a_segments_address_decides_even_without_a_stack() {
        let at = 0x7000_0000_0000;
        let mut trace = TraceBuilder::new().segment_alloc(at, 2 << 20).build();
        let calls = Calls::default()
            .at(at)
            .take(DriverCall::DeviceAlloc, 2 << 20)
            .at(0x9000)
            .take(DriverCall::DeviceAlloc, 64);
        trace.driver = Some(Box::new(DriverLayer { rows: calls.rows, ..DriverLayer::default() }));
        let claims = Claims::of(&trace).unwrap();
        let kinds = [0, 1].map(|index| claims.holder(claims.of_taking(index)).kind);
        assert_eq!(kinds, [HolderKind::Allocator, HolderKind::Unknown]);
        assert_eq!(claims.join(DeviceId(0)).map(|join| join.matched), Some(1));
        assert_eq!((claims.calls_until(999_999), claims.calls_until(1_000_000)), (0, 1));
    }

    #[test]
    fn who_holds_what_adds_up_to_what_is_held() {
        let trace = recorded("torch");
        let claims = Claims::of(&trace).unwrap();
        assert_eq!(claims.devices(), [DeviceId(0)]);
        for calls in [0, 1, 20, 422] {
            let by_holder: u64 = claims.held_by(DeviceId(0), calls).iter().map(|(_, bytes)| bytes).sum();
            let held: u64 = claims.held(DeviceId(0), calls).map(|(_, taking)| taking.bytes).sum();
            assert_eq!(by_holder, held);
        }
        let end = claims.held_by(DeviceId(0), 422);
        assert_eq!((claims.holder(end[0].0).kind, end[0].1), (HolderKind::Allocator, 383_778_816));
    }
}
