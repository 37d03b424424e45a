//! `steps.svg`: what every step holds at its end, by line, and how high it reaches in between.
//!
//! Owns the columns: a step is a bar, or where there are very many a part of a staircase; `draw` does the drawing.

use super::palette::{ABOVE, BANDS, OTHER, RESERVED, UNKNOWN};
use super::picture::{Across, COLUMNS, Curve, LEFT, Layer, Note, Picture, TOP};
use crate::report::escape::{keep_start, terminal, xml};
use crate::report::pictures::StepCurve;
use crate::report::types::{DeviceReport, Timeline, TraceReport};
use crate::units::{Bytes, Count, SignedBytes};

/// More columns than this stand without a gap between them.
const MOST_BARS: usize = 80;
/// Positions of a column: its bar begins after the first eighth and ends before the last.
const WIDTH: u64 = 8;

/// The samples that the bars of `curve` are drawn from.
pub(super) fn timeline(curve: &StepCurve) -> Timeline {
    let count = curve.columns.len() as u64;
    let bar = |at: u64| [at * WIDTH, at * WIDTH + 1, at * WIDTH + WIDTH - 1];
    let x = if has_gaps(curve) {
        (0..count).flat_map(bar).collect()
    } else {
        (0..count).map(|at| at * WIDTH).collect()
    };
    Timeline { x, x_end: count * WIDTH, events_per_sample: 1, ..Timeline::default() }
}

/// Whether a step is a bar of its own.
fn has_gaps(curve: &StepCurve) -> bool {
    curve.columns.len() <= MOST_BARS
}

/// The picture over the samples of [`timeline`].
pub(super) fn picture<'a>(trace: &TraceReport, device: &DeviceReport, timeline: &'a Timeline) -> Picture<'a> {
    let curve = &device.pictures.steps;
    let subtitle = subtitle(device);
    Picture {
        title: super::title("Allocated memory by step", trace, device),
        description: format!(
            "A column per step: what is held at its end, by line, and above that the most that was allocated within \
             it; the line is what was held before it. {subtitle}."
        ),
        subtitle,
        timeline,
        layers: layers(device),
        curves: vec![before(curve)],
        device_bytes: None,
        steps: 0,
        across: Some(across(curve)),
        counts: "event",
    }
}

fn subtitle(device: &DeviceReport) -> String {
    let (curve, steps) = (&device.pictures.steps, &device.steps);
    let count = if curve.steps == 1 { "1 step".to_owned() } else { format!("{} steps", Count(curve.steps)) };
    let highest = steps.rows.iter().rev().max_by_key(|step| step.peak_allocated_bytes);
    let highest = highest.map_or_else(String::new, |step| {
        format!(", the highest ({}) reaches {}", named(&step.name, 24), Bytes(step.peak_allocated_bytes))
    });
    let ends = match steps.rows.as_slice() {
        [first, .., last] => {
            let grown = last.end_allocated_bytes.wrapping_sub(first.end_allocated_bytes) as i64;
            format!(
                "; held after the first {}, after the last {} ({})",
                Bytes(first.end_allocated_bytes),
                Bytes(last.end_allocated_bytes),
                SignedBytes(grown)
            )
        }
        _ => String::new(),
    };
    format!("{count}{highest}{ends}")
}

/// A step by its name, which may be a number only.
fn named(name: &str, characters: usize) -> String {
    let name = keep_start(&terminal(name), characters).into_owned();
    if name.chars().all(|character| character.is_ascii_digit()) { format!("step {name}") } else { name }
}

/// A value per sample, from one per column; between two bars there is nothing.
fn sampled(curve: &StepCurve, values: impl Iterator<Item = u64>) -> Vec<u64> {
    if has_gaps(curve) { values.flat_map(|value| [0, value, 0]).collect() } else { values.collect() }
}

/// What each line holds at the ends, and above it what the steps reach.
fn layers(device: &DeviceReport) -> Vec<Layer> {
    let (curve, names) = (&device.pictures.steps, &device.pictures.line_names);
    let lines = curve.bands.len().saturating_sub(2);
    let mut layers = Vec::new();
    for (band, values) in
        curve.bands.iter().enumerate().filter(|(_, values)| values.iter().any(|&bytes| bytes > 0))
    {
        let rank = curve.band_ranks.get(band).map_or(band, |&rank| rank as usize);
        let (name, ink) = match band {
            band if band == lines + 1 => ("no line known", UNKNOWN),
            band if band == lines => ("other lines", OTHER),
            _ => (names.get(rank).map_or("", String::as_str), BANDS.get(rank).copied().unwrap_or(OTHER)),
        };
        let note = Note::bytes(values.last().copied().unwrap_or(0), "after the last step");
        layers.push(Layer {
            name: name.to_owned(),
            note,
            values: sampled(curve, values.iter().copied()),
            ink,
        });
    }
    let above: Vec<u64> = (curve.columns.iter())
        .map(|column| column.peak_allocated_bytes.saturating_sub(column.end_allocated_bytes))
        .collect();
    let most = curve.columns.iter().map(|column| column.peak_allocated_bytes).max().unwrap_or(0);
    layers.push(Layer {
        name: "within the step, up to its peak".to_owned(),
        note: Note::bytes(most, "the highest peak"),
        values: sampled(curve, above.into_iter()),
        ink: ABOVE,
    });
    layers
}

