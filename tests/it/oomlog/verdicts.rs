//! Posted and recorded messages get the right verdict, and a remedy that fits.

use std::fs;

use serde_json::Value;

use super::rows::only;
use crate::inputs::testdata;

/// `CUDA out of memory` of 2.2 to 2.4, from the pieces that the cases give.
pub(crate) fn message(
    request: &str,
    total: &str,
    free: &str,
    middle: &str,
    allocated: &str,
    unallocated: &str,
) -> String {
    format!(
        "CUDA out of memory. Tried to allocate {request}. GPU 0 has a total capacity of {total} of which {free} is free. {middle}Of the allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn posted_messages_get_the_right_verdict() {
    let process = "Process 562167 has 15.25 GiB memory in use. ";
    let cases = [
        (
            "C01",
            message(
                "35.60 GiB",
                "79.33 GiB",
                "26.16 GiB",
                "Process 1 has 53.16 GiB memory in use. ",
                "11.97 GiB",
                "40.69 GiB",
            ),
            "fragmentation",
            Some("high"),
            "66.85 GiB",
        ),
        (
            "C06",
            message("960.00 MiB", "23.99 GiB", "15.52 GiB", "", "6.78 GiB", "76.36 MiB"),
            "driver-refused",
            Some("high"),
            "15.52 GiB",
        ),
        (
            "C06",
            message("20.00 MiB", "4.00 GiB", "2.35 GiB", "", "825.15 MiB", "24.85 MiB"),
            "driver-refused",
            Some("high"),
            "between 1 and 10 MiB",
        ),
        (
            "C08",
            message(
                "12.00 GiB",
                "47.54 GiB",
                "11.00 GiB",
                "Process 445260 has 36.53 GiB memory in use. ",
                "23.57 GiB",
                "12.12 GiB",
            ),
            "fragmentation",
            Some("high"),
            "23.12 GiB",
        ),
        (
            "C09",
            message("384.00 MiB", "19.53 GiB", "329.87 MiB", "", "18.40 GiB", "402.27 MiB"),
            "near-capacity",
            Some("high"),
            "54.13 MiB",
        ),
        (
            "C11",
            message(
                "86.00 MiB",
                "79.14 GiB",
                "74.75 MiB",
                "Including non-PyTorch memory, this process has 79.06 GiB memory in use. ",
                "77.59 GiB",
                "818.67 MiB",
            ),
            "near-capacity",
            Some("high"),
            "1.0 %",
        ),
        (
            "C12",
            message("546.00 MiB", "15.77 GiB", "514.19 MiB", process, "13.73 GiB", "736.86 MiB"),
            "fragmentation",
            Some("low"),
            "5.0 %",
        ),
        (
            "C12",
            message("158.00 MiB", "23.69 GiB", "115.69 MiB", "", "22.14 GiB", "910.35 MiB"),
            "fragmentation",
            Some("low"),
            "3.9 %",
        ),
        (
            "C49",
            message("2.00 MiB", "47.53 GiB", "896.00 KiB", "", "47.00 GiB", "149.10 MiB").replace(
                "PyTorch, and",
                "PyTorch, with 46.22 GiB allocated in private pools (e.g., CUDA Graphs), and",
            ),
            "near-capacity",
            Some("high"),
            "46.22 GiB of what counts as allocated are free blocks of private pools",
        ),
        (
            "huge",
            message("130206.04 GiB", "15.77 GiB", "14.00 GiB", "", "1.00 GiB", "1.00 MiB"),
            "huge-request",
            Some("high"),
            "can never fit",
        ),
        (
            "other process",
            message(
                "20.00 MiB",
                "31.36 GiB",
                "2.62 MiB",
                "Process 81034 has 30.57 GiB memory in use. Including non-PyTorch memory, this process has 784.00 MiB memory in use. ",
                "179.69 MiB",
                "12.31 MiB",
            ),
            "outside-allocator",
            Some("high"),
            "30.57 GiB in other processes",
        ),
        (
            "spilt",
            message("1.00 GiB", "11.99 GiB", "0 bytes", "", "23.95 GiB", "100.00 MiB"),
            "capacity",
            Some("high"),
            "PyTorch holds more than the device has",
        ),
    ];
    for (case, log, verdict, confidence, words) in cases {
        let row = only(&log);
        assert_eq!((row.verdict, row.confidence), (verdict, confidence), "{case}: {row:#?}");
        assert!(row.explanation.contains(words), "{case}: {}", row.explanation);
    }
}

#[test]
fn old_messages_get_the_right_verdict() {
    let c14 = only(
        "RuntimeError: CUDA out of memory. Tried to allocate 381.50 MiB (GPU 1; 7.92 GiB total capacity; 7.16 GiB already allocated; 231.00 MiB free; 452.50 KiB cached)",
    );
    assert_eq!((c14.variant, c14.verdict, c14.device), ("V1", "capacity", Some(1)));
    assert_eq!(c14.unallocated_bytes, Some(463_360));
    let c57 = only(
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 31.72 GiB total capacity; 24.89 GiB already allocated; 100.00 MiB free; 30.70 GiB reserved in total by PyTorch)",
    );
    assert_eq!((c57.variant, c57.verdict), ("V2", "fragmentation"));
    assert_eq!(
        c57.unallocated_bytes,
        c57.reserved_bytes.zip(c57.allocated_bytes).map(|(all, used)| all - used)
    );
    assert!(
        c57.remedy.contains("max_split_size_mb") && !c57.remedy.contains("expandable_segments"),
        "{}",
        c57.remedy
    );
}

