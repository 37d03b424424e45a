//! The blobs of one page: the report's and one for each device.
//!
//! Owns their names, their order and how many bytes each may take.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::report::{SCHEMA, TraceReport};

use super::cut::Cut;
use super::{Part, pack, packed_bytes};

/// Bytes of base64 text that all blobs of one file may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Default for Budget {
    /// Leaves two fifths of the three megabytes of a page to its scripts, styles and text.
    fn default() -> Self {
        Self(1_800_000)
    }
}

impl Budget {
    /// What the report itself may take.
    #[must_use]
    pub fn of_report(self) -> u64 {
        self.0 / 7
    }

    /// What a device with `events` of all `total` events of `devices` devices may take. A device without
    /// events has a state, too.
    #[must_use]
    pub fn of_device(self, events: u64, total: u64, devices: u64) -> u64 {
        const LEAST_WEIGHT: u128 = 1_000;
        let weight = u128::from(events) + LEAST_WEIGHT;
        let all = u128::from(total) + LEAST_WEIGHT * u128::from(devices.max(1));
        let bytes = u128::from(self.0 - self.of_report()) * weight / all.max(weight);
        bytes as u64
    }
}

/// One device's figures, packed: what `analysis` makes for a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageDevice {
    /// Index of the device.
    pub device: u32,
    /// Events of the device.
    pub events: u64,
    /// Whether every moment is in it.
    pub complete: bool,
    /// Moments in it with every allocation.
    pub moments: u64,
    /// The container, compressed.
    pub packed: Vec<u8>,
}

/// An element of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The element's id.
    pub id: String,
    /// Its text: base64, harmless in HTML.
    pub text: String,
}

/// What else the blobs need to know.
#[derive(Clone, Debug, Default)]
pub struct BlobOptions<'a> {
    /// For example `memlab 0.1.0`.
    pub tool: &'a str,
    /// For all blobs together; the devices have kept to it already.
    pub budget: Budget,
}

/// The blobs of `trace` in the order in which they stand in the page: the report, then its devices. A device
/// for which there is no room at all, as with hundreds of devices, has no blob.
#[must_use]
pub fn blobs(trace: &TraceReport, devices: &[PageDevice], options: &BlobOptions<'_>) -> Vec<Blob> {
    let blob = |id: String, packed: &[u8]| Blob { id, text: STANDARD.encode(packed) };
    let mut blobs = vec![blob("memlab-report".to_owned(), &report(trace, options))];
    let mut room = options.budget.0.saturating_sub(blobs[0].text.len() as u64);
    for (at, device) in devices.iter().enumerate() {
        let bytes = packed_bytes(&device.packed);
        if bytes <= room {
            room -= bytes;
            blobs.push(blob(format!("memlab-device-{at}"), &device.packed));
        }
    }
    blobs
}

/// The report, cut further and further until it fits.
fn report(trace: &TraceReport, options: &BlobOptions<'_>) -> Vec<u8> {
    let mut value = serde_json::to_value(trace).unwrap_or(Value::Null);
    let mut cut = Cut::FULL;
    loop {
        cut.apply("", &mut value);
        let (schema, tool) = (SCHEMA.into(), options.tool.into());
        let header = Part::Map(vec![
            ("schema", Part::Value(schema)),
            ("tool", Part::Value(tool)),
            ("trace", Part::Value(value)),
        ]);
        let packed = pack(&header);
        let smaller = cut.smaller().filter(|_| packed_bytes(&packed) > options.budget.of_report());
        let (Some(smaller), Part::Map(mut fields)) = (smaller, header) else { return packed };
        let Some((_, Part::Value(cut_so_far))) = fields.pop() else { return packed };
        (cut, value) = (smaller, cut_so_far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    use serde_json::json;

    use crate::report::fixtures;

    fn header(blob: &Blob) -> Value {
        let packed = STANDARD.decode(&blob.text).unwrap();
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        serde_json::from_slice(&bytes[4..]).unwrap()
    }

    #[test]
    fn the_report_comes_back_as_it_stands_in_json() {
        let report = fixtures::oom();
        let trace = &report.traces[0];
        let devices = [PageDevice { packed: vec![1, 2, 3], ..PageDevice::default() }];
        let options = BlobOptions { tool: "memlab 1", ..BlobOptions::default() };
        let made = blobs(trace, &devices, &options);
        let ids: Vec<_> = made.iter().map(|blob| blob.id.as_str()).collect();
        assert_eq!(ids, ["memlab-report", "memlab-device-0"]);
        let found = header(&made[0]);
        assert_eq!((&found["tool"], &found["schema"]), (&json!("memlab 1"), &json!(SCHEMA)));
        assert_eq!(found["trace"], serde_json::to_value(trace).unwrap());
        assert_eq!(made, blobs(trace, &devices, &options));
        assert_eq!(made[1].text, "AQID");
    }

    #[test]
    fn hostile_names_are_nothing_but_base64_and_come_back() {
        let report = fixtures::hostile();
        let made = blobs(&report.traces[0], &[], &BlobOptions::default());
        assert!(made[0].text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)));
        assert_eq!(header(&made[0])["trace"]["path"], fixtures::HOSTILE);
    }

    #[test]
    fn a_report_that_names_too_much_is_cut_until_it_fits() {
        let mut report = fixtures::oom();
        let device = &mut report.traces[0].devices[0];
        let line = device.lines[0].clone();
        let mut seed = 1u64;
        let name = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{seed:x}").repeat(40)
        };
        device.lines = (0..5_000)
            .map(|_| crate::report::LineRow { file: Some(name(&mut seed)), ..line.clone() })
            .collect();
        device.lines_left_out = 7;
        let options = BlobOptions { budget: Budget(350_000), ..BlobOptions::default() };
        let made = blobs(&report.traces[0], &[], &options);
        assert!(made[0].text.len() <= 50_000, "{}", made[0].text.len());
        let found = &header(&made[0])["trace"]["devices"][0];
        let kept = found["lines"].as_array().unwrap().len() as u64;
        assert_eq!(found["lines_left_out"], 5_007 - kept);
        assert!(kept > 10);
    }

    #[test]
    fn a_device_without_room_has_no_blob() {
        let report = fixtures::oom();
        let sized = |bytes| PageDevice { packed: vec![7; bytes], ..PageDevice::default() };
        let options = BlobOptions { budget: Budget(40_000), ..BlobOptions::default() };
        let made = blobs(&report.traces[0], &[sized(9_000), sized(90_000), sized(90)], &options);
        let ids: Vec<_> = made.iter().map(|blob| blob.id.as_str()).collect();
        assert_eq!(ids, ["memlab-report", "memlab-device-0", "memlab-device-2"]);
    }

    #[test]
    fn shares_never_exceed_the_budget() {
        let budget = Budget::default();
        let shares: u64 = [0u64, 10, 5_000_000].iter().map(|&n| budget.of_device(n, 5_000_010, 3)).sum();
        assert!(shares + budget.of_report() <= budget.0);
        assert!(budget.of_device(0, 0, 0) > 0);
    }
}
