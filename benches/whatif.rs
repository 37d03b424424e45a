//! Replays under other settings: events per second for one setting, and the whole answer.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memlab::analysis::{WhatIfOptions, whatif};
use memlab::rebuild::rebuild;
use memlab::simulate::{Conf, Limit, Release, Requests, bounds, replay};

fn replays(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("whatif");
    group.sample_size(10);
    for input in support::inputs() {
        group.throughput(Throughput::Elements(input.events()));
        let device = &input.read.devices[0];
        let requests = Requests::new(&input.read, device, &rebuild(&input.read, device));
        for text in ["", "expandable_segments:True", "max_split_size_mb:64"] {
            let conf = Conf::parse(text, Release::default()).expect("a setting of PyTorch");
            let what = if text.is_empty() { "one setting: defaults" } else { text };
            group.bench_function(BenchmarkId::new(what, &input.name), |bench| {
                bench.iter(|| replay(&requests, &conf, Limit::default()));
            });
        }
        group.bench_function(BenchmarkId::new("bounds", &input.name), |bench| {
            bench.iter(|| bounds(&requests));
        });
        group.bench_function(BenchmarkId::new("the whole answer", &input.name), |bench| {
            bench.iter(|| {
                whatif(&input.name, &input.read, &WhatIfOptions::default()).expect("requests to replay")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, replays);
criterion_main!(benches);
