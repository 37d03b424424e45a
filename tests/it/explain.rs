//! `memlab explain`: every rule has a page, and a misspelt one leads to it.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn every_rule_can_be_explained() {
    let sandbox = Sandbox::new();
    let list = sandbox.run(&["explain"]).ends_with(0).stdout;
    for rule in memlab::findings::RULES {
        assert!(list.lines().any(|line| line.starts_with(&format!("{} ", rule.name))), "{}", rule.name);
    }
    let page = sandbox.run(&["explain", "fragmentation"]).ends_with(0).stdout;
    assert!(page.starts_with("fragmentation: ") && page.contains("\nWhat to do\n"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn programs_get_all_parts() {
    let sandbox = Sandbox::new();
    let all: Value = serde_json::from_str(&sandbox.run(&["explain", "--json"]).ends_with(0).stdout).unwrap();
    assert_eq!(all["schema"], 1);
    assert_eq!(all["rules"].as_array().unwrap().len(), 33);
    let one = sandbox.run(&["explain", "growth", "--json"]).ends_with(0).stdout;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((one["rules"][0]["rule"].as_str(), one["rules"][1].as_str()), (Some("growth"), None));
}

#[test]
fn an_unknown_rule_is_refused_with_the_nearest_name() {
    let run = Sandbox::new().run(&["explain", "fragmentaton"]).ends_with(2);
    assert!(run.stdout.is_empty() && run.stderr.contains("'fragmentation'"), "{}", run.stderr);
}
