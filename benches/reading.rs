//! Files to traces and back: events and bytes per second.

mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memlab::format::{self, WriteOptions};
use memlab::import::{self, ReadOptions};

fn read(bytes: &[u8]) -> memlab::model::Trace {
    import::read_bytes(bytes, &ReadOptions::default()).expect("a whole file")
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reading");
    group.sample_size(10);
    for input in support::inputs() {
        let events = Throughput::Elements(input.events());
        let id = |what: &str| BenchmarkId::new(what, &input.name);
        group.throughput(Throughput::Bytes(input.pickle.len() as u64));
        group.bench_function(id("pickle, bytes"), |bench| bench.iter(|| read(&input.pickle)));
        group.throughput(events.clone());
        group.bench_function(id("pickle, events"), |bench| bench.iter(|| read(&input.pickle)));
        group.bench_function(id("trace, events"), |bench| bench.iter(|| read(&input.trace)));
        group.bench_function(id("write trace, events"), |bench| {
            bench.iter(|| {
                let mut out = Vec::with_capacity(input.trace.len());
                format::write(&input.read, &WriteOptions::default(), &mut out)
                    .expect("memory takes every byte");
                out
            });
        });
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