#[test]
fn recorded_messages_get_the_right_verdict() {
    for (file, verdict) in [
        ("gpu/capacity_oom", "memory-cap"),
        ("gpu/kept_by_exception", "memory-cap"),
        ("gpu/fragmentation_oom", "fragmentation"),
        ("torch/oom", "memory-cap"),
    ] {
        let text = fs::read_to_string(testdata(&format!("{file}.json"))).unwrap();
        let values: Value = serde_json::from_str(&text).unwrap();
        let row = only(values["oom_message"].as_str().unwrap());
        assert_eq!((row.variant, row.verdict), ("V6", verdict), "{file}: {row:#?}");
        assert!(row.allowed_bytes.is_some() && row.process_bytes.is_some());
        // The whole file is a log, too.
        assert_eq!(only(&text).verdict, verdict);
    }
}

#[test]
fn what_lies_outside_is_split_up() {
    let middle = "Process 81034 has 20.00 GiB memory in use. Including non-PyTorch memory, this process has 10.00 GiB memory in use. ";
    let row = only(&message("2.00 GiB", "31.50 GiB", "1.00 GiB", middle, "8.00 GiB", "512.00 MiB"));
    assert_eq!(row.verdict, "outside-allocator");
    assert_eq!(row.outside_bytes, Some(22 << 30));
    assert_eq!(row.outside_in_process_bytes, Some(3 << 29));
    assert!(row.remedy.contains("Process 81034 holds most of it, 20.00 GiB"), "{}", row.remedy);
    // In a container the own process stands among the numbered ones.
    let own = only(&message(
        "2.00 GiB",
        "31.50 GiB",
        "1.00 GiB",
        "Process 7 has 9.00 GiB memory in use. ",
        "8.00 GiB",
        "512.00 MiB",
    ));
    assert!(own.processes[0].is_this_process);
    assert_eq!((own.process_bytes, own.outside_in_process_bytes), (None, Some(1 << 29)));
}

#[test]
fn remedies_fit_the_version_and_what_is_on() {
    let whole = message("35.60 GiB", "79.33 GiB", "26.16 GiB", "", "11.97 GiB", "40.69 GiB");
    let (body, tip) = whole.split_at(whole.find(" If reserved").unwrap());
    let remedy = |log: String| only(&log).remedy;
    assert!(remedy(whole.clone()).contains("`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`"));
    let newest = tip.replace("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF");
    assert!(remedy(format!("{body}{newest}")).contains("`PYTORCH_ALLOC_CONF=expandable_segments:True`"));
    let silent = only(&format!("torch.OutOfMemoryError: {body}\nbye\n"));
    assert_eq!((silent.variant, silent.expandable_segments), ("V7", Some("on")));
    assert!(!silent.remedy.contains("expandable_segments"), "{}", silent.remedy);
    let set = remedy(format!("+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{whole}\n"));
    assert!(!set.contains("expandable_segments"), "{set}");
    let unsupported =
        remedy(format!("UserWarning: expandable_segments not supported on this platform\n{whole}\n"));
    assert!(unsupported.contains("max_split_size_mb") && !unsupported.contains("expandable_segments:True"));
    let hip = whole.replace("CUDA out", "HIP out").replace("PYTORCH_CUDA", "PYTORCH_HIP");
    assert!(remedy(hip).contains("`PYTORCH_HIP_ALLOC_CONF=expandable_segments:True`"));
    let refused = message("960.00 MiB", "23.99 GiB", "15.52 GiB", "", "6.78 GiB", "76.36 MiB");
    assert!(!remedy(refused).contains("expandable_segments"));
}
