//! `docs/oom-messages.md` tells the truth.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::rows::{only, rows};
use super::texts::{all_texts, with_figures};
use crate::inputs::Seeded;

#[test]
fn the_page_explains_every_variant_and_key() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/oom-messages.md")).unwrap();
    let row = only(&with_figures(&mut Seeded(67)).remove(6).raised());
    let row: BTreeMap<String, Value> = serde_json::from_value(serde_json::to_value(row).unwrap()).unwrap();
    let missing: Vec<_> = row.keys().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/oom-messages.md does not explain {missing:?}");
    for text in all_texts() {
        assert!(page.contains(&format!("| {} |", text.variant)), "{}", text.variant);
    }
}

#[test]
fn the_messages_on_the_page_are_read_as_it_says() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/oom-messages.md")).unwrap();
    let mut seen = 0;
    for part in page.split("\n### ").skip(1) {
        let variant = part.split([' ', ':', '\n']).next().unwrap();
        let example = part.split("```text\n").nth(1).unwrap_or_else(|| panic!("{variant} has no example"));
        for row in rows(example.split("```").next().unwrap()) {
            assert_eq!(row.variant, variant);
            assert!(part.contains(&format!("`{}`", row.verdict)), "{variant}: {}", row.verdict);
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}
