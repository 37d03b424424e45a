//! Names from a trace are text, wherever they are shown: no markup, no terminal control, no extra rows.

use std::fs;

use memlab::analysis::{self, Options};
use memlab::format::{self, WriteOptions};
use memlab::model::{Action, Trace, TraceBuilder};

use crate::program::run;

const FILE: &str = "/workspace/<script>alert('f')</script>|\u{1b}[31mred\nnext.py";
const FUNCTION: &str =
    "step</text></svg>\"onload=\"x\" `tick` [link](javascript:1) | \u{1b}]0;title\u{7} \u{202e}rtl";
const MARKUP: [&str; 5] = ["<script", "</text></svg>\"", "\u{1b}", "\u{7}", "\u{202e}"];

/// A trace in which every text that can be hostile is, with live memory, fragmentation and an OOM.
pub(crate) fn hostile() -> Trace {
    let base = 0x7f00_0000_0000;
    let mut trace = TraceBuilder::new()
        .at(FILE, 7, FUNCTION)
        .segment_alloc(base, 40 << 20)
        .alloc(base, 12 << 20)
        .alloc(base + (12 << 20), 16 << 20)
        .alloc(base + (28 << 20), 12 << 20)
        .free(base, 12 << 20)
        .at(FILE, u64::MAX, "")
        .free(base + (28 << 20), 12 << 20)
        .oom(30 << 20, 1 << 20)
        .build();
    let name = trace.strings.intern(FUNCTION);
    let note = memlab::model::Annotation {
        name,
        begins: true,
        device: memlab::model::DeviceId(0),
        time_us: 1_000_000,
    };
    trace.annotations = vec![note, memlab::model::Annotation { begins: false, time_us: 1_000_040, ..note }];
    trace.process.writer = Some(FILE.to_owned());
    trace.process.torch_version = Some(FUNCTION.to_owned());
    trace.process.devices = vec![memlab::model::DeviceFacts {
        name: FUNCTION.to_owned(),
        total_bytes: Some(1 << 30),
        ..Default::default()
    }];
    let conf = memlab::model::SettingValue::Text(FILE.to_owned());
    trace.settings.values.insert("PYTORCH_CUDA_ALLOC_CONF".to_owned(), conf);
    let tensor = memlab::model::NamedTensor {
        address: base + (12 << 20),
        bytes: 16 << 20,
        kind: FILE.to_owned(),
        name: FUNCTION.to_owned(),
        dtype: FILE.to_owned(),
        grad_fn: FUNCTION.to_owned(),
        shape: vec![1, 2],
        time_us: 1_000_045,
        ..Default::default()
    };
    trace.holders = vec![memlab::model::Holder {
        address: tensor.address,
        path: FUNCTION.to_owned(),
        time_us: tensor.time_us,
        ..Default::default()
    }];
    trace.tensors = vec![tensor];
    let tag = trace.strings.intern(&format!("memlab:forward:{FUNCTION}"));
    trace.devices[0].events.user_metadata.set(2, tag);
    trace.marks = vec![memlab::model::Mark {
        kind: memlab::model::MarkKind::Fault,
        name: FUNCTION.to_owned(),
        time_us: 1_000_000,
        begins: None,
    }];
    trace.process.other.insert("backend".to_owned(), FUNCTION.into());
    trace.samples = vec![memlab::model::Sample {
        events: Some(4),
        free_bytes: Some(1),
        total_bytes: Some(1 << 30),
        stats: [("reserved_bytes.all.current".into(), 7), (FUNCTION.into(), 7)].into_iter().collect(),
        ..Default::default()
    }];
    let other = trace.strings.intern(FILE);
    let events = &mut trace.devices[0].events;
    let last = events.len() - 2;
    events.actions[last] = Action::Other;
    events.other_actions = vec![(last as u64, other)];
    trace
}

pub(crate) fn assert_harmless(what: &str, text: &str) {
    for markup in MARKUP {
        assert!(!text.contains(markup), "{what} contains {markup:?}:\n{text}");
    }
    for line in text.lines() {
        assert!(!line.starts_with("next.py"), "{what}: a name broke its line:\n{text}");
    }
}

/// Enough of an XML check to notice broken nesting, stray `&` and attributes that end early.
pub(crate) fn assert_well_formed(what: &str, svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        for (at, _) in text.match_indices('&') {
            let end = text[at..].find(';').unwrap_or_else(|| panic!("{what}: stray & in {text:?}"));
            assert!(end < 12, "{what}: stray & in {text:?}");
        }
        let end = rest[start..].find('>').unwrap_or_else(|| panic!("{what}: tag without end")) + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{what}: quotes in <{tag}>");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{what}: </{name}>");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{what}: {open:?} never end");
}

