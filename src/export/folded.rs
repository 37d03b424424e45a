//! Folded stacks: one line for each stack, as flame graph tools read it.
//!
//! Owns the form `outermost;...;innermost BYTES`, its frames being `function (file:line)` less what is unknown.
//! Equal lines are summed; lines stand in order of their frames, so that the same trace gives the same bytes. Names
//! are spelled once and written from there: a long name in many stacks takes no more memory than the trace does.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::error::Result;
use crate::model::{FrameId, StackId, Trace};
use crate::rebuild::NONE;

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
    for device in devices {
        let root = if devices.len() > 1 { device.name() + ";" } else { String::new() };
        let Some(weights) = profile.weights(&device.history) else { continue };
        let names = Names::of(trace, &weights);
        for (path, bytes) in names.lines(trace, &weights) {
            output.write_all(root.as_bytes())?;
            names.write(&path, output)?;
            writeln!(output, " {bytes}")?;
        }
    }
    Ok(())
}

/// A frame as it is written. Equal texts are equal keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u64>,
}

/// Distinct frame texts in order, and which of them each frame has.
struct Names<'a> {
    /// By string number.
    spelled: Vec<Cow<'a, str>>,
    /// A frame for each text.
    frames: Vec<FrameId>,
    /// By frame number; [`NONE`] for a frame in no stack.
    of_frame: Vec<u32>,
    trace: &'a Trace,
}

impl<'a> Names<'a> {
    fn of(trace: &'a Trace, weights: &[(StackId, u64)]) -> Self {
        let mut used: Vec<FrameId> = Vec::new();
        let mut of_frame = vec![NONE; trace.frames.len()];
        for &(stack, _) in weights {
            for &frame in trace.stacks.get(stack) {
                if std::mem::replace(&mut of_frame[frame.0 as usize], 0) == NONE {
                    used.push(frame);
                }
            }
        }
        let spelled = trace.strings.iter().map(frame_text::folded).collect();
        let mut names = Self { spelled, frames: Vec::new(), of_frame, trace };
        used.sort_by(|&a, &b| names.key(a).cmp(&names.key(b)));
        for frame in used {
            if names.frames.last().is_none_or(|&last| names.key(last) != names.key(frame)) {
                names.frames.push(frame);
            }
            names.of_frame[frame.0 as usize] = names.frames.len() as u32 - 1;
        }
        names
    }

    fn key(&self, id: FrameId) -> Key<'_> {
        let (frame, strings) = (self.trace.frames.get(id), &self.trace.strings);
        let is_named = !strings.get(frame.function).is_empty();
        let file = frame_text::file(frame, strings).map(|_| self.spelled[frame.file.0 as usize].as_ref());
        Key {
            function: if is_named {
                &self.spelled[frame.function.0 as usize]
            } else {
                frame_text::NO_FUNCTION
            },
            file,
            line: file.and(frame_text::line(frame)),
        }
    }

    /// Texts from the outermost frame to the innermost, with their bytes; no path for no stack, which comes first.
    fn lines(&self, trace: &Trace, weights: &[(StackId, u64)]) -> Vec<(Vec<u32>, u64)> {
        let path = |stack| trace.stacks.get(stack).iter().rev().map(|frame| self.of_frame[frame.0 as usize]);
        let mut lines: Vec<(Vec<u32>, u64)> =
            weights.iter().map(|&(stack, bytes)| (path(stack).collect(), bytes)).collect();
        lines.sort_unstable();
        lines.dedup_by(|line, before| {
            let is_equal = line.0 == before.0;
            if is_equal {
                before.1 = before.1.saturating_add(line.1);
            }
            is_equal
        });
        lines
    }

    fn write(&self, path: &[u32], output: &mut dyn Write) -> io::Result<()> {
        if path.is_empty() {
            return output.write_all(NO_STACK.as_bytes());
        }
        for (at, &name) in path.iter().enumerate() {
            let Key { function, file, line } = self.key(self.frames[name as usize]);
            write!(output, "{}{function}", if at == 0 { "" } else { ";" })?;
            match (file, line) {
                (Some(file), Some(line)) => write!(output, " ({file}:{line})")?,
                (Some(file), None) => write!(output, " ({file})")?,
                (None, _) => {}
            }
        }
        Ok(())
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
        let expected = "[no stack recorded] 512\n\
            <module> (train.py:3);evil\\n (a\\x3bb.py) 2048\n\
            <module> (train.py:3);forward (model.py:7) 1024\n";
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
        assert!(text(&trace, Profile::End).contains("\nf (x.py) 1024\n"));
    }

    #[test]
    fn several_devices_have_a_root_frame_each() {
        let trace = builder().device(3).segment_alloc(A, 2 << 20).at("b.py", 1, "g").alloc(A, 512).build();
        let text = text(&trace, Profile::Peak);
        assert!(
            text.starts_with("device 0;[no stack recorded] 512\ndevice 0;<module> (train.py:3);"),
            "{text}"
        );
        assert!(text.ends_with("device 3;g (b.py:1) 512\n"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }
}
