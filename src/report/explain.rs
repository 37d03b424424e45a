//! Rules and their pages for the terminal and for programs.
//!
//! Owns the looks; the words are the rules' own (`findings`), so nothing here needs escaping.

use serde::Serialize;

use super::columns::{Align, aligned};
use super::style::Style;
use super::types::SCHEMA;
use super::wrap::wrapped;
use crate::findings::{RULES, Rule, looked_for, parts};

/// The page of `rule`, no wider than `width` columns.
#[must_use]
pub fn explain_text(rule: &Rule, width: usize, style: Style) -> String {
    let mut text = style.bold(wrapped(&format!("{}: {}", rule.name, rule.heading), width));
    for (heading, part) in parts(&rule.guide) {
        text.extend(["\n\n", &style.bold(heading), "\n", &wrapped(part, width)]);
    }
    text.push_str(&format!("\n\n{}\n", style.dim(format!("Looked for {}.", looked_for(rule)))));
    text
}

/// Every rule with one line, no wider than `width` columns where the headings allow it.
#[must_use]
pub fn explain_index(width: usize, style: Style) -> String {
    let rows: Vec<_> = RULES.iter().map(|rule| vec![rule.name.to_owned(), rule.heading.to_owned()]).collect();
    let mut lines = aligned(&[Align::Left, Align::Left], &rows);
    lines.push(String::new());
    lines.push(style.dim(wrapped("`memlab explain RULE` says when a rule fires and what to do.", width)));
    lines.join("\n") + "\n"
}

/// What `memlab explain --json` prints.
#[derive(Serialize)]
struct Explained {
    schema: u32,
    rules: Vec<ExplainedRule>,
}

#[derive(Serialize)]
struct ExplainedRule {
    rule: &'static str,
    heading: &'static str,
    looked_for: &'static str,
    says: &'static str,
    fires: &'static str,
    why: &'static str,
    needs: &'static str,
    is_not: &'static str,
    remedy: &'static str,
}

/// `rules` with all parts of their pages as JSON.
#[must_use]
pub fn explain_json(rules: &[&'static Rule]) -> String {
    let row = |rule: &&'static Rule| ExplainedRule {
        rule: rule.name,
        heading: rule.heading,
        looked_for: looked_for(rule),
        says: rule.guide.says,
        fires: rule.guide.fires,
        why: rule.guide.why,
        needs: rule.guide.needs,
        is_not: rule.guide.is_not,
        remedy: rule.guide.remedy,
    };
    super::pretty(&Explained { schema: SCHEMA, rules: rules.iter().map(row).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Check, Guide};

    static SAMPLE: Rule = Rule {
        name: "sample",
        heading: "A rule made up for this test",
        guide: Guide {
            says: "Something is so.\n\n- Either this, which takes more than one line to say,\n- or that.",
            fires: "When `x` >= 10 %.",
            why: "Because.",
            needs: "Nothing.",
            is_not: "A leak.",
            remedy: "Do it.",
        },
        check: Check::Ranks(|_| Vec::new()),
    };

    #[test]
    fn a_page_is_as_agreed_and_keeps_its_width() {
        let text = explain_text(&SAMPLE, 40, Style::plain());
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        insta::assert_snapshot!("explain_sample", text);
    }

    #[test]
    fn the_index_has_a_line_for_every_rule() {
        let text = explain_index(100, Style::plain());
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), RULES.len() + 1);
        assert!(text.lines().next().unwrap().starts_with("huge-request"));
    }

    #[test]
    fn json_has_all_parts() {
        let value: serde_json::Value = serde_json::from_str(&explain_json(&[&SAMPLE])).unwrap();
        let rule = &value["rules"][0];
        assert_eq!(
            (rule["rule"].as_str(), rule["fires"].as_str()),
            (Some("sample"), Some("When `x` >= 10 %."))
        );
    }
}
