//! Every generation of the message, through everything that logs do to a single one.

use proptest::prelude::*;

use super::rows::{assert_figures, only, rows};
use super::texts::{Text, all_texts, cut_to_width, prefixed, with_figures, wrapped};
use super::verdicts::message;
use crate::inputs::Seeded;

fn assert_read(text: &Text, log: &str) {
    let row = only(log);
    assert_eq!(row.variant, text.variant, "{log}");
    assert_figures(&row, &text.values, false, log);
    if !text.values.list().iter().all(Option::is_none) {
        assert_eq!(row.device, text.values.device, "{log}");
    }
    let others: Vec<_> = row.processes.iter().map(|process| process.process).collect();
    assert_eq!(others, text.others.iter().map(|(number, _)| *number).collect::<Vec<_>>(), "{log}");
    assert!(row.cut_off.is_empty() || text.values.requested.is_none(), "{log}\n{row:?}");
}

#[test]
fn every_variant_is_read() {
    for text in all_texts() {
        assert_read(&text, &text.raised());
        assert_read(
            &text,
            &format!("step 7\nTraceback (most recent call last):\n{}\n\nbye\n", text.raised()),
        );
        let row = only(&text.raised());
        assert_eq!(row.class.as_deref(), Some(text.class).filter(|class| *class != "x"));
        assert!(!row.explanation.is_empty() && !row.remedy.is_empty());
    }
}

#[test]
fn every_line_may_carry_a_prefix() {
    for text in all_texts() {
        for prefix in [
            "[rank2]: ",
            "(RayWorkerVllm pid=1756) ",
            "[1,2]<stderr>:",
            "[default2]:",
            "2: ",
            "\x1b[36m[rank2]\x1b[0m: ",
            "> ",
        ] {
            let log = prefixed(&format!("Traceback:\n{}\nbye", text.raised()), |_| prefix.to_owned());
            assert_read(&text, &log);
            if prefix.contains("rank2")
                || prefix.contains("2]<")
                || prefix.contains("default2")
                || prefix == "2: "
            {
                assert_eq!(only(&log).rank, Some(2), "{log}");
            }
        }
        let log = prefixed(&text.raised(), |line| {
            format!("2024-06-17T13:18:{:02}.371622Z ERROR shard-manager: ", line + 10)
        });
        assert_read(&text, &log);
        assert_eq!(only(&log).rank, None);
    }
}

#[test]
fn lines_may_break_at_blanks() {
    let texts = with_figures(&mut Seeded(11));
    for text in &texts {
        for width in (24..160).step_by(7) {
            let log = wrapped(&text.raised(), width);
            assert_read(text, &log);
            assert_read(text, &prefixed(&log, |_| "[rank2]: ".to_owned()));
            assert_read(
                text,
                &prefixed(&log, |line| {
                    format!("2024-06-17 13:18:{:02},{:03} ERROR [w1] ", line % 60, line * 37 % 1000)
                }),
            );
            assert_read(text, &log.replace('\n', "\r\n"));
            assert_read(text, &log.replace('\n', "\n    "));
        }
    }
}

#[test]
fn lines_may_break_anywhere() {
    let texts = with_figures(&mut Seeded(13));
    for text in &texts {
        for width in (40..160).step_by(3) {
            let log = cut_to_width(&text.raised(), width);
            assert_read(text, &log);
            assert_read(text, &prefixed(&log, |_| "[rank2]: ".to_owned()));
        }
    }
}

#[test]
fn a_message_may_be_quoted() {
    for text in all_texts() {
        let raised = text.raised();
        let repr = raised.replace('\\', "\\\\").replace('\n', "\\n").replace('\'', "\\'");
        assert_read(&text, &format!("Caught RuntimeError('Original Traceback:\\n{repr}\\n') in replica 0\n"));
        assert_read(
            &text,
            &format!("ray::W.run() (pid=1)\n  RuntimeError(\"{}\")\n", raised.replace('\n', "\\n")),
        );
        let once = serde_json::json!({ "level": "error", "msg": format!("Traceback:\n{raised}\n"), "n": 3 })
            .to_string();
        let twice = serde_json::json!({ "log": once, "stream": "stderr" }).to_string();
        assert_read(&text, &once);
        assert_read(&text, &twice);
        assert_read(&text, &format!("{{\"a\": 1}}\n{twice}\n{{\"b\": 2}}\n"));
    }
}

#[test]
fn numbers_may_be_coloured() {
    for text in with_figures(&mut Seeded(17)) {
        let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        let colour =
            |word: &str| if is_number(word) { format!("\x1b[1;36m{word}\x1b[0m") } else { word.to_owned() };
        let coloured = text.raised().split(' ').map(colour).collect::<Vec<_>>().join(" ");
        assert_read(&text, &coloured);
        assert_read(&text, &format!("\x1b[31m{}\x1b[0m", text.raised()));
    }
}