#[test]
fn hostile_names_are_text_in_every_report_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, out) = (folder.path().join("trace.msgpack"), folder.path().join("report"));
    let mut file = fs::File::create(&path).expect("a writable folder");
    format::write(&hostile(), &WriteOptions::default(), &mut file).expect("a writable file");
    let done = run(&["analyze", &path.to_string_lossy(), "-o", &out.to_string_lossy()]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_harmless("stdout", &done.stdout);
    assert_harmless("stderr", &done.stderr);
    let read =
        |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let markdown = read("report.md");
    assert_harmless("report.md", &markdown);
    assert!(markdown.contains("alert('f')"), "the name is still shown:\n{markdown}");
    assert!(!markdown.contains("[link]("), "a name became a link:\n{markdown}");
    assert_table_rows(&markdown);
    for picture in ["timeline.svg", "fragmentation.svg", "segments.svg", "flamegraph.svg"] {
        let svg = read(picture);
        assert_harmless(picture, &svg);
        assert_well_formed(picture, &svg);
    }
    assert_harmless_page(&read("report.html"));
    // JSON is data: it carries the name as it was recorded.
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(report["traces"][0]["devices"][0]["lines"][0]["file"], FILE);
    assert_eq!(report["traces"][0]["devices"][0]["lines"][0]["function"], FUNCTION);
}

/// In front of the page's own script there is no other, and no name has opened or closed an element.
fn assert_harmless_page(page: &str) {
    let (text, _) = page.split_once("<script").expect("the page has a script");
    assert_harmless("report.html", text);
    let main = text.split("<main>").nth(1).and_then(|rest| rest.split("</main>").next());
    let main = main.expect("the script stands behind the text");
    assert_well_formed("report.html", main);
    assert!(main.contains("&lt;script&gt;alert("), "the name is still shown:\n{main}");
    assert!(!main.contains("javascript:1\"") && !text.contains(" style="));
}

#[test]
fn hostile_names_are_text_in_a_page_however_lines_are_grouped() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, page) = (folder.path().join("trace.msgpack"), folder.path().join("page.html"));
    let mut file = fs::File::create(&path).expect("a writable folder");
    format::write(&hostile(), &WriteOptions::default(), &mut file).expect("a writable file");
    for key in ["stack", "function", "module", "file"] {
        let (path, out) = (path.to_string_lossy(), page.to_string_lossy());
        let done = run(&[
            "report",
            &path,
            "-o",
            &out,
            "--force",
            "--group-by",
            key,
            "--source",
            &folder.path().to_string_lossy(),
        ]);
        assert_eq!(done.code, Some(0), "{key}: {}", done.stderr);
        assert_harmless_page(&fs::read_to_string(&page).expect("a page"));
    }
}

/// Rows of a Markdown table all have as many cells as its head.
fn assert_table_rows(markdown: &str) {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut head = None;
    for line in markdown.lines() {
        if line.starts_with('|') {
            assert_eq!(cells(line), *head.get_or_insert(cells(line)), "a name added a cell: {line}");
        } else {
            head = None;
        }
    }
}

#[test]
fn hostile_names_are_text_on_the_terminal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.msgpack");
    let mut file = fs::File::create(&path).expect("a writable folder");
    format::write(&hostile(), &WriteOptions::default(), &mut file).expect("a writable file");
    let path = path.to_string_lossy();
    let calls: [&[&str]; 6] = [
        &["analyze", &path],
        &["lines", &path],
        &["lines", &path, "--group-by", "stack"],
        &["lines", &path, "--group-by", "module"],
        &["info", &path],
        &["summary", &path],
    ];
    for call in calls {
        let done = run(call);
        assert_eq!(done.code, Some(0), "{call:?}: {}", done.stderr);
        let text = done.stdout + &done.stderr;
        let printable = text.chars().all(|c| c == '\n' || !c.is_control());
        assert!(printable, "{call:?}: a control character reaches the terminal:\n{text:?}");
        assert!(!text.contains('\u{202e}'), "{call:?}: text direction is changed:\n{text:?}");
    }
}

#[test]
fn a_hostile_path_is_text_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("evil\u{1b}[2J<script>.pickle");
    fs::write(&path, b"not a trace").expect("a writable folder");
    let done = run(&["analyze", &path.to_string_lossy()]);
    assert_eq!(done.code, Some(2));
    assert!(!done.stderr.contains('\u{1b}'), "{:?}", done.stderr);
}

#[test]
fn json_of_a_hostile_trace_is_one_object() {
    let report = analysis::analyze("x", &hostile(), &Options::default()).expect("a report");
    let text = serde_json::to_string(&report).expect("JSON");
    assert!(!text.contains('\u{1b}'), "JSON escapes control characters");
}
