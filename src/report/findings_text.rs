//! Findings in the terminal summary: what is serious has a line as far as there is room, the rest is named.

use super::escape::{keep_start, terminal};
use super::style::Style;
use super::told;
use super::types::FindingRow;
use super::wrap::broken;

/// Lines that a finding may take where there is room for all.
const MOST_LINES: usize = 2;

/// `findings`, most serious first, on at most `room` lines (at least one) of `columns` columns.
pub(super) fn findings_lines(
    findings: &[&FindingRow],
    room: usize,
    columns: usize,
    style: Style,
) -> Vec<String> {
    if findings.is_empty() {
        return Vec::new();
    }
    let room = room.max(1);
    let serious = findings.iter().take_while(|finding| told::is_serious(finding)).count();
    // What is only worth knowing is named: the lines below it are worth more. One by itself is told.
    let told_alone = if findings.len() == 1 { 1 } else { serious };
    let alone = if told_alone == findings.len() && told_alone <= room {
        told_alone
    } else {
        told_alone.min(room - 1)
    };
    let rest = by_name(&findings[alone..], alone, columns);
    let width = findings[..alone].iter().map(|finding| finding.severity.len()).max().unwrap_or(0);
    let whole = |limit: usize| -> Vec<Vec<String>> {
        findings[..alone].iter().map(|finding| told_in(finding, width, limit, columns)).collect()
    };
    let lines_of =
        |told: &[Vec<String>]| told.iter().map(Vec::len).sum::<usize>() + usize::from(rest.is_some());
    let told = Some(whole(MOST_LINES)).filter(|told| lines_of(told) <= room).unwrap_or_else(|| whole(1));
    let painted = |(lines, finding): (Vec<String>, &&FindingRow)| {
        lines.into_iter().map(|line| painted(&line, finding, style)).collect::<Vec<_>>()
    };
    told.into_iter().zip(findings).flat_map(painted).chain(rest).collect()
}

/// One finding on at most `limit` lines; `width` is that of the longest severity.
fn told_in(finding: &FindingRow, width: usize, limit: usize, columns: usize) -> Vec<String> {
    let title = terminal(&finding.title);
    let text = format!("{:width$}  {}: {title}", finding.severity, terminal(&finding.rule));
    broken(&text, limit, columns, width + 2)
}

fn painted(line: &str, finding: &FindingRow, style: Style) -> String {
    match finding.severity {
        "error" => style.bad(line),
        "warning" => style.warn(line),
        _ => line.to_owned(),
    }
}

/// The findings without a line of their own; several of one rule are counted.
fn by_name(findings: &[&FindingRow], before: usize, columns: usize) -> Option<String> {
    let worst = findings.first()?.severity;
    let mut names: Vec<(String, u64)> = Vec::new();
    for finding in findings {
        match names.iter_mut().find(|(name, _)| *name == finding.rule) {
            Some((_, count)) => *count += 1,
            None => names.push((finding.rule.clone(), 1)),
        }
    }
    let name = |(name, count): &(String, u64)| match count {
        1 => terminal(name).into_owned(),
        count => format!("{} ({count})", terminal(name)),
    };
    let named: Vec<String> = names.iter().map(name).collect();
    let lead = if before > 0 && worst == "info" { "info" } else { "also found:" };
    Some(keep_start(&format!("{lead}  {}", named.join(", ")), columns).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &str, severity: &'static str) -> FindingRow {
        FindingRow {
            rule: rule.to_owned(),
            severity,
            title: "Something is so".to_owned(),
            bytes: 5 << 20,
            device: 0,
            lines: Vec::new(),
            evidence: serde_json::Map::new(),
            remedy: String::new(),
        }
    }

    fn lines(findings: &[FindingRow], room: usize) -> Vec<String> {
        findings_lines(&findings.iter().collect::<Vec<_>>(), room, 100, Style::plain())
    }

    #[test]
    fn the_serious_have_a_line_while_there_is_room() {
        let findings = [finding("growth", "error"), finding("rounding-waste", "info")];
        assert_eq!(lines(&findings, 2), ["error  growth: Something is so", "info  rounding-waste"]);
        assert_eq!(lines(&findings[1..], 2), ["info  rounding-waste: Something is so"]);
        assert!(lines(&[], 5).is_empty());
    }

    #[test]
    fn ten_are_all_named_on_few_lines() {
        let mut findings: Vec<_> = ["growth", "capacity"].map(|rule| finding(rule, "error")).into();
        findings.extend(["idle-cache", "idle-cache", "pending-free"].map(|rule| finding(rule, "warning")));
        findings.extend(["a", "b", "c", "d", "e"].map(|rule| finding(rule, "info")));
        let six = lines(&findings, 6);
        assert_eq!((six.len(), six[5].as_str()), (6, "info  a, b, c, d, e"));
        let three = lines(&findings, 3);
        assert_eq!(three[2], "also found:  idle-cache (2), pending-free, a, b, c, d, e");
        assert_eq!(
            lines(&findings, 0),
            ["also found:  growth, capacity, idle-cache (2), pending-free, a, b, c, d, e"]
        );
    }

    #[test]
    fn a_long_title_takes_a_second_line_where_there_is_room() {
        let long = FindingRow { title: "word ".repeat(30), ..finding("growth", "error") };
        let two = lines(std::slice::from_ref(&long), 2);
        assert!(two.len() == 2 && two[1].starts_with("       word") && !two[1].ends_with('…'), "{two:?}");
        let one = lines(&[long.clone(), long], 3);
        assert!(one.len() == 2 && one[0].ends_with('…'), "{one:?}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let findings = vec![FindingRow { title: "word ".repeat(90), ..finding("growth", "error") }; 40];
        assert!(lines(&findings, 9).iter().all(|line| line.chars().count() <= 100));
    }
}
