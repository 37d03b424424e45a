//! Advice about settings that fits those in force and the version of PyTorch.
//!
//! Owns sentences. What a replay recommends comes with the scene; what to try where nothing was replayed depends
//! on what is on already, and on what the recorded version has.

use crate::findings::{Scene, SettingHelp};
use crate::model::Trace;
use crate::rebuild::State;
use crate::units::Bytes;

/// First release with expandable segments.
const EXPANDABLE_SINCE: (u64, u64) = (2, 1);

/// Major and minor version of the recorded PyTorch, when known.
pub(crate) fn torch_version(trace: &Trace) -> Option<(u64, u64)> {
    let mut parts = trace.process.torch_version.as_deref()?.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.chars().take_while(char::is_ascii_digit).collect::<String>();
    Some((major, minor.parse().ok()?))
}

/// What a replay recommends, as sentences: only a setting under which every request is served.
pub(crate) fn replayed<'a>(scene: &'a Scene<'_>) -> Option<(String, &'a SettingHelp)> {
    let setting = scene.setting.as_ref().filter(|setting| setting.fits)?;
    let recorded = scene.settings().conf();
    let instead = if recorded.is_empty() { String::new() } else { format!(" in place of {recorded}") };
    Some((format!("Use PYTORCH_CUDA_ALLOC_CONF={}{instead}. {}", setting.conf, setting.reason), setting))
}

/// What to do about free memory in pieces, where nothing was replayed or no setting serves every request.
pub(crate) fn against_pieces(scene: &Scene<'_>, state: &State, request_bytes: u64) -> String {
    let is_expandable = |state: &State| state.segments.iter().any(|segment| segment.is_expandable);
    if scene.settings().expandable_segments() && is_expandable(state) {
        return "Expandable segments are on already: what is left is to free the blocks that are in the way earlier, or \
                to allocate what lives long before what is short-lived."
            .to_owned();
    }
    if scene.settings().expandable_segments() {
        return "Expandable segments are asked for, but no segment is one: this platform or build has none, and the \
                setting changes nothing here. Free the blocks that are in the way earlier, or allocate what lives long \
                before what is short-lived."
            .to_owned();
    }
    match torch_version(scene.trace) {
        Some((major, minor)) if (major, minor) < EXPANDABLE_SINCE => format!(
            "PyTorch {major}.{minor} has no expandable segments (2.1 and later have): there, \
             PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N with N below the size of the failing request ({}) keeps large \
             blocks from being split.",
            Bytes(request_bytes)
        ),
        version => {
            let since = if version.is_none() { " (PyTorch 2.1 and later)" } else { "" };
            format!(
                "Let the allocator grow its segments: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True{since}. \
                 `memlab whatif` says what that would save."
            )
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::findings::scene::samples::with_scene;
    use crate::model::{SettingValue, TraceBuilder};

    const MIB: u64 = 1 << 20;

    fn advised(on: bool, mapped: bool, version: Option<&str>) -> String {
        let mut run = TraceBuilder::new();
        if on {
            run = run.setting("expandable_segments", SettingValue::Bool(true));
        }
        let action =
            if mapped { crate::model::Action::SegmentMap } else { crate::model::Action::SegmentAlloc };
        let mut trace = run.event(action, 0x7f00_0000_0000, 20 * MIB).build();
        trace.process.torch_version = version.map(str::to_owned);
        with_scene(&trace, None, |scene| against_pieces(scene, scene.at_end(), 64 * MIB))
    }

    #[test]
    fn what_is_on_or_not_there_is_not_advised() {
        assert!(advised(false, false, Some("2.11.0+cu130")).contains("expandable_segments:True. "));
        assert!(advised(false, false, None).contains("2.1 and later"));
        let old = advised(false, false, Some("2.0.1"));
        assert!(old.contains("max_split_size_mb") && !old.contains("expandable_segments:True"), "{old}");
        assert!(advised(true, true, None).starts_with("Expandable segments are on already"));
        assert!(advised(true, false, None).contains("no segment is one"));
    }

    #[test]
    fn versions_are_read_as_far_as_they_go() {
        let read = |text: &str| {
            let mut trace = TraceBuilder::new().build();
            trace.process.torch_version = Some(text.to_owned());
            torch_version(&trace)
        };
        assert_eq!(read("2.11.0+cu130"), Some((2, 11)));
        assert_eq!(read("2.1a0"), Some((2, 1)));
        assert_eq!((read("2"), read("nightly")), (None, None));
    }
}
