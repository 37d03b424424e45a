//! The contents of the profile: a sample per device and stack, and comments that say what the numbers are.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::error::Result;
use crate::model::{DeviceTrace, Format, Trace};
use crate::rebuild::{History, Moment};
use crate::tables::{Clock, StackTotal, stack_totals};
use crate::units::{Bytes, Count};

use super::messages::{Label, Profile, Sample, ValueType};
use super::places::Places;

/// Names and units of a sample's values, in the order of [`values`]; the first is what `pprof` shows unasked.
const SAMPLE_TYPES: [(&str, &str); 4] = [
    ("live_space", "bytes"),
    ("live_objects", "count"),
    ("alloc_space", "bytes"),
    ("alloc_objects", "count"),
];

/// Writes a gzipped profile of `devices` to `output`: what every recorded stack held at the device's moment (of
/// `moments`, one per device; the peak of allocated bytes where it is missing) and what it allocated in all.
/// Bytes are those of blocks, so `live_space` of a device adds up to its allocated bytes at the moment. The same
/// trace gives the same bytes.
///
/// # Errors
/// Those of `output`.
pub fn write_pprof(
    trace: &Trace,
    devices: &[(&DeviceTrace, &History)],
    moments: &[Moment],
    output: &mut dyn Write,
) -> Result<()> {
    let moment_of = |at: usize| {
        let (_, history) = devices[at];
        moments.get(at).copied().unwrap_or(history.peaks.allocated.moment)
    };
    let mut places = Places::new(trace);
    let mut profile = Profile::default();
    for (name, unit) in SAMPLE_TYPES {
        profile.sample_type.push(ValueType { kind: places.text(name), unit: places.text(unit) });
    }
    profile.default_sample_type = profile.sample_type[0].kind;
    for (at, (device, history)) in devices.iter().enumerate() {
        let label = Label { key: places.text("device"), str: places.text(&device_name(device)) };
        for total in stack_totals(history, moment_of(at)) {
            let location_id = places.stack(total.stack);
            profile.sample.push(Sample { location_id, value: values(&total), label: vec![label] });
        }
    }
    let about = devices
        .iter()
        .enumerate()
        .map(|(at, &(device, history))| device_text(device, history, moment_of(at)));
    let comments: Vec<String> = general_texts(trace).into_iter().chain(about).collect();
    profile.comment = comments.iter().map(|text| places.text(text)).collect();
    (profile.time_nanos, profile.duration_nanos) = times(devices);
    (profile.string_table, profile.function, profile.location) = places.finish();
    pack(&profile, output)
}

/// As PyTorch calls it. A bare number would not do: `pprof -tagfocus device=1` compares numbers with numbers only,
/// and a label that is the number 0 is none.
fn device_name(device: &DeviceTrace) -> String {
    format!("cuda:{}", device.device.0)
}

fn values(total: &StackTotal) -> Vec<i64> {
    [total.live_bytes, total.live_allocations, total.total_bytes, total.allocations]
        .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
        .to_vec()
}

/// Gzip without a time in its head.
fn pack(profile: &Profile, output: &mut dyn Write) -> Result<()> {
    let mut packer = GzEncoder::new(output, Compression::default());
    packer.write_all(&profile.encode_to_vec())?;
    packer.finish()?.flush()?;
    Ok(())
}

/// Unix nanoseconds of the first event, and how long the recording is; zeros when events have no times.
fn times(devices: &[(&DeviceTrace, &History)]) -> (i64, i64) {
    let clocks = || devices.iter().map(|(device, _)| Clock::of(&device.events));
    let Some(first) = clocks().filter_map(Clock::start_us).min() else { return (0, 0) };
    let end = |clock: Clock<'_>| clock.start_us().map(|start| start.saturating_add_unsigned(clock.end()));
    let last = clocks().filter_map(end).max().unwrap_or(first);
    (first.saturating_mul(1000), last.saturating_sub(first).saturating_mul(1000))
}

fn general_texts(trace: &Trace) -> Vec<String> {
    let version =
        trace.process.torch_version.as_ref().map_or(String::new(), |of| format!(" of PyTorch {of}"));
    let recording = match trace.format {
        Format::MemlabTrace => "memlab recording",
        Format::TorchSnapshot => "memory snapshot",
    };
    vec![
        format!(
            "Written by memlab {} from a {recording}{version} with {} events.",
            env!("CARGO_PKG_VERSION"),
            Count(trace.event_count() as u64)
        ),
        "live_space and live_objects: blocks of the CUDA caching allocator that were handed out at one moment. \
         alloc_space and alloc_objects: all blocks of the recording, those from before it included."
            .to_owned(),
        "Bytes are those of blocks, rounding included: live_space of a device adds up to its allocated bytes. \
         Stacks stand as recorded; nothing is inferred."
            .to_owned(),
    ]
}

fn device_text(device: &DeviceTrace, history: &History, moment: Moment) -> String {
    let peak = history.peaks.allocated;
    let when = if moment == peak.moment { ", the peak of allocated bytes" } else { "" };
    format!(
        "Device {}: live is after {} of {} events{when} (peak: {}, {} bytes).",
        device.device.0,
        Count(moment.0),
        Count(history.events),
        Bytes(peak.bytes),
        peak.bytes,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    fn written(trace: &Trace) -> (Vec<u8>, Profile) {
        let histories: Vec<History> = trace.devices.iter().map(|device| rebuild(trace, device)).collect();
        let devices: Vec<_> = trace.devices.iter().zip(&histories).collect();
        let mut packed = Vec::new();
        write_pprof(trace, &devices, &[], &mut packed).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        (packed, Profile::decode(&bytes[..]).unwrap())
    }

    #[test]
    fn a_profile_says_who_when_and_what() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .at("a.py", 1, "f")
            .alloc(A, 1000)
            .alloc(A + 1024, 512)
            .free(A, 1000)
            .build();
        let (packed, profile) = written(&trace);
        assert_eq!(packed, written(&trace).0, "the same trace gives the same bytes");
        assert_eq!(packed[4..8], [0; 4], "no time in gzip's head");
        assert_eq!(profile.sample.len(), 1);
        assert_eq!(profile.sample[0].value, [1536, 2, 1536, 2]);
        assert_eq!(profile.time_nanos, 1_000_000_000);
        assert_eq!(profile.duration_nanos, 40_000);
        let text = |at: i64| profile.string_table[at as usize].as_str();
        assert_eq!(text(profile.default_sample_type), "live_space");
        let comments: Vec<&str> = profile.comment.iter().map(|&at| text(at)).collect();
        assert!(comments[0].contains("memlab") && comments[0].contains("5 events"), "{comments:?}");
        assert_eq!(
            comments[3],
            "Device 0: live is after 3 of 5 events, the peak of allocated bytes (peak: 1.5 KiB, 1536 bytes)."
        );
    }

    #[test]
    fn nothing_recorded_is_an_empty_profile() {
        let (_, profile) = written(&Trace::default());
        assert_eq!((profile.sample.len(), profile.sample_type.len(), profile.time_nanos), (0, 4, 0));
        assert_eq!(profile.string_table[0], "");
    }
}
