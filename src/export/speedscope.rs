//! Speedscope's JSON file format: shared frames, and one sampled profile per device and choice of bytes.
//!
//! Owns the keys, as `file-format-schema.json` of speedscope has them. Every stack is one sample whose weight is its
//! bytes; samples stand in order of their frames, so that equal callers lie side by side. Names are written as the
//! trace has them: JSON is data, and what shows it escapes it.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::Result;
use crate::model::{FrameId, StackId, Trace};
use crate::rebuild::NONE;

use super::frame_text::{self, NO_STACK};
use super::{DeviceHistory, EXPORTER, Profile};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A row of the shared frames.
#[derive(Serialize)]
struct SharedFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// A profile before it is written.
struct Sampled {
    name: String,
    samples: Vec<(StackId, u64)>,
}

/// Writes one profile per device and choice; a device that lacks the moment of a choice has no such profile. `name`
/// is what the viewer calls the file.
///
/// # Errors
/// Those of `output`.
pub fn write_speedscope(
    name: &str,
    trace: &Trace,
    devices: &[DeviceHistory],
    profiles: &[Profile],
    output: &mut dyn Write,
) -> Result<()> {
    let sampled = sampled(trace, devices, profiles);
    let used = Used::of(trace, &sampled);
    write!(output, "{{\"$schema\":\"{SCHEMA}\",\"exporter\":\"{EXPORTER}\",\"name\":")?;
    json(output, name)?;
    output.write_all(b",\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[")?;
    used.write(trace, output)?;
    output.write_all(b"]},\n\"profiles\":[")?;
    for (at, profile) in sampled.iter().enumerate() {
        output.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        profile.write(trace, &used, output)?;
    }
    output.write_all(b"]}\n")?;
    Ok(())
}

fn sampled(trace: &Trace, devices: &[DeviceHistory], profiles: &[Profile]) -> Vec<Sampled> {
    let mut all = Vec::new();
    for device in devices {
        for profile in profiles {
            let Some(mut samples) = profile.weights(&device.history) else { continue };
            let path = |stack| trace.stacks.get(stack).iter().rev();
            samples.sort_by(|a, b| path(a.0).cmp(path(b.0)));
            all.push(Sampled { name: format!("{}: {}", device.name(), profile.title()), samples });
        }
    }
    all
}

/// Frames that some sample has, numbered as they are written; the frame for "no stack" is last.
struct Used {
    number_of: Vec<u32>,
    frames: Vec<FrameId>,
    has_no_stack: bool,
}

impl Used {
    fn of(trace: &Trace, profiles: &[Sampled]) -> Self {
        let mut used =
            Self { number_of: vec![NONE; trace.frames.len()], frames: Vec::new(), has_no_stack: false };
        for &(stack, _) in profiles.iter().flat_map(|profile| &profile.samples) {
            let frames = trace.stacks.get(stack);
            used.has_no_stack |= frames.is_empty();
            for &frame in frames {
                if let Some(number) =
                    used.number_of.get_mut(frame.0 as usize).filter(|number| **number == NONE)
                {
                    *number = used.frames.len() as u32;
                    used.frames.push(frame);
                }
            }
        }
        used
    }

    fn write(&self, trace: &Trace, output: &mut dyn Write) -> io::Result<()> {
        let known = self.frames.iter().map(|&id| {
            let frame = trace.frames.get(id);
            SharedFrame {
                name: frame_text::function(frame, &trace.strings),
                file: frame_text::file(frame, &trace.strings),
                line: frame_text::line(frame),
            }
        });
        let unknown = self.has_no_stack.then_some(SharedFrame { name: NO_STACK, file: None, line: None });
        for (at, frame) in known.chain(unknown).enumerate() {
            output.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            json(output, &frame)?;
        }
        Ok(())
    }

    /// Frame numbers of a stack, outermost first.
    fn sample(&self, trace: &Trace, stack: StackId) -> Vec<u32> {
        let frames = trace.stacks.get(stack);
        if frames.is_empty() {
            return vec![self.frames.len() as u32];
        }
        frames.iter().rev().map(|frame| self.number_of[frame.0 as usize]).collect()
    }
}