/// What is held before each step, across its bar.
fn before(curve: &StepCurve) -> Curve {
    let values: Vec<u64> = curve.columns.iter().map(|column| column.begin_allocated_bytes).collect();
    let note = Note::bytes(values.last().copied().unwrap_or(0), "before the last step");
    let values = if has_gaps(curve) { values.iter().flat_map(|&value| [value; 3]).collect() } else { values };
    Curve { name: "held before the step".to_owned(), note, values, ink: RESERVED, width: 1 }
}

fn across(curve: &StepCurve) -> Across {
    let count = curve.columns.len() as u64;
    let steps = count.saturating_mul(curve.per_column.max(1));
    let every = label_every(steps);
    let labels = (0..=steps / every)
        .map(|at| at * every)
        .filter(|&step| step < curve.steps)
        .map(|step| {
            let column = step / curve.per_column.max(1);
            (column * WIDTH + WIDTH / 2, Count(step).to_string())
        })
        .collect();
    let name = match curve.per_column {
        0 | 1 => "step, the first is 0".to_owned(),
        several => {
            format!("step, the first is 0; a column stands for {} and shows the highest", Count(several))
        }
    };
    Across { name, labels }
}

/// Steps from one label to the next: 1, 2 or 5 times a power of ten, for about ten labels.
fn label_every(steps: u64) -> u64 {
    let mut power = 1u64;
    loop {
        let fitting = [1, 2, 5].into_iter().map(|factor| power.saturating_mul(factor));
        if let Some(every) = fitting.into_iter().find(|&every| steps / every <= 12) {
            return every;
        }
        power = power.saturating_mul(10);
    }
}

/// Invisible boxes over the columns, for their tooltips: put into the finished picture.
pub(super) fn with_tooltips(svg: &str, picture: &Picture<'_>, curve: &StepCurve) -> String {
    let Some(body) = svg.strip_suffix("</svg>\n") else { return svg.to_owned() };
    let width = f64::from(COLUMNS) / curve.columns.len().max(1) as f64;
    let mut text = String::with_capacity(svg.len() + curve.columns.len() * 200);
    text.push_str(body);
    text.push_str(&format!("<g fill-opacity=\"0\" transform=\"translate({LEFT},{TOP})\">\n"));
    for (at, column) in curve.columns.iter().enumerate() {
        let last = (column.first + curve.per_column.max(1)).min(curve.steps).saturating_sub(1);
        let name = match curve.per_column {
            0 | 1 => named(&column.name, 40),
            _ => format!("steps {} to {}", Count(column.first), Count(last)),
        };
        let title = format!(
            "{name}: peak {}, held before {}, after {} ({})",
            Bytes(column.peak_allocated_bytes),
            Bytes(column.begin_allocated_bytes),
            Bytes(column.end_allocated_bytes),
            SignedBytes(column.growth_bytes)
        );
        text.push_str(&format!(
            "<rect x=\"{:.1}\" width=\"{width:.1}\" height=\"{}\"><title>{}</title></rect>\n",
            at as f64 * width,
            picture.rows(),
            xml(&title)
        ));
    }
    text.push_str("</g>\n</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::pictures::StepColumn;

    #[test]
    fn labels_are_about_ten_and_round() {
        let every: Vec<u64> = [1, 12, 13, 40, 600, 100_000, u64::MAX].map(label_every).to_vec();
        assert_eq!(every[..6], [1, 1, 2, 5, 50, 10_000]);
        assert!(u64::MAX / every[6] <= 12);
    }

    #[test]
    fn bars_have_gaps_until_there_are_too_many() {
        let curve =
            |columns| StepCurve { columns: vec![StepColumn::default(); columns], ..StepCurve::default() };
        assert_eq!(timeline(&curve(2)).x, [0, 1, 7, 8, 9, 15]);
        assert_eq!(timeline(&curve(MOST_BARS + 1)).x[..3], [0, 8, 16]);
        assert_eq!(sampled(&curve(2), [5, 6].into_iter()), [0, 5, 0, 0, 6, 0]);
    }
}