#[test]
fn bytes_that_are_no_text_do_no_harm() {
    for text in with_figures(&mut Seeded(19)) {
        let mut log = b"\xff\xfe\x00\x80 garbage\n\xf0\x28 [rank1]: ".to_vec();
        log.splice(0..1, []);
        log.extend_from_slice(text.raised().as_bytes());
        log.extend_from_slice(b" \xc3\x28\n");
        let rows = rows(&log);
        assert_eq!((rows.len(), rows[0].variant), (1, text.variant));
        assert_figures(&rows[0], &text.values, false, &text.body);
    }
}

#[test]
fn what_is_cut_off_is_missing_and_never_wrong() {
    let followers = [
        "\n",
        "...",
        "\n[rank1]: Traceback\n",
        "\"}\n",
        "\nTried 5 times\n",
        "\nCUDA out of memory. Tried to allocate 1.00 MiB. GPU 9 has a total capacity of 2.00 MiB of which 3.00 MiB is free.",
    ];
    for text in with_figures(&mut Seeded(23)) {
        let raised = text.raised();
        for end in 0..raised.len() {
            for follower in ["", followers[end % followers.len()]] {
                let log = format!("{}{follower}", &raised[..end]);
                let found = rows(&log);
                let own =
                    found.iter().filter(|row| row.device != Some(9) || row.total_bytes != Some(2 << 20));
                for row in own {
                    assert_figures(row, &text.values, true, &log);
                    assert!(row.device.is_none() || row.device == text.values.device, "{log}\n{row:?}");
                    for (row, (number, held)) in row.processes.iter().zip(&text.others) {
                        assert_eq!(row.process, *number, "{log}");
                        assert!(
                            row.held_bytes.is_some_and(|read| read.abs_diff(*held) <= 5_368_710),
                            "{log}"
                        );
                    }
                    let fits =
                        row.variants.contains(&text.variant) || text.variant == "V2" && row.variant == "V3";
                    assert!(fits, "{log}\n{:?}", row.variants);
                    if row.requested_bytes.is_none() {
                        assert!(row.cut_off.contains(&"requested"), "{log}");
                        assert_eq!(row.verdict, "unknown", "{log}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_figures_come_back_within_the_rounding(seed in any::<u64>()) {
        for text in with_figures(&mut Seeded(seed)) {
            assert_read(&text, &text.raised());
        }
    }

    #[test]
    fn nothing_in_a_log_makes_it_fail(log in proptest::collection::vec(any::<u8>(), 0..400), seed in any::<u64>(), cut in any::<usize>()) {
        let texts = with_figures(&mut Seeded(seed));
        let text = &texts[cut % texts.len()];
        let mut bytes = text.raised().into_bytes();
        let at = cut % bytes.len();
        bytes.splice(at..at, log.iter().copied());
        let _ = rows(&bytes);
        let _ = rows(&log);
    }
}

#[test]
fn the_device_of_2_2_is_a_byte() {
    let text = message("1.00 GiB", "2.00 GiB", "0 bytes", "", "1.00 GiB", "0 bytes");
    for (printed, device) in [
        ("GPU \u{1} has", Some(1)),
        ("GPU \u{0} has", Some(0)),
        ("GPU \\u0003 has", Some(3)),
        ("GPU  has", None),
    ] {
        let row = only(&text.replace("GPU 0 has", printed));
        assert_eq!((row.device, row.total_bytes), (device, Some(2 << 30)), "{printed:?}");
    }
}

#[test]
fn no_answer_is_no_figure() {
    let middle = "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. ";
    let row = only(&message("20.00 MiB", "23.99 GiB", "7.20 GiB", middle, "14.51 GiB", "685.18 MiB"));
    assert_eq!((row.process_bytes, row.verdict), (None, "driver-refused"));
    assert_eq!(row.no_answer, ["process"]);
    let unlimited = with_figures(&mut Seeded(41)).remove(8);
    let limit = unlimited.body.rsplit(": ").next().unwrap().to_owned();
    let row = only(&unlimited.body.replace(&limit, "17179869184.00 GiB"));
    assert_eq!((row.allowed_bytes, row.no_answer.as_slice()), (None, &["allowed"][..]));
}

#[test]
fn what_only_looks_like_it_is_none() {
    for log in [
        "[ 1234.5] Out of memory: Killed process 1234 (python) total-vm:1kB",
        "RuntimeError: MPS backend out of memory (MPS allocated: 8.00 GB, max allowed: 9.07 GB). Tried to allocate 512.00 MB on private pool.",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1073741824 bytes. Error code 12 (Cannot allocate memory)",
        "    raise torch.cuda.OutOfMemoryError(\"CUDA out of memory.\")",
        "    if \"CUDA out of memory\" in str(error):",
        "    raise RuntimeError(\"CUDA error: out of memory\")",
        "WARNING: CUDA out of memory with batch=16. Reducing to 8.",
        "    print(f\"CUDA out of memory. Tried to allocate {asked} MiB. GPU 0 has\")",
        "srun: error: nid002680: task 0: Out Of Memory",
        "self.assertTrue(x) INTERNAL ASSERT FAILED at \"../aten/src/ATen/native/Foo.cpp\":7",
        "MALLOC_FAILED: something else",
        "Process 7 has 3.00 GiB memory in use. 5.00 GiB allowed",
    ] {
        assert_eq!(rows(log).len(), 0, "{log}\n{:#?}", rows(log));
    }
}