impl Sampled {
    fn write(&self, trace: &Trace, used: &Used, output: &mut dyn Write) -> io::Result<()> {
        let sum = self.samples.iter().fold(0u64, |sum, &(_, bytes)| sum.saturating_add(bytes));
        output.write_all(b"{\"type\":\"sampled\",\"unit\":\"bytes\",\"name\":")?;
        json(output, &self.name)?;
        write!(output, ",\"startValue\":0,\"endValue\":{sum},\"samples\":[")?;
        for (at, &(stack, _)) in self.samples.iter().enumerate() {
            output.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            json(output, &used.sample(trace, stack))?;
        }
        output.write_all(b"],\n\"weights\":")?;
        json(output, &self.samples.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>())?;
        output.write_all(b"}")
    }
}

fn json(output: &mut dyn Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(output, value).map_err(io::Error::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;
    const HOSTILE: &str = "</script>\"\u{1b}[31m\u{202e}\n";

    fn written(trace: &Trace, profiles: &[Profile]) -> Value {
        let devices: Vec<_> = trace
            .devices
            .iter()
            .map(|device| DeviceHistory { device, history: rebuild(trace, device) })
            .collect();
        let mut out = Vec::new();
        write_speedscope(HOSTILE, trace, &devices, profiles, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    fn trace() -> Trace {
        TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 512)
            .stack(&[("model.py", 7, "forward"), ("train.py", u64::MAX, "<module>")])
            .alloc(A + 512, 1024)
            .stack(&[("", 0, HOSTILE), ("train.py", u64::MAX, "<module>")])
            .alloc(A + 1536, 2048)
            .free(A + 1536, 2048)
            .build()
    }

    #[test]
    fn frames_are_shared_and_weights_are_bytes() {
        let file = written(&trace(), &[Profile::Peak, Profile::End, Profile::Oom]);
        assert_eq!(file["name"], HOSTILE);
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert_eq!(frames.len(), 4, "each frame once, and one for no stack");
        let names = |sample: &Value| -> Vec<String> {
            let numbers = sample.as_array().unwrap().iter();
            numbers
                .map(|at| frames[at.as_u64().unwrap() as usize]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let profiles = file["profiles"].as_array().unwrap();
        assert_eq!(profiles.len(), 2, "there was no failed request");
        let stacks: Vec<_> = profiles[0]["samples"].as_array().unwrap().iter().map(names).collect();
        assert_eq!(stacks, [vec![NO_STACK], vec!["<module>", "forward"], vec!["<module>", HOSTILE]]);
        assert_eq!(profiles[0]["weights"], serde_json::json!([512, 1024, 2048]));
        assert_eq!(profiles[0]["endValue"], 3584);
        assert_eq!(profiles[1]["weights"], serde_json::json!([512, 1024]));
        assert_eq!(profiles[1]["name"], "device 0: allocated bytes at the end");
    }

    #[test]
    fn unknown_files_and_lines_are_absent() {
        let file = written(&trace(), &[Profile::Peak]);
        let frame = |name: &str| {
            let frames = file["shared"]["frames"].as_array().unwrap();
            frames.iter().find(|frame| frame["name"] == name).unwrap().clone()
        };
        assert_eq!(frame("forward"), serde_json::json!({ "name": "forward", "file": "model.py", "line": 7 }));
        assert_eq!(frame("<module>"), serde_json::json!({ "name": "<module>", "file": "train.py" }));
        assert_eq!(frame(HOSTILE), serde_json::json!({ "name": HOSTILE }));
    }

    #[test]
    fn a_trace_without_devices_is_still_a_file() {
        let file = written(&Trace::default(), &[Profile::Peak]);
        assert_eq!(file["profiles"], serde_json::json!([]));
        assert_eq!(file["shared"]["frames"], serde_json::json!([]));
    }
}
