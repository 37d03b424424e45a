//! `foreign-device`: memory on a device that is not this process's.

use std::cmp::Reverse;

use crate::findings::{Check, DeviceFacts, Finding, Guide, Rule, Severity};
use crate::model::{DeviceId, Trace};
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "foreign-device",
    heading: "Memory on a device that is not this process's",
    guide: Guide {
        says: "The process works on one device and also holds memory on another. On that other device it holds a CUDA \
            context besides, some 500 MiB that no recording shows. When every rank of a job does that to device 0, \
            device 0 fills up.",
        fires: "When the recording has memory on at least two devices, and on one of them hardly any traffic: at most \
            1 % as many allocations as on the process's own device, or at most 4 that are \
            no more than a tenth of its, or that hold at most 1 % of its peak. \
            Where the recording knows the process's local rank, or that the job has several ranks, a tenth as many \
            allocations is enough. The own device is the one with the number of the local rank, if that is in the \
            recording; else the one with most allocations.",
        why: "A process that really drives several devices (a pipeline, DataParallel) allocates on all of them in \
            every step, so their traffic differs by a small factor. A stray tensor, a checkpoint loaded to the wrong \
            device or a first CUDA call before `set_device` is a handful of allocations against thousands.",
        needs: "Events or state of at least two devices in one file. A context without any allocation shows in no \
            recording, only in `nvidia-smi`.",
        is_not: "It is no leak. In a job of one process that means to keep something on a second device, it is no \
            fault either.",
        remedy: "Call `torch.cuda.set_device(local_rank)` before anything else touches CUDA, or start each rank with \
            only its own device in `CUDA_VISIBLE_DEVICES`. Load checkpoints with \
            `torch.load(..., map_location=\"cpu\")` or to the rank's own device: without `map_location` tensors go \
            back to the device that they were saved from.",
    },
    check: Check::Trace(find),
};

fn find(trace: &Trace, devices: &[DeviceFacts]) -> Vec<Finding> {
    let Some(own) = own_device(trace, devices) else { return Vec::new() };
    let is_rank = trace.process.local_rank.is_some() || trace.process.world_size.is_some_and(|size| size > 1);
    let others = devices.iter().filter(|device| device.device != own.device);
    others
        .filter(|other| holds(other) && hardly_used(other, own, is_rank))
        .map(|other| told(trace, own, other))
        .collect()
}

fn holds(device: &DeviceFacts) -> bool {
    device.peaks.reserved.bytes > 0 || device.peaks.allocated.bytes > 0
}

/// The device that this process works on.
fn own_device<'a>(trace: &Trace, devices: &'a [DeviceFacts]) -> Option<&'a DeviceFacts> {
    let busiest = devices.iter().max_by_key(|device| traffic(device))?;
    let local = trace.process.local_rank.and_then(|rank| u32::try_from(rank).ok());
    let local = local.and_then(|rank| devices.iter().find(|device| device.device == DeviceId(rank)));
    // With CUDA_VISIBLE_DEVICES the rank's device may have another number, and that number another meaning.
    local.filter(|local| !hardly_used(local, busiest, true)).or(Some(busiest))
}

fn traffic(device: &DeviceFacts) -> (u64, u64, Reverse<DeviceId>) {
    (device.allocations, device.peaks.allocated.bytes, Reverse(device.device))
}

fn hardly_used(other: &DeviceFacts, own: &DeviceFacts, is_rank: bool) -> bool {
    const A_FEW: u64 = 4;
    let parts = |parts: u64| u128::from(other.allocations) * u128::from(parts) <= u128::from(own.allocations);
    let (bytes, own_bytes) = (other.peaks.allocated.bytes, own.peaks.allocated.bytes);
    let is_a_crumb = other.allocations < own.allocations && u128::from(bytes) * 100 <= u128::from(own_bytes);
    parts(100)
        || (other.allocations <= A_FEW && is_a_crumb)
        || parts(10) && (is_rank || other.allocations <= A_FEW)
}

fn told(trace: &Trace, own: &DeviceFacts, other: &DeviceFacts) -> Finding {
    let (reserved, allocated) = (other.peaks.reserved.bytes, other.peaks.allocated.bytes);
    let title = format!(
        "This process works on device {} and also holds {} of device {}: {} allocated, besides a CUDA context",
        own.device.0,
        Bytes(reserved.max(allocated)),
        other.device.0,
        Bytes(allocated)
    );
    Finding::new(&RULE, Severity::Warning, other.device, reserved.max(allocated), title)
        .lines(other.lines_at_peak.clone())
        .evidence("own_device", own.device.0)
        .evidence("own_allocations", own.allocations)
        .evidence("own_peak_allocated_bytes", own.peaks.allocated.bytes)
        .evidence("allocations", other.allocations)
        .evidence("peak_allocated_bytes", allocated)
        .evidence("peak_reserved_bytes", reserved)
        .evidence("end_allocated_bytes", other.end.allocated_bytes)
        .evidence("loads_a_checkpoint", loads(trace, other.device))
        .remedy(remedy(trace, own, other))
}

