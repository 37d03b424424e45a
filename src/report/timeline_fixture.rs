//! Timelines for tests, as `analysis` would sample them: a training run of 40 steps, one that fails, one
//! without times, and the densest that the sampling can give.

use super::types::{ByCause, Timeline, TimelineMark};

const MIB: u64 = 1 << 20;
const NAMES: [&str; 8] = [
    "model/build.py:12 __init__",
    "optim/adamw.py:57 init_state",
    "train.py:100 step",
    "model/attention/block.py:141 scaled_dot_product",
    "model/block.py:43 forward",
    "train.py:61 loss",
    "other lines (214)",
    "no line known",
];

/// A seeded generator, so that every run of the tests sees the same wobble.
struct Wobble(u64);

impl Wobble {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Collects samples.
struct Recorder {
    timeline: Timeline,
    now: u64,
    reserved: u64,
}

impl Recorder {
    fn new() -> Self {
        let names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
        let timeline = Timeline {
            x_is_time: true,
            bands: vec![Vec::new(); names.len()],
            band_names: names,
            events_per_sample: 3,
            ..Timeline::default()
        };
        Self { timeline, now: 0, reserved: 0 }
    }

    fn sample(&mut self, mib: &[u64; 8], pending_mib: u64) {
        let allocated = mib.iter().sum::<u64>() * MIB;
        let active = allocated + pending_mib * MIB;
        self.reserved = self.reserved.max(active.div_ceil(20 * MIB) * 20 * MIB);
        let free = self.reserved - active;
        for (band, &value) in self.timeline.bands.iter_mut().zip(mib) {
            band.push(value * MIB);
        }
        let timeline = &mut self.timeline;
        timeline.x.push(self.now);
        timeline.allocated.push(allocated);
        timeline.active.push(active);
        timeline.reserved.push(self.reserved);
        timeline.by_cause.push(ByCause {
            rounding_bytes: allocated / 64,
            pending_free_bytes: pending_mib * MIB,
            split_remainder_bytes: free / 3,
            releasable_cache_bytes: free - free / 3,
            ..ByCause::default()
        });
        timeline.x_end = self.now;
    }

    fn mark(&mut self, kind: &'static str, label: String) {
        self.timeline.marks.push(TimelineMark { x: self.now, kind, label });
    }

    /// Marks the highest allocated total.
    fn mark_peak(&mut self) {
        let timeline = &mut self.timeline;
        let peak = timeline.allocated.iter().copied().max().unwrap_or(0);
        let at = timeline.allocated.iter().position(|&value| value == peak).unwrap_or(0);
        let label = format!("peak {}", crate::units::Bytes(peak));
        timeline.marks.push(TimelineMark { x: timeline.x[at], kind: "peak", label });
    }
}

/// Forward grows the activations, backward frees them, the first step adds optimizer state, every tenth
/// step an evaluation runs; `leak` MiB stay behind in each step.
fn run(steps: u64, leak: u64) -> Recorder {
    let mut recorder = Recorder::new();
    let mut wobble = Wobble(7);
    let mut mib = [0; 8];
    for _ in 0..10 {
        mib[0] += 6;
        recorder.sample(&mib, 0);
        recorder.now += 9_000;
    }
    for step in 0..steps {
        recorder.mark("step", format!("step {step}"));
        let depth = if step % 10 == 9 { 4 } else { 12 };
        for layer in 0..depth {
            mib[3] += 3 + wobble.next(2);
            mib[4] += 2;
            mib[6] = 3 + wobble.next(4);
            mib[7] = layer / 3;
            recorder.sample(&mib, 0);
            recorder.now += 1_500 + wobble.next(900);
        }
        mib[5] = 18;
        recorder.sample(&mib, 0);
        recorder.now += 2_000;
        mib[5] = 4 + leak * step;
        for _ in 0..depth {
            mib[3] = mib[3].saturating_sub(3 + wobble.next(3));
            mib[4] = mib[4].saturating_sub(2);
            mib[2] = (mib[2] + 4).min(40);
            mib[7] = 6 + wobble.next(4);
            recorder.sample(&mib, wobble.next(8));
            recorder.now += 2_500 + wobble.next(900);
        }
        (mib[1], mib[2], mib[3], mib[4], mib[7]) = (48, 8, 0, 0, 1);
        recorder.sample(&mib, 0);
        recorder.now += 6_000;
    }
    recorder
}

/// 40 steps that end well.
pub(super) fn training_run() -> Timeline {
    let mut recorder = run(40, 0);
    recorder.mark_peak();
    recorder.timeline
}

/// 23 steps with growth, then an OOM.
pub(super) fn failed_run() -> Timeline {
    let mut recorder = run(23, 14);
    recorder.mark_peak();
    recorder.mark("oom", "OOM: 400.0 MiB asked".to_owned());
    recorder.timeline
}

/// The same as [`training_run`], by events.
pub(super) fn without_times() -> Timeline {
    let mut timeline = training_run();
    timeline.x_is_time = false;
    timeline.x = (0..timeline.x.len() as u64).map(|index| index * 3).collect();
    timeline.x_end = timeline.x.len() as u64 * 3;
    for mark in &mut timeline.marks {
        mark.x = mark.x / 700 % timeline.x_end;
    }
    timeline
}

/// A million events at the limit of the sampling: five samples in each of 1,000 columns, every band moving
/// as far as it can at every sample.
pub(super) fn densest(bands: usize) -> Timeline {
    let mut wobble = Wobble(11);
    let samples = 5_000;
    let mut timeline = Timeline {
        x_is_time: true,
        x: (0..samples).map(|n| n * 200 + wobble.next(150)).collect(),
        x_end: 1_000_000,
        events_per_sample: 200,
        band_names: (0..bands).map(|n| format!("{}/{n}.py:{n} f", "folder".repeat(40))).collect(),
        bands: vec![Vec::new(); bands],
        ..Timeline::default()
    };
    for sample in 0..samples {
        let mut total = 0;
        for band in &mut timeline.bands {
            let value = wobble.next(80_000 * MIB / bands as u64) * (sample % 2);
            total += value;
            band.push(value);
        }
        timeline.allocated.push(total);
        timeline.active.push(total + wobble.next(MIB));
        let reserved = total + wobble.next(9_000 * MIB);
        let free = reserved.saturating_sub(timeline.active[sample as usize]);
        timeline.reserved.push(reserved);
        timeline.by_cause.push(ByCause {
            pending_free_bytes: timeline.active[sample as usize] - total,
            split_remainder_bytes: free / 4,
            other_stream_bytes: free / 4,
            private_pool_bytes: free / 4,
            releasable_cache_bytes: free - 3 * (free / 4),
            ..ByCause::default()
        });
    }
    for n in 0..4_000 {
        timeline.marks.push(TimelineMark { x: n * 250, kind: "step", label: format!("step {n}") });
        timeline.marks.push(TimelineMark { x: n * 250, kind: "oom", label: format!("OOM {n}") });
    }
    timeline
}
