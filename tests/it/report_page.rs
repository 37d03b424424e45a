//! `memlab report`: one page, the same figures as the JSON, and no file read that was not asked for.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::inputs::testdata;
use crate::sandbox::Sandbox;

/// A sandbox with a recording from `testdata/torch`.
fn with(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::copy(testdata("torch").join(name), sandbox.path(name)).unwrap();
    sandbox
}

/// What stands in `attribute` of `text`, every time.
fn attributes<'a>(text: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The part of the page from the table called `kind` to its end.
fn table<'a>(page: &'a str, kind: &str) -> &'a str {
    let begin = format!("data-table=\"{kind}\"");
    let rest = page.split(begin.as_str()).nth(1).unwrap_or_else(|| panic!("no table {kind}"));
    rest.split("</table>").next().unwrap()
}

#[test]
fn the_figures_of_the_page_are_those_of_the_json() {
    let sandbox = with("gpt.pickle.gz");
    let run = sandbox.run(&["report", "gpt.pickle.gz", "-o", "page.html"]).ends_with(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("Wrote page.html ("), "{run:?}");
    let page = sandbox.read("page.html");
    let json = sandbox.run(&["analyze", "gpt.pickle.gz", "--json"]).ends_with(0).json();
    let device = &json["traces"][0]["devices"][0];
    let shown = attributes(table(&page, "counters"), "data-bytes");
    let counters = ["requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"];
    let expected: Vec<String> = ["peak", "initial", "end"]
        .iter()
        .flat_map(|moment| counters.map(|counter| device[*moment][counter].to_string()))
        .collect();
    assert_eq!(shown, expected);
    let lines = device["lines"].as_array().unwrap();
    let rows: Vec<&str> = table(&page, "lines").split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(lines) {
        let keys = [
            "held_at_peak_bytes",
            "own_peak_bytes",
            "active_peak_on_stack_bytes",
            "total_bytes",
            "live_at_end_bytes",
        ];
        // The last row has the remainders behind it.
        let shown = &attributes(row, "data-bytes")[..keys.len()];
        assert_eq!(shown, keys.map(|key| line[key].to_string()), "{row}");
        let label = format!("{}:{}", line["file"].as_str().unwrap(), line["line"]);
        assert!(row.contains(&label), "{label}: {row}");
    }
}

#[test]
fn a_page_without_events_is_small() {
    let sandbox = with("gpt.pickle.gz");
    sandbox.run(&["report", "gpt.pickle.gz", "-q"]).ends_with(0);
    let page = sandbox.read("report.html");
    let blobs: usize =
        page.split("application/octet-stream").skip(1).map(|rest| rest.find("</script>").unwrap_or(0)).sum();
    // Scripts and style sheets are 180 KB of it, the static pictures most of the rest.
    assert!(page.len() - blobs < 500_000, "{}", page.len() - blobs);
}

#[test]
fn the_page_of_analyze_is_the_page_of_report() {
    let sandbox = with("cnn.pickle");
    sandbox.run(&["analyze", "cnn.pickle", "-o", "out", "-q"]).ends_with(0);
    sandbox.run(&["report", "cnn.pickle", "-q"]).ends_with(0);
    assert!(sandbox.read("out/report.html") == sandbox.read("report.html"));
    sandbox.run(&["report", "cnn.pickle", "-o", "again.html", "-q"]).ends_with(0);
    assert!(sandbox.read("again.html") == sandbox.read("report.html"));
}

#[test]
fn a_page_that_is_there_is_replaced_only_by_force() {
    let sandbox = with("cnn.pickle");
    sandbox.put("report.html", "precious");
    let refused = sandbox.run(&["report", "cnn.pickle"]).ends_with(2);
    assert!(refused.stderr.contains("report.html exists already"), "{refused:?}");
    assert_eq!(sandbox.read("report.html"), "precious");
    sandbox.run(&["report", "cnn.pickle", "--force"]).ends_with(0);
    assert!(sandbox.read("report.html").starts_with("<!doctype html>"));
    let nowhere = sandbox.run(&["report", "missing.pickle", "-o", "nowhere/x.html"]).ends_with(2);
    assert!(nowhere.stderr.contains("there is no folder nowhere"), "{nowhere:?}");
    sandbox.run(&["report", "missing.pickle", "-o", "x.html"]).ends_with(2);
    assert!(!sandbox.path("x.html").exists());
}

