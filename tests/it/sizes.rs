//! Reports stay small enough to paste and to open, whatever the number of events.

use std::path::Path;

use memlab::analysis::{self, Options};
use memlab::report::{MarkdownOptions, PICTURE_KINDS, markdown, picture_svg};

use crate::escaping::assert_well_formed;
use crate::inputs::{analyzed_path, recordings};

/// What an issue tracker takes in one comment.
const MARKDOWN_CHARACTERS: usize = 60_000;
/// What a browser and a code host show without hesitation.
const SVG_BYTES: usize = 500_000;

fn assert_sizes(path: &Path) {
    let name = path.display().to_string();
    let options = Options { with_pictures: true, ..Options::default() };
    let report = analysis::analyze(&name, &analyzed_path(path).trace, &options).expect("a report");
    let text = markdown(&report, &MarkdownOptions::default());
    assert!(text.chars().count() < MARKDOWN_CHARACTERS, "{name}: {} characters", text.chars().count());
    for device in &report.devices {
        let highest = |curve: &[u64]| curve.iter().copied().max().unwrap_or(0);
        let timeline = &device.timeline;
        assert_eq!(highest(&timeline.allocated), device.peak.allocated_bytes, "{name}: the peak is drawn");
        assert_eq!(highest(&timeline.reserved), device.peak.reserved_bytes, "{name}: the peak is drawn");
        for what in PICTURE_KINDS {
            let Some(svg) = picture_svg(what, &report, device) else { continue };
            assert!(svg.len() < SVG_BYTES, "{name}: {what} of {} bytes", svg.len());
            assert_well_formed(&format!("{what} of {name}"), &svg);
        }
    }
}

#[test]
fn reports_of_real_recordings_can_be_pasted_and_opened() {
    for folder in ["torch", "gpu", "faults", "cases", "public"] {
        for path in recordings(folder) {
            assert_sizes(&path);
        }
    }
}
