//! Folded stacks: one line for each stack, as flame graph tools read it.
//!
//! Owns the form `outermost;...;innermost BYTES`. Equal lines are summed; lines stand in order of their frames, so
//! that the same trace gives the same bytes.

use std::io::Write;

use crate::error::Result;
use crate::model::{FrameId, StackId, Trace};

use super::frame_text::{self, NO_STACK};
use super::{DeviceHistory, Profile};

/// Writes the bytes of every stack of `devices`. Of several devices each has a root frame `device N`. A device
/// without the moment that `profile` asks for is left out.
///
/// # Errors
/// Those of `output`.
pub fn write_folded(
    trace: &Trace,
    devices: &[DeviceHistory],
    profile: Profile,
    output: &mut dyn Write,
) -> Result<()> {
    let weights: Vec<_> = devices
        .iter()
        .filter_map(|device| {
            let root = (devices.len() > 1).then(|| device.name());
            Some((root, profile.weights(&device.history)?))
        })
        .collect();
    let names = Names::of(trace, &weights);
    let mut lines: Vec<(Vec<u32>, u64)> = Vec::new();
    for (root, weights) in &weights {
        lines
            .extend(weights.iter().map(|&(stack, bytes)| (names.path(trace, root.as_deref(), stack), bytes)));
    }
    lines.sort_unstable();
    lines.dedup_by(|line, before| {
        let same = line.0 == before.0;
        if same {
            before.1 = before.1.saturating_add(line.1);
        }
        same
    });
    for (path, bytes) in &lines {
        for (at, &name) in path.iter().enumerate() {
            let before: &[u8] = if at == 0 { b"" } else { b";" };
            output.write_all(before)?;
            output.write_all(names.sorted[name as usize].as_bytes())?;
        }
        writeln!(output, " {bytes}")?;
    }
    Ok(())
}

/// Distinct frame texts in order, and which one each frame has: a text is made once, however many stacks share it.
struct Names {
    sorted: Vec<String>,
    of_frame: Vec<u32>,
}

impl Names {
    fn of(trace: &Trace, weights: &[(Option<String>, Vec<(StackId, u64)>)]) -> Self {
        let mut texts: Vec<Option<String>> = vec![None; trace.frames.len()];
        for &(stack, _) in weights.iter().flat_map(|(_, weights)| weights) {
            for &id in trace.stacks.get(stack) {
                if let Some(text @ None) = texts.get_mut(id.0 as usize) {
                    *text = Some(frame_text::folded(trace.frames.get(id), &trace.strings));
                }
            }
        }
        let roots = weights.iter().filter_map(|(root, _)| root.clone());
        let mut sorted: Vec<String> =
            texts.iter().flatten().cloned().chain(roots).chain([NO_STACK.to_owned()]).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut names = Self { sorted, of_frame: Vec::new() };
        names.of_frame =
            texts.iter().map(|text| text.as_ref().map_or(0, |text| names.number(text))).collect();
        names
    }

    /// The place of a text that is there.
    fn number(&self, text: &str) -> u32 {
        self.sorted.partition_point(|name| name.as_str() < text) as u32
    }

    /// Names from the outermost frame to the innermost.
    fn path(&self, trace: &Trace, root: Option<&str>, stack: StackId) -> Vec<u32> {
        let frames = trace.stacks.get(stack);
        let mut path: Vec<u32> = root.map(|root| self.number(root)).into_iter().collect();
        path.extend(frames.iter().rev().map(|&FrameId(id)| self.of_frame[id as usize]));
        if frames.is_empty() {
            path.push(self.number(NO_STACK));
        }
        path
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    fn text(trace: &Trace, profile: Profile) -> String {
        let devices: Vec<_> = trace
            .devices
            .iter()
            .map(|device| DeviceHistory { device, history: rebuild(trace, device) })
            .collect();
        let mut out = Vec::new();
        write_folded(trace, &devices, profile, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn builder() -> TraceBuilder {
        TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 512)
            .stack(&[("model.py", 7, "forward"), ("train.py", 3, "<module>")])
            .alloc(A + 512, 1024)
            .stack(&[("a;b.py", 0, "evil\n"), ("train.py", 3, "<module>")])
            .alloc(A + 1536, 2048)
    }

    #[test]
    fn stacks_are_lines_from_the_outermost_frame_in() {
        let expected = "<module> (train.py:3);evil\\n (a\\x3bb.py) 2048\n\
            <module> (train.py:3);forward (model.py:7) 1024\n\
            [no stack recorded] 512\n";
        assert_eq!(text(&builder().build(), Profile::Peak), expected);
    }

    #[test]
    fn equal_lines_are_one() {
        // Two frames that differ only in how their line is unknown read alike.
        let trace = builder()
            .at("x.py", 0, "f")
            .alloc(A + 3584, 512)
            .at("x.py", u64::MAX, "f")
            .alloc(A + 4096, 512)
            .build();
        assert!(text(&trace, Profile::End).ends_with("\nf (x.py) 1024\n"));
    }

    #[test]
    fn several_devices_have_a_root_frame_each() {
        let trace = builder().device(3).segment_alloc(A, 2 << 20).at("b.py", 1, "g").alloc(A, 512).build();
        let text = text(&trace, Profile::Peak);
        assert!(text.starts_with("device 0;<module> (train.py:3);"), "{text}");
        assert!(text.ends_with("device 3;g (b.py:1) 512\n"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }
}
