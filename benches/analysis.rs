//! Traces to histories and reports: events per second.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memlab::analysis::{self, Options};
use memlab::rebuild::rebuild;

fn analysis_of_traces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("analysis");
    group.sample_size(10);
    for input in support::inputs() {
        group.throughput(Throughput::Elements(input.events()));
        let device = &input.read.devices[0];
        group.bench_function(BenchmarkId::new("rebuild", &input.name), |bench| {
            bench.iter(|| rebuild(&input.read, device));
        });
        for with_pictures in [false, true] {
            let what = if with_pictures { "analyze with pictures" } else { "analyze" };
            let options = Options { with_pictures, ..Options::default() };
            group.bench_function(BenchmarkId::new(what, &input.name), |bench| {
                bench.iter(|| analysis::analyze(&input.name, &input.read, &options).expect("a report"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, analysis_of_traces);
criterion_main!(benches);