/// Whether something on `device` was allocated while a checkpoint was read: PyTorch's own frames say so.
fn loads(trace: &Trace, device: DeviceId) -> bool {
    let Some(device) = trace.device(device) else { return false };
    let is_loader = |file: &str| {
        let file = file.replace('\\', "/");
        file.ends_with("torch/serialization.py") || file.contains("/safetensors/")
    };
    let mut stacks = device.events.stacks.clone();
    stacks.sort_unstable();
    stacks.dedup();
    let mut frames = stacks.iter().flat_map(|&stack| trace.stacks.get(stack));
    frames.any(|&frame| is_loader(trace.strings.get(trace.frames.get(frame).file)))
}

fn remedy(trace: &Trace, own: &DeviceFacts, other: &DeviceFacts) -> String {
    let own = own.device.0;
    if loads(trace, other.device) {
        return format!(
            "Load the checkpoint with torch.load(..., map_location=\"cpu\") or map_location=\"cuda:{own}\": without it \
             tensors go back to the device that they were saved from."
        );
    }
    format!(
        "Call torch.cuda.set_device({own}) before anything else touches CUDA, or let the process see its own device \
         only (CUDA_VISIBLE_DEVICES). If one process is meant to use both devices, nothing need be done."
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::rebuild::{Moment, Peak};

    const MIB: u64 = 1 << 20;

    fn facts(device: u32, allocations: u64, mib: u64) -> DeviceFacts {
        let peak = |bytes| Peak { bytes, moment: Moment(1) };
        let mut facts = DeviceFacts { device: DeviceId(device), allocations, ..DeviceFacts::default() };
        (facts.peaks.allocated, facts.peaks.reserved) =
            (peak(mib * MIB), peak(mib.next_multiple_of(2) * MIB));
        facts
    }

    fn fires(trace: &Trace, devices: &[DeviceFacts]) -> Vec<u32> {
        find(trace, devices).iter().map(|finding| finding.device.0).collect()
    }

    #[test]
    fn a_crumb_beside_a_short_run_is_foreign() {
        let trace = Trace::default();
        assert_eq!(fires(&trace, &[facts(0, 1, 2), facts(3, 8, 4000)]), [0]);
        assert!(fires(&trace, &[facts(0, 3, 400), facts(3, 8, 4000)]).is_empty());
    }

    #[test]
    fn a_stray_allocation_beside_the_real_run_is_foreign() {
        let devices = [facts(0, 1, 2), facts(3, 4_000, 9_000)];
        let found = find(&Trace::default(), &devices);
        assert_eq!((found.len(), found[0].device, found[0].bytes), (1, DeviceId(0), 2 * MIB));
        assert_eq!(found[0].evidence["own_device"], 3);
        assert!(found[0].remedy.contains("set_device(3)"));
    }

    #[test]
    fn a_process_that_drives_several_devices_is_not() {
        assert!(fires(&Trace::default(), &[facts(0, 400, 900), facts(1, 570, 1_000)]).is_empty());
        assert!(fires(&Trace::default(), &[facts(0, 90, 20), facts(1, 4_000, 9_000)]).is_empty());
        assert!(
            fires(&Trace::default(), &[facts(0, 1, 2), facts(1, 2, 4)]).is_empty(),
            "nobody is the main one"
        );
        assert!(fires(&Trace::default(), &[facts(3, 4_000, 9_000)]).is_empty());
    }

    #[test]
    fn a_device_without_a_byte_is_not() {
        assert!(fires(&Trace::default(), &[facts(0, 0, 0), facts(3, 4_000, 9_000)]).is_empty());
        assert_eq!(fires(&Trace::default(), &[facts(0, 0, 2), facts(3, 4_000, 9_000)]), [0]);
    }

    #[test]
    fn a_rank_has_one_device_so_less_is_asked() {
        let devices = [facts(0, 200, 5_000), facts(3, 4_000, 9_000)];
        assert!(fires(&Trace::default(), &devices).is_empty());
        let mut trace = Trace::default();
        trace.process.local_rank = Some(3);
        assert_eq!(fires(&trace, &devices), [0], "a whole checkpoint on somebody else's device");
        trace.process.local_rank = None;
        trace.process.world_size = Some(8);
        assert_eq!(fires(&trace, &devices), [0]);
        assert!(fires(&trace, &[facts(0, 1_000, 5_000), facts(1, 4_000, 9_000)]).is_empty(), "two per rank");
    }

    #[test]
    fn a_local_rank_that_hides_behind_visible_devices_is_not_believed() {
        let mut trace = Trace::default();
        trace.process.local_rank = Some(1);
        assert_eq!(fires(&trace, &[facts(0, 4_000, 9_000), facts(1, 1, 2)]), [1]);
    }
}
