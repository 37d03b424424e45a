//! `driver-leak`: memory that the program's own code took from the driver and never gave back.

use crate::driver::{Claims, Ending, Memory, Taking};
use crate::findings::driver_lines::driver_lines;
use crate::findings::{Check, Finding, Guide, Rule, Severity};
use crate::model::{DeviceId, NO_DEVICE, Trace};
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "driver-leak",
    heading: "Driver memory that was never given back",
    guide: Guide {
        says: "Code of the program itself, or of a library of its own, took memory from the CUDA driver (cudaMalloc, a \
            pool, a mapping, an array, pinned host memory) and had not given it back when the process ended. The lines are \
            named, most bytes first.",
        fires: "When driver calls were recorded to the end of the process, and takings are left whose caller is the \
            program's executable, or a shared library that is neither installed with a package or the system nor a \
            framework's. It is a warning where one line kept two or more of them, information where each line kept one.",
        why: "What a line keeps once may be meant: the process ends, and the driver takes everything back. What it keeps \
            again and again grows while the process lives. Libraries and PyTorch's allocator keep their memory until the \
            end on purpose, so they are not reported.",
        needs: "A recording by `memlab record`, or by `memlab run --driver`, that was closed: the process was not killed. For \
            lines of machine code: `--symbols`, and binaries with debug information.",
        is_not: "It is not memory of tensors: PyTorch's allocator keeps that, and its own rules tell its leaks. A process \
            that was killed has no such finding, since what it would have given back is not known.",
        remedy: "Free what the line takes (cudaFree, cudaFreeAsync, cuMemRelease and cuMemUnmap, cudaFreeHost), best in a \
            destructor, so that it also happens on the way of an error.",
    },
    check: Check::Calls(find),
};

fn find(trace: &Trace, claims: &Claims<'_>) -> Vec<Finding> {
    if !claims.layer.complete {
        return Vec::new();
    }
    let mut devices = claims.devices();
    devices.push(NO_DEVICE);
    devices.into_iter().filter_map(|device| on_device(trace, claims, device)).collect()
}

/// Of one device, or of the host.
fn on_device(trace: &Trace, claims: &Claims<'_>, device: DeviceId) -> Option<Finding> {
    let is_left = |(index, taking): &(usize, &Taking)| {
        let is_own = claims.holder(claims.of_taking(*index)).is_own;
        taking.device == device
            && taking.ending == Ending::Kept
            && taking.memory != Memory::Imported
            && is_own
    };
    let left: Vec<(usize, &Taking)> = claims.takings.all.iter().enumerate().filter(is_left).collect();
    let kept = driver_lines(trace, claims, left.iter().copied());
    let bytes = left.iter().fold(0u64, |sum, (_, taking)| sum.saturating_add(taking.bytes));
    let most = kept.iter().map(|kept| kept.count).max()?;
    let severity = if most > 1 { Severity::Warning } else { Severity::Info };
    let place =
        if device == NO_DEVICE { "pinned host memory".to_owned() } else { "device memory".to_owned() };
    let title = format!(
        "{} of {place} were taken from the driver {} times and never given back, by {} of the program's own lines",
        Bytes(bytes),
        Count(left.len() as u64),
        Count(kept.len() as u64)
    );
    // A finding is about a device; of the host's memory the first one's context is the owner.
    let about =
        if device == NO_DEVICE { claims.devices().first().copied().unwrap_or_default() } else { device };
    let finding = Finding::new(&RULE, severity, about, bytes, title)
        .evidence("kept", left.len() as u64)
        .evidence("kept_bytes", bytes)
        .evidence("lines", kept.len() as u64)
        .evidence("most_kept_by_a_line", most)
        .lines(kept.into_iter().map(|kept| kept.line).collect());
    Some(finding.remedy(
        "Give back what these lines take, also on the way of an error. If a line keeps its memory once and on purpose, \
         nothing need be done: the driver takes it back with the process.",
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::driver::samples::recorded;

    fn found(trace: &Trace) -> Vec<Finding> {
        find(trace, &Claims::of(trace).unwrap())
    }

    #[test]
    fn a_program_that_leaks_is_told_with_its_bytes() {
        let mut trace = recorded("cupti");
        let told = found(&trace);
        // Device memory, a pool, a mapping, an array, managed memory twice; and pinned memory twice.
        let told: Vec<_> = told.iter().map(|finding| (finding.severity, finding.bytes)).collect();
        let on_device = 2 * 1_000_001 + 2 * 1_000_003 + 1_000_011 + (4 << 20) + 631_728;
        assert_eq!(told[0], (Severity::Warning, on_device));
        assert_eq!((told[1].1, told.len()), (2 * 1_000_005, 2));
        trace.driver.as_mut().unwrap().complete = false;
        assert!(found(&trace).is_empty(), "a killed process may have freed it");
    }

    #[test]
    fn frameworks_and_libraries_keep_their_memory_on_purpose() {
        for name in ["torch", "expandable"] {
            assert!(found(&recorded(name)).is_empty(), "{name}");
        }
    }
}
