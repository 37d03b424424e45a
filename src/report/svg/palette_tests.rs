//! Tests of the colours: one each, those of the pages, and apart for every eye.

use super::*;

const TOKENS: &str = include_str!("../assets/tokens.css");

/// Smallest distance (CIE Lab, 1976) of two colours that may touch; 2.3 is what can just be seen.
const APART: f64 = 20.0;
/// Smallest difference in lightness of two layers that lie on each other.
const LIGHTER: f64 = 20.0;

#[test]
fn no_two_roles_share_a_colour() {
    let mut all: Vec<String> = ROLES.iter().chain(&BANDS).map(|ink| hex(ink.colour)).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

/// The value of `--name` in a block of the style sheet; a block that does not say inherits.
fn token(block: &str, name: &str) -> Option<String> {
    let (_, rest) = block.split_once(&format!("--{name}:"))?;
    Some(rest.split(';').next()?.trim().to_uppercase())
}

#[test]
fn the_colours_are_those_of_the_pages_light_and_dark() {
    let (light, rest) = TOKENS.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let (by_system, by_choice) = rest.split_once(":root[data-theme=\"dark\"]").unwrap();
    let shared = [PANEL, TEXT, MUTED, GRID, AXIS, FREE, RESERVED, PEAK, OOM, STEP, OTHER, UNKNOWN];
    for ink in shared.into_iter().chain(BANDS) {
        let said = token(light, ink.class).unwrap_or_else(|| panic!("no --{}", ink.class));
        assert_eq!(said, hex(ink.colour), "{}", ink.class);
        for dark in [by_system, by_choice] {
            let said = token(dark, ink.class).unwrap_or_else(|| said.clone());
            assert_eq!(said, hex(ink.dark), "{} on a dark page", ink.class);
        }
    }
}

type Matrix = [[f64; 3]; 3];

/// How full protanopia, deuteranopia and tritanopia change linear RGB (Machado, Oliveira, Fernandes 2009), after the
/// ordinary eye.
const EYES: [Matrix; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];

fn linear(value: u8) -> f64 {
    let value = f64::from(value) / 255.0;
    if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn dot(row: [f64; 3], rgb: [f64; 3]) -> f64 {
    row.iter().zip(rgb).map(|(weight, value)| weight * value).sum()
}

/// CIE Lab of `colour` as `eye` sees it.
fn lab(colour: RGBColor, eye: &Matrix) -> [f64; 3] {
    let rgb = [colour.0, colour.1, colour.2].map(linear);
    let seen = eye.map(|row| dot(row, rgb).clamp(0.0, 1.0));
    let bend = |t: f64| if t > 216.0 / 24_389.0 { t.cbrt() } else { (24_389.0 / 27.0 * t + 16.0) / 116.0 };
    let x = bend(dot([0.412_456_4, 0.357_576_1, 0.180_437_5], seen) / 0.950_47);
    let y = bend(dot([0.212_672_9, 0.715_152_2, 0.072_175_0], seen));
    let z = bend(dot([0.019_333_9, 0.119_192_0, 0.950_304_1], seen) / 1.088_83);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(a: RGBColor, b: RGBColor, eye: &Matrix) -> f64 {
    let (a, b) = (lab(a, eye), lab(b, eye));
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// In the order of the stack. Layers without a byte are left out, so any two of them may touch.
const CAUSES: [Ink; 7] = [ALLOCATED, ROUNDING, PENDING, STRANDED, OTHER_STREAM, PRIVATE_POOL, RELEASABLE];

#[test]
fn causes_are_told_apart_by_every_eye() {
    for (index, one) in CAUSES.iter().enumerate() {
        for other in &CAUSES[index + 1..] {
            for (which, eye) in EYES.iter().enumerate() {
                for (a, b) in [(one.colour, other.colour), (one.dark, other.dark)] {
                    let apart = distance(a, b, eye);
                    assert!(apart > APART, "{} and {}: {apart:.1} for eye {which}", one.class, other.class);
                }
            }
        }
    }
}

#[test]
fn neighbouring_causes_differ_in_lightness_too() {
    for pair in CAUSES.windows(2) {
        for eye in &EYES {
            let lighter = (lab(pair[0].colour, eye)[0] - lab(pair[1].colour, eye)[0]).abs();
            assert!(lighter > LIGHTER, "{} and {}: {lighter:.1}", pair[0].class, pair[1].class);
        }
    }
}

#[test]
fn neighbouring_bands_are_told_apart_by_every_eye() {
    for pair in BANDS.windows(2) {
        for eye in &EYES {
            for (a, b) in [(pair[0].colour, pair[1].colour), (pair[0].dark, pair[1].dark)] {
                let apart = distance(a, b, eye);
                assert!(apart > APART, "{} and {}: {apart:.1}", pair[0].class, pair[1].class);
            }
        }
    }
}

#[test]
fn everything_is_seen_on_its_panel() {
    for ink in BANDS.iter().chain(&CAUSES).chain(&[OTHER, UNKNOWN]) {
        for eye in &EYES {
            assert!(distance(ink.colour, PANEL.colour, eye) > 12.0, "{} on light", ink.class);
            assert!(distance(ink.dark, PANEL.dark, eye) > APART, "{} on dark", ink.class);
        }
    }
}

#[test]
fn text_on_a_band_has_contrast() {
    let luminance = |colour: RGBColor| dot(EYES_LUMINANCE, [colour.0, colour.1, colour.2].map(linear));
    for ink in BANDS.iter().chain(&[OTHER, LIBRARY]) {
        let text = if takes_light_text(*ink) { 1.0 } else { luminance(TEXT.colour) };
        let (high, low) = (luminance(ink.colour).max(text), luminance(ink.colour).min(text));
        let contrast = (high + 0.05) / (low + 0.05);
        assert!(contrast > 4.0, "{}: {contrast:.2}", ink.class);
    }
}

const EYES_LUMINANCE: [f64; 3] = [0.212_672_9, 0.715_152_2, 0.072_175_0];
