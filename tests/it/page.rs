//! The figures in a page: read back by a decoder of its own, they are the report's and the history's.

mod bytes;
mod decoded;
mod levels;
mod whole;
mod windows;

use memlab::analysis::{self, Options};
use memlab::model::Trace;
use memlab::report::TraceReport;
use memlab::report::html::blob::{Blob, BlobOptions, Budget, blobs};

use crate::inputs::read;

/// The report of `trace` and the blobs of its page.
fn packed(trace: &Trace, budget: u64) -> (TraceReport, Vec<Blob>) {
    packed_apart(trace, budget, budget)
}

/// The same with a budget for the devices that is not that of the page.
fn packed_apart(trace: &Trace, of_devices: u64, budget: u64) -> (TraceReport, Vec<Blob>) {
    let budget = Budget(budget);
    let options = Options { page: Some(Budget(of_devices)), ..Options::default() };
    let analysis =
        analysis::analyze_file("trace", trace, &options).expect("a readable trace can be analyzed");
    let blob_options = BlobOptions { tool: "memlab test", budget };
    let made = blobs(&analysis.report, &analysis.pages, &blob_options);
    (analysis.report, made)
}

/// For people: `MEMLAB_TRACE=FILE MEMLAB_BLOBS=FOLDER cargo test --test it page::blobs_for_people -- --nocapture`
/// writes the blobs of a file as `NAME.b64`; `MEMLAB_BUDGET` sets their bytes.
#[test]
fn blobs_for_people() {
    let (Some(path), Some(folder)) = (std::env::var_os("MEMLAB_TRACE"), std::env::var_os("MEMLAB_BLOBS"))
    else {
        return;
    };
    let budget = std::env::var("MEMLAB_BUDGET").ok().and_then(|text| text.parse().ok());
    let trace = read(path.as_ref());
    let start = std::time::Instant::now();
    let plain = analysis::analyze("trace", &trace, &Options::default()).expect("a report");
    let without = start.elapsed();
    let (_, made) = packed(&trace, budget.unwrap_or(Budget::default().0));
    let with = start.elapsed().saturating_sub(without);
    drop(plain);
    std::fs::create_dir_all(&folder).expect("a folder");
    for blob in &made {
        let path = std::path::Path::new(&folder).join(format!("{}.b64", blob.id));
        std::fs::write(path, &blob.text).expect("a writable folder");
        let header = decoded::Container::of(&blob.text).header;
        let windows: Vec<_> = header["windows"].as_array().into_iter().flatten().collect();
        let spans: Vec<_> = windows.iter().map(|w| (w["from"].clone(), w["to"].clone())).collect();
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "{} {} bytes complete {} kinds {} places {} stacks {} windows {:?} large {} x {} levels {}",
                blob.id,
                blob.text.len(),
                header["complete"],
                header["kinds"]["stack"]["n"],
                header["places"]["region"]["n"],
                header["stacks"]["parent"]["n"],
                spans,
                header["large"]["least_bytes"],
                header["large"]["rows"]["begin"]["n"],
                header["levels"]["cells"],
            );
        }
    }
    #[allow(clippy::print_stderr)]
    {
        eprintln!("analysis {without:?}, with pages {with:?}");
    }
}