#[test]
fn options_of_the_analysis_count_and_are_told() {
    let sandbox = with("cnn.pickle");
    sandbox.run(&["report", "cnn.pickle", "-q", "--group-by", "function", "--from", "10"]).ends_with(0);
    let page = sandbox.read("report.html");
    assert!(page.contains("memlab report cnn.pickle --group-by function --from 10"));
    assert!(page.contains("Grouped by function."));
    let bad = sandbox.run(&["report", "cnn.pickle", "--device", "7", "-o", "y.html"]).ends_with(2);
    assert!(bad.stderr.contains("no device 7"), "{bad:?}");
    let empty = sandbox.run(&["report", "cnn.pickle", "--from", "5", "--to", "5"]).ends_with(2);
    assert!(empty.stderr.contains("leaves nothing"), "{empty:?}");
}

/// File and number of the recording's largest line.
fn largest_line(sandbox: &Sandbox, name: &str) -> (String, usize) {
    let json: Value = sandbox.run(&["analyze", name, "--json"]).ends_with(0).json();
    let line = &json["traces"][0]["devices"][0]["lines"][0];
    (line["file"].as_str().unwrap().to_owned(), line["line"].as_u64().unwrap() as usize)
}

#[test]
fn source_text_is_shown_where_it_was_asked_for_and_is_at_hand() {
    let sandbox = with("cnn.pickle");
    let (file, number) = largest_line(&sandbox, "cnn.pickle");
    let name = Path::new(&file).file_name().unwrap().to_str().unwrap();
    let text: Vec<String> = (1..=number + 20).map(|line| format!("line_{line} = '<b>'")).collect();
    std::fs::create_dir(sandbox.path("src")).unwrap();
    sandbox.put(&format!("src/{name}"), &text.join("\n"));
    sandbox.run(&["report", "cnn.pickle", "-q"]).ends_with(0);
    assert!(!sandbox.read("report.html").contains(&format!("line_{number} =")), "nobody asked for it");
    sandbox.run(&["report", "cnn.pickle", "-q", "--force", "--source", "src"]).ends_with(0);
    let page = sandbox.read("report.html");
    assert!(page.contains(&format!("line_{number} = &apos;&lt;b&gt;&apos;</mark>")));
    assert!(page.contains(&format!("line_{} =", number + 3)));
    let shown: BTreeSet<&str> =
        page.split("line_").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert!(shown.len() < text.len(), "only the lines around");
    // The folder that one is in counts unless another is named.
    sandbox.put(name, &text.join("\n"));
    sandbox.run(&["report", "cnn.pickle", "-o", "here.html", "-q", "--source"]).ends_with(0);
    assert!(sandbox.read("here.html").contains(&format!("line_{number} =")));
}

#[test]
#[cfg(unix)]
fn source_text_outside_the_folder_is_not_read() {
    let sandbox = with("cnn.pickle");
    let (file, number) = largest_line(&sandbox, "cnn.pickle");
    let name = Path::new(&file).file_name().unwrap().to_str().unwrap();
    let text = "secret = 1\n".repeat(number + 5);
    std::fs::create_dir(sandbox.path("src")).unwrap();
    sandbox.put(name, &text);
    std::os::unix::fs::symlink(format!("../{name}"), sandbox.path("src").join(name)).unwrap();
    sandbox.run(&["report", "cnn.pickle", "-q", "--source", "src"]).ends_with(0);
    assert!(!sandbox.read("report.html").contains("secret"));
    let refused = sandbox.run(&["report", "cnn.pickle", "--force", "--source", "nowhere"]).ends_with(2);
    assert!(refused.stderr.contains("nowhere is no folder"), "{refused:?}");
}
