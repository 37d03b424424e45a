//! `preallocation`: one holder beside PyTorch's allocator took most of the device in one piece.

use crate::driver::{Claims, HolderKind, Places, Taking, counts_on};
use crate::findings::{Check, Finding, Guide, LineBytes, Rule, Severity};
use crate::model::{DeviceId, Trace};
use crate::units::{Bytes, percent};

/// Part of the device, in percent, from which on a single taking is one that was not sized by need.
const LEAST_PERCENT: u64 = 40;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "preallocation",
    heading: "One library took most of the device in one piece",
    guide: Guide {
        says: "A single call took a large part of the device's memory, and not for PyTorch's allocator: a library that \
            divides its memory among its own tensors takes it all at its start. What the program really uses of it is \
            not seen by driver calls.",
        fires: "When one taking of at least 40 % of the device is held by somebody else than PyTorch's caching allocator. It is \
            a warning where the driver refused somebody memory meanwhile, else information.",
        why: "XLA (JAX) takes 75 % of the device by default, TensorFlow nearly all. Programs that need so much in one piece are \
            rare, and then the finding does no harm: it names the line.",
        needs: "A recording by `memlab record` or `memlab run --driver`, with a reading of the device's size.",
        is_not: "It is no leak and no need: the figure says what was set aside. `nvidia-smi` shows the same, however little \
            is in use.",
        remedy: "JAX: set `XLA_PYTHON_CLIENT_MEM_FRACTION` to the part that it may have, or \
            `XLA_PYTHON_CLIENT_PREALLOCATE=false`. TensorFlow: `tf.config.experimental.set_memory_growth`. Where several \
            frameworks share a device, give each its part.",
    },
    check: Check::Calls(find),
};

fn find(trace: &Trace, claims: &Claims<'_>) -> Vec<Finding> {
    claims.devices().into_iter().filter_map(|device| on_device(trace, claims, device)).collect()
}

fn on_device(trace: &Trace, claims: &Claims<'_>, device: DeviceId) -> Option<Finding> {
    let total = trace
        .samples
        .iter()
        .filter(|sample| sample.device == device)
        .find_map(|sample| sample.total_bytes)?;
    let is_large = |(index, taking): &(usize, &Taking)| {
        let kind = claims.holder(claims.of_taking(*index)).kind;
        counts_on(taking, device)
            && kind != HolderKind::Allocator
            && u128::from(taking.bytes) * 100 >= u128::from(total) * u128::from(LEAST_PERCENT)
    };
    let takings = claims.takings.all.iter().enumerate();
    let (index, taking) = takings.filter(is_large).max_by_key(|(_, taking)| taking.bytes)?;
    let holder = claims.holder(claims.of_taking(index));
    let row = &claims.layer.rows[taking.row as usize];
    let is_refused = |&&refused: &&u32| refused > taking.row && refused < taking.until;
    let refused = claims.takings.refused.iter().filter(is_refused).count() as u64;
    let severity = if refused > 0 { Severity::Warning } else { Severity::Info };
    let title = format!(
        "{} took {} of the device ({}) in one piece; how much of it the program uses is not seen here",
        holder.name,
        Bytes(taking.bytes),
        percent(taking.bytes, total)
    );
    let mut places = Places::new(trace, claims.layer);
    let place = places.of(row);
    let line = place.file.clone().map(|file| LineBytes {
        file,
        line: place.line.unwrap_or(0),
        function: place.function.clone().unwrap_or_default(),
        bytes: taking.bytes,
    });
    let finding = Finding::new(&RULE, severity, device, taking.bytes, title)
        .evidence("holder", holder.name.as_str())
        .evidence("device_total_bytes", total)
        .evidence("time_us", row.time_us)
        .evidence("refused", refused)
        .lines(line.into_iter().collect());
    let advice = holder.note.map_or_else(
        || format!("Ask {} for no more than it needs, so that others find room.", holder.name),
        |note| format!("{}.", capitalized(note)),
    );
    Some(finding.remedy(advice))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::samples::Calls;
    use crate::model::{DriverCall, DriverLayer, NativeFrame, NativeModule, Sample};

    const GIB: u64 = 1 << 30;

    fn found(trace: &Trace) -> Vec<Finding> {
        find(trace, &Claims::of(trace).unwrap())
    }

    fn trace(module: &str, bytes: u64, refused: bool) -> Trace {
        let mut calls = Calls::default().at(1 << 40).stack(1).take(DriverCall::DeviceAlloc, bytes);
        if refused {
            calls = calls.failed(DriverCall::DeviceAlloc, GIB, 2);
        }
        let mut layer = DriverLayer { rows: calls.rows, ..DriverLayer::default() };
        let module =
            layer.native.push_module(NativeModule { path: module.to_owned(), ..NativeModule::default() });
        let frame = layer.native.push_frame(NativeFrame { module, offset: 1 });
        layer.native.push_stack([frame]);
        let sample = Sample { total_bytes: Some(140 * GIB), ..Sample::default() };
        Trace { driver: Some(Box::new(layer)), samples: vec![sample], ..Trace::default() }
    }

    #[test]
    fn what_xla_takes_at_its_start_is_told_for_what_it_is() {
        let told = found(&trace("/v/xla_cuda_plugin.so", 105 * GIB, false));
        assert_eq!((told[0].severity, told[0].bytes), (Severity::Info, 105 * GIB));
        assert!(told[0].title.starts_with("XLA took 105.0 GiB of the device (75"), "{}", told[0].title);
        assert!(told[0].remedy.contains("XLA_PYTHON_CLIENT_MEM_FRACTION"));
        assert_eq!(found(&trace("/v/xla_cuda_plugin.so", 105 * GIB, true))[0].severity, Severity::Warning);
    }

    #[test]
    fn pytorchs_segments_and_small_pieces_are_quiet() {
        assert!(found(&trace("/v/libc10_cuda.so", 105 * GIB, false)).is_empty());
        assert!(found(&trace("/v/xla_cuda_plugin.so", 40 * GIB, false)).is_empty());
    }
}
