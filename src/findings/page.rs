//! A rule's page, and the index of all pages, as Markdown.
//!
//! Owns the headings and their order; the words are each rule's own. `docs/findings` holds these texts as files,
//! and `memlab explain` shows the same parts on the terminal.

use super::{Check, Guide, RULES, Rule};

/// The parts of a rule's page in the order in which they are read: heading and text.
#[must_use]
pub fn parts(guide: &Guide) -> [(&'static str, &'static str); 6] {
    [
        ("What it says", guide.says),
        ("When it fires", guide.fires),
        ("Why these thresholds", guide.why),
        ("What a recording must hold for it", guide.needs),
        ("What it does not mean", guide.is_not),
        ("What to do", guide.remedy),
    ]
}

/// The page of `rule`: the content of `docs/findings/RULE.md`.
#[must_use]
pub fn page(rule: &Rule) -> String {
    let mut page = format!("# `{}`: {}\n", rule.name, rule.heading);
    for (heading, text) in parts(&rule.guide) {
        page.push_str(&format!("\n## {heading}\n\n{}\n", text.trim()));
    }
    page.push_str(&format!(
        "\n---\n\nLooked for {}. `memlab explain {}` prints this page. [All rules](README.md).\n",
        looked_for(rule),
        rule.name
    ));
    page
}

/// The index of all pages: the content of `docs/findings/README.md`.
#[must_use]
pub fn index() -> String {
    let mut page = INTRODUCTION.to_owned();
    for rule in RULES {
        page.push_str(&format!(
            "| [`{name}`]({name}.md) | {} | {} |\n",
            rule.heading,
            looked_for(rule),
            name = rule.name
        ));
    }
    page.push_str(FOOTER);
    page
}

const INTRODUCTION: &str = "\
# Findings

A finding is a rule that fired on a recording: one sentence with figures, the lines concerned, the evidence, and what to do about it. `memlab analyze` lists them, errors first; `memlab check --fail-on RULE` makes a
gate of one. `error` means that memory ran out or certainly leaks, `warning` that it is wasted or endangered, `info` that it is worth knowing.

| rule | what it says | looked for |
| --- | --- | --- |
";

const FOOTER: &str = "
These pages are generated from the rules' own texts: `MEMLAB_UPDATE_DOCS=1 cargo test --test it docs` writes them anew.
";

/// What the rule is handed at a time.
#[must_use]
pub fn looked_for(rule: &Rule) -> &'static str {
    match rule.check {
        Check::Device(_) => "on each device",
        Check::Trace(_) | Check::Calls(_) => "over the devices of one file",
        Check::Ranks(_) => "over the files of one call",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_every_part_under_its_heading_once() {
        for rule in RULES {
            let page = page(rule);
            assert!(page.starts_with(&format!("# `{}`: ", rule.name)) && page.ends_with(").\n"));
            for (heading, text) in parts(&rule.guide) {
                assert_eq!(
                    page.matches(&format!("\n## {heading}\n\n{}", text.trim())).count(),
                    1,
                    "{heading}"
                );
            }
        }
    }

    #[test]
    fn the_index_has_every_rule_in_the_order_of_the_contract() {
        let index = index();
        let places: Vec<_> = RULES.iter().map(|rule| index.find(&format!("({}.md)", rule.name))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted());
    }

    #[test]
    fn every_page_is_written() {
        for rule in RULES {
            assert!(!rule.heading.is_empty(), "{}", rule.name);
            for (heading, text) in parts(&rule.guide) {
                let sentence = text.trim().ends_with(['.', '`', ':', '|', ')']) && text.trim().len() >= 20;
                assert!(sentence && !text.contains("TODO"), "{}: {heading}: {text}", rule.name);
            }
        }
    }
}
