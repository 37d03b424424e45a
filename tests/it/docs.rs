//! The documentation tells the truth: its links lead somewhere, and it explains every key that JSON has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use memlab::findings;
use serde_json::Value;

use crate::inputs::analyzed;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    let mut pages =
        vec![root().join("README.md"), root().join("testdata/README.md"), root().join("benches/README.md")];
    for folder in ["docs", "docs/findings"] {
        let entries = fs::read_dir(root().join(folder)).expect("there is such a folder");
        pages.extend(entries.map(|entry| entry.expect("a readable folder").path()));
    }
    pages.retain(|page| page.extension() == Some("md".as_ref()));
    pages
}

/// Headings become anchors as GitHub makes them: lower case, no punctuation, hyphens for blanks.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let headings = markdown.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let text: String =
                line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect();
            text.replace(' ', "-")
        })
        .collect()
}

fn links(markdown: &str) -> Vec<&str> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains('\n')).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a readable page");
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            let headings = || anchors(&fs::read_to_string(&target).unwrap_or_default());
            if !target.exists() || !anchor.is_empty() && !headings().contains(anchor) {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

fn collect_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                keys.insert(key.clone());
                // Evidence is each rule's own.
                if key != "evidence" {
                    collect_keys(value, keys);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_keys(value, keys)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_report_is_explained() {
    let page = fs::read_to_string(root().join("docs/reading-a-report.md")).expect("the page is there");
    let mut keys = BTreeSet::new();
    for (folder, name) in [("torch", "cnn"), ("torch", "oom"), ("torch", "ring"), ("cases", "C07_comb_50MiB")]
    {
        let report = serde_json::to_value(&analyzed(folder, name).report).expect("a report is JSON");
        collect_keys(&report, &mut keys);
    }
    let recorded =
        memlab::analysis::analyze("x", &crate::recorded::failed(), &memlab::analysis::Options::default());
    collect_keys(&serde_json::to_value(recorded.expect("a report")).expect("a report is JSON"), &mut keys);
    let missing: Vec<_> = keys.into_iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/reading-a-report.md does not explain {missing:?}");
}

#[test]
fn the_pages_of_the_findings_are_what_the_rules_say() {
    let folder = root().join("docs/findings");
    let mut expected: Vec<(String, String)> =
        findings::RULES.iter().map(|rule| (format!("{}.md", rule.name), findings::page(rule))).collect();
    expected.push(("README.md".to_owned(), findings::index()));
    if std::env::var_os("MEMLAB_UPDATE_DOCS").is_some() {
        for (name, text) in &expected {
            fs::write(folder.join(name), text).expect("the checkout can be written to");
        }
    }
    let known: BTreeSet<_> = expected.iter().map(|(name, _)| name.clone()).collect();
    for entry in fs::read_dir(&folder).expect("there is such a folder") {
        let name = entry.expect("a readable folder").file_name().to_string_lossy().into_owned();
        assert!(known.contains(&name), "docs/findings/{name} is no rule's page");
    }
    for (name, text) in expected {
        let found = fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(
            found == text,
            "docs/findings/{name} is not what the rule says: run with MEMLAB_UPDATE_DOCS=1"
        );
    }
}

#[test]
fn the_page_of_the_tables_is_what_their_schemas_say() {
    let path = root().join("docs/tables.md");
    let page = memlab::tables::tables_page();
    if std::env::var_os("MEMLAB_UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("the checkout can be written to");
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "docs/tables.md is not what the schemas say: run with MEMLAB_UPDATE_DOCS=1");
}

#[test]
fn every_test_input_has_its_origin_written_down() {
    let page = fs::read_to_string(root().join("testdata/README.md")).expect("the page is there");
    for entry in fs::read_dir(root().join("testdata")).expect("there is a folder of inputs") {
        let folder = entry.expect("a readable folder");
        let name = folder.file_name().to_string_lossy().into_owned();
        if !folder.path().is_dir() {
            continue;
        }
        assert!(page.contains(&format!("`{name}/`")), "testdata/README.md does not name {name}/");
        // The cases are numbered, and the pickles are named after their protocol.
        if !["torch", "gpu", "faults", "public"].contains(&name.as_str()) {
            continue;
        }
        for path in crate::inputs::recordings(&name) {
            let file = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            let stem = file.split(".pickle").next().unwrap_or(&file);
            assert!(page.contains(&format!("`{stem}`")), "testdata/README.md does not name {name}/{stem}");
        }
    }
}

#[test]
fn no_page_names_a_machine() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a readable page");
        for folder in ["work", "root", "farm"] {
            assert!(!text.contains(&format!("/{folder}/")), "{} names /{folder}/", page.display());
        }
    }
}
