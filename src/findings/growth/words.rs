//! What is said about a leak.

use serde_json::{Value, json};

use crate::findings::holders::HeldBy;
use crate::findings::{LineBytes, Scene};
use crate::units::Count;

use super::Leak;

/// How many leaks, and holders, are named in the evidence.
const MOST_NAMED: usize = 8;

/// Who keeps what: the first line, and how many more there are.
pub(in crate::findings) fn subject(lines: &[LineBytes], what: &str) -> String {
    match lines {
        [] => format!("allocations without a known line keep {what}"),
        [line] => format!("{} keeps {what}", line.label()),
        [line, _] => format!("{} and one more line keep {what}", line.label()),
        [line, rest @ ..] => {
            format!("{} and {} more lines keep {what}", line.label(), Count(rest.len() as u64))
        }
    }
}

/// `1 block of every step`, `1 block of every 2nd step`, `4 blocks of every 5 steps`.
pub(in crate::findings) fn blocks_in_words(leaks: &[Leak]) -> String {
    let round = leaks.first().map_or(0, |leak| leak.rhythm.round.len());
    let blocks: u32 = leaks.iter().flat_map(|leak| &leak.rhythm.round).sum();
    let noun = if blocks == 1 { "block" } else { "blocks" };
    if round == 0 || leaks.iter().any(|leak| leak.rhythm.round.len() != round) {
        let all: usize = leaks.iter().map(|leak| leak.rows.len()).sum();
        return format!("{} blocks", Count(all as u64));
    }
    match (round, blocks) {
        (1, _) => format!("{blocks} {noun} of every step"),
        (2, 1) => String::from("1 block of every 2nd step"),
        (3, 1) => String::from("1 block of every 3rd step"),
        (steps, 1) => format!("1 block of every {steps}th step"),
        (steps, _) => format!("{blocks} {noun} of every {steps} steps"),
    }
}

/// Blocks per step, on the average.
pub(in crate::findings) fn blocks_per_step(leak: &Leak) -> f64 {
    let round = &leak.rhythm.round;
    match round.len() {
        0 => leak.rows.len() as f64 / leak.steps.last().map_or(1, |last| last + 1 - leak.rhythm.start) as f64,
        steps => f64::from(round.iter().sum::<u32>()) / steps as f64,
    }
}

/// The largest leaks one by one, for the evidence.
pub(in crate::findings) fn named(scene: &Scene<'_>, leaks: &[Leak]) -> Vec<Value> {
    let mut order: Vec<&Leak> = leaks.iter().collect();
    order.sort_by_key(|leak| std::cmp::Reverse(leak.bytes(scene)));
    let row = |leak: &Leak| {
        let line = leak.rows.first().and_then(|&row| scene.line_of(row, 0)).map(|line| line.label());
        json!({
            "line": line,
            "bytes": leak.bytes(scene),
            "blocks": leak.rows.len(),
            "blocks_per_step": whole_or_not(blocks_per_step(leak)),
            "first_step": leak.rhythm.start,
            "p_value": leak.probability,
        })
    };
    order.into_iter().take(MOST_NAMED).map(row).collect()
}

/// Holders for the evidence.
pub(in crate::findings) fn holders(held: &[HeldBy]) -> Vec<Value> {
    let row = |held: &HeldBy| json!({ "path": held.path, "blocks": held.blocks, "bytes": held.bytes });
    held.iter().take(MOST_NAMED).map(row).collect()
}

/// A whole number as such: 1, not 1.0.
pub(in crate::findings) fn whole_or_not(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

/// What to do about blocks that are kept.
pub(in crate::findings) fn kept_remedy(held: Option<&HeldBy>, looks_like_a_graph: bool) -> String {
    match held {
        Some(held) if held.path.starts_with("autograd graph of ") => format!(
            "The blocks are held by the {}: keep `.item()` or `.detach()` of it, so that its graph is freed with \
             the step.",
            held.path
        ),
        Some(held) if held.path.contains("reference cycle") => format!(
            "The blocks are held by a {}: break the cycle or use a weak reference, or call gc.collect() from time \
             to time.",
            held.path
        ),
        Some(held) => format!(
            "The blocks are held by {}: drop or bound what is stored there, or move it to the host with `.cpu()`.",
            held.path
        ),
        None if looks_like_a_graph => "Several blocks of every step's forward pass are kept, as by a loss or a \
            state that is stored with its graph: keep `.item()` or `.detach()` of it. `memlab run` records who \
            holds it."
            .to_owned(),
        None => "Find what stores the result of this line beyond the step: a list, dict or attribute that only \
            grows, a hook, a closure, a loss kept with its graph. Drop it with the step, bound it, or move it to \
            the host with `.cpu()`. `memlab run` records who holds it."
            .to_owned(),
    }
}

/// What to do about a block that grows.
pub(in crate::findings) const RISING_REMEDY: &str = "What is gathered over the steps is copied into a larger \
    tensor each time: move each step's part to the host (`.cpu()`, `eval_accumulation_steps`), or allocate the \
    whole once and fill it in.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::growth::Rhythm;

    fn leak(round: &[u32]) -> Leak {
        let rhythm = Rhythm { start: 0, round: round.to_vec(), is_constant: true };
        Leak { origin: 0, rows: vec![0; 7], steps: vec![0; 7], rhythm, released: 0, probability: 0.0 }
    }

    #[test]
    fn rounds_are_told_in_words() {
        let told =
            |rounds: &[&[u32]]| blocks_in_words(&rounds.iter().map(|round| leak(round)).collect::<Vec<_>>());
        assert_eq!(told(&[&[1]]), "1 block of every step");
        assert_eq!(told(&[&[4], &[7]]), "11 blocks of every step");
        assert_eq!(told(&[&[0, 1]]), "1 block of every 2nd step");
        assert_eq!(told(&[&[0, 1, 0, 2]]), "3 blocks of every 4 steps");
        assert_eq!(told(&[&[1], &[0, 1]]), "14 blocks");
        assert_eq!(told(&[&[]]), "7 blocks");
    }
}
