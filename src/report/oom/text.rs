//! `memlab oom` on a terminal: a block per message.
//!
//! Owns the layout: where it stands, the verdict, where the device's memory was, why, what to do. Figures
//! stand as the messages print them, with two decimals, so that they can be found again.

use super::GLOSSARY;
use super::types::{MessageRow, OomReport};
use crate::findings::message::Printed;
use crate::report::columns::{Align, aligned};
use crate::report::escape::{keep_end, terminal};
use crate::report::style::Style;
use crate::units::Count;

const COLUMNS: usize = 100;
/// More messages than one wants to scroll through.
const MOST_BLOCKS: usize = 20;

/// The messages as text, ready to print; empty when there are none.
#[must_use]
pub fn oom_text(report: &OomReport, style: Style) -> String {
    let mut blocks: Vec<Vec<String>> =
        report.messages.iter().take(MOST_BLOCKS).map(|message| block(message, style)).collect();
    if blocks.is_empty() {
        return String::new();
    }
    let left_out: u64 = report.logs.iter().fold(0, |sum, log| log.messages_left_out.saturating_add(sum));
    let more = (report.messages.len().saturating_sub(MOST_BLOCKS) as u64).saturating_add(left_out);
    if more > 0 {
        blocks.push(vec![format!("{} more messages; --json lists them.", Count(more))]);
    }
    blocks.push(GLOSSARY.iter().map(|(word, meaning)| style.dim(format!("{word}: {meaning}"))).collect());
    blocks.iter().map(|block| block.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

fn block(message: &MessageRow, style: Style) -> Vec<String> {
    let mut lines = vec![style.bold(place(message)), style.bad(headline(message))];
    lines.extend(sum(message).iter().map(|line| format!("  {line}")));
    lines.extend(paragraph("Why", &message.explanation));
    lines.extend(paragraph("Do", &message.remedy));
    lines
}

/// `train.log:29, rank 3, device 0, 2 times, the last at line 31; V5 (PyTorch 2.2 to 2.4) or V6`.
fn place(message: &MessageRow) -> String {
    let log = if message.log == "-" { "standard input" } else { &message.log };
    let mut place = format!("{}:{}", keep_end(&terminal(log), 60), message.line);
    if let Some(rank) = message.rank {
        place.push_str(&format!(", rank {rank}"));
    }
    if let Some(device) = message.device {
        place.push_str(&format!(", device {device}"));
    }
    if message.count > 1 {
        place.push_str(&format!(", {} times, the last at line {}", Count(message.count), message.last_line));
    }
    let others: Vec<_> = message
        .variants
        .iter()
        .filter(|variant| **variant != message.variant)
        .map(|variant| format!(" or {variant}"))
        .collect();
    format!("{place}; {} ({}){}", message.variant, message.printed_by, others.concat())
}

fn headline(message: &MessageRow) -> String {
    let doubt = if message.confidence == Some("low") { " (low confidence)" } else { "" };
    let verdict = format!("{}{doubt}", message.verdict);
    match (message.requested_bytes, message.free_bytes) {
        (Some(asked), Some(free)) => format!("{verdict}: {} asked, {} free", Printed(asked), Printed(free)),
        (Some(asked), None) => format!("{verdict}: {} asked", Printed(asked)),
        _ => match message.source {
            Some(source) => format!("{verdict}: {source}"),
            None => verdict,
        },
    }
}

/// Where the memory of the device was.
fn sum(message: &MessageRow) -> Vec<String> {
    let Some(total) = message.total_bytes else { return Vec::new() };
    let mut rows = Vec::new();
    let mut row = |depth: usize, name: &str, bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            rows.push(vec![format!("{}{name}", "  ".repeat(depth)), Printed(bytes).to_string()]);
        }
    };
    row(0, "total", Some(total));
    row(1, "free", message.free_bytes);
    let here = message.outside_in_process_bytes.zip(message.reserved_bytes);
    let depth = if let Some((outside, reserved)) = here {
        row(
            1,
            "this process",
            Some(message.process_bytes.unwrap_or_else(|| reserved.saturating_add(outside))),
        );
        2
    } else {
        1
    };
    row(depth, "allocated", message.allocated_bytes);
    row(depth, "unallocated", message.unallocated_bytes);
    match here {
        Some((outside, _)) => {
            row(2, "outside the allocator", Some(outside));
            let rest = message.outside_bytes.map(|all| all.saturating_sub(outside));
            // What rounding alone can make is not worth a row.
            let noise = message.rounding.get("outside_bytes").copied().unwrap_or(0);
            row(1, "others", rest.filter(|rest| *rest > noise));
        }
        None => row(1, "outside, others", message.outside_bytes),
    }
    row(0, "allowed to this process", message.allowed_bytes);
    aligned(&[Align::Left, Align::Right], &rows)
}

/// `Why  sentences`, wrapped, the later lines below the first word.
fn paragraph(name: &str, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = format!("{name:<5}");
    for word in terminal(text).split(' ') {
        let is_empty = line.trim_end().len() <= name.len() && line.len() == 5;
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(std::mem::replace(&mut line, " ".repeat(5)));
            line.push_str(word);
            continue;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{LogRow, SCHEMA};

    fn report(messages: Vec<MessageRow>) -> OomReport {
        let log = LogRow {
            path: "a.log".to_owned(),
            bytes: 1,
            lines: 1,
            messages: messages.len() as u64,
            messages_left_out: 0,
            fault: None,
        };
        OomReport { schema: SCHEMA, messages, logs: vec![log], glossary: GLOSSARY.into_iter().collect() }
    }

    fn fragmented() -> MessageRow {
        MessageRow {
            variant: "V5",
            requested_bytes: Some(38_225_208_934),
            total_bytes: Some(85_179_938_734),
            free_bytes: Some(28_089_086_116),
            allocated_bytes: Some(12_852_689_633),
            reserved_bytes: Some(56_543_244_452),
            unallocated_bytes: Some(43_690_554_819),
            device: Some(0),
            verdict: "fragmentation",
            explanation: "One sentence that is long enough to need a second line on a screen of one hundred columns, and so on. Another."
                .to_owned(),
            remedy: "Do this.".to_owned(),
            confidence: Some("low"),
            outside_bytes: Some(547_608_166),
            outside_in_process_bytes: Some(536_870_912),
            rounding: std::iter::once(("outside_bytes", 16 << 20)).collect(),
            variants: vec!["V5", "V6"],
            printed_by: "PyTorch 2.2 to 2.4",
            log: "runs/\u{1b}[31m.log".to_owned(),
            line: 29,
            count: 2,
            last_line: 31,
            rank: Some(3),
            ..MessageRow::default()
        }
    }

    #[test]
    fn a_block_is_as_agreed() {
        insta::assert_snapshot!("oom_text", oom_text(&report(vec![fragmented()]), Style::plain()));
    }

    #[test]
    fn without_messages_there_is_no_text() {
        assert_eq!(oom_text(&report(Vec::new()), Style::plain()), "");
    }

    #[test]
    fn lines_fit_the_screen_and_many_messages_are_counted() {
        let text = oom_text(&report(vec![fragmented(); 25]), Style::plain());
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("\n5 more messages"), "{text}");
    }
}
