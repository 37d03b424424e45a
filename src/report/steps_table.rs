//! Steps for people: one sentence, and which of many are worth a row.

use super::types::{StepRow, StepsRow};
use crate::units::{Bytes, Count};

/// So many steps are shown one by one; of more, [`ENDS`] at either end and the one with the highest peak.
const ALL: usize = 8;
const ENDS: usize = 3;

/// What a table of steps shows in a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown<'a> {
    Step(&'a StepRow),
    /// So many are left out here.
    More(u64),
}

/// `60 steps (detected): peak 80.1 MiB to 89.9 MiB, live at a step's end grows by 512.0 KiB a step`.
pub(super) fn sentence(steps: &StepsRow) -> String {
    let rows = &steps.rows;
    let peaks = || rows.iter().map(|step| step.peak_allocated_bytes);
    let (Some(low), Some(high)) = (peaks().min(), peaks().max()) else {
        return "No steps: none are marked or annotated, and the allocations are not periodic".to_owned();
    };
    let steps_word = if rows.len() == 1 { "step" } else { "steps" };
    let mut text = format!("{} {steps_word} ({}): ", Count(rows.len() as u64), steps.source);
    let (low, high) = (Bytes(low).to_string(), Bytes(high).to_string());
    if low == high {
        text.push_str(&format!("peak {high}"));
    } else {
        text.push_str(&format!("peak {low} to {high}"));
    }
    if let Some(growth) = growth_per_step(rows) {
        let tells = match growth {
            0 => "does not grow".to_owned(),
            1.. => format!("grows by {} a step", Bytes(growth.unsigned_abs())),
            _ => format!("falls by {} a step", Bytes(growth.unsigned_abs())),
        };
        text.push_str(&format!(", live at a step's end {tells}"));
    }
    text
}

/// Average over all steps but the first, whose beginning may lie in the setting up.
fn growth_per_step(rows: &[StepRow]) -> Option<i64> {
    let (first, last) = (rows.first()?, rows.last()?);
    let steps = rows.len() as i128 - 1;
    let growth = i128::from(last.end_allocated_bytes) - i128::from(first.end_allocated_bytes);
    (steps > 0).then(|| (growth / steps).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// The steps worth showing, in order.
pub(super) fn telling(rows: &[StepRow]) -> Vec<Shown<'_>> {
    if rows.len() <= ALL {
        return rows.iter().map(Shown::Step).collect();
    }
    let mut highest = 0;
    for (index, step) in rows.iter().enumerate() {
        if step.peak_allocated_bytes > rows[highest].peak_allocated_bytes {
            highest = index;
        }
    }
    let mut shown: Vec<usize> = (0..ENDS).chain([highest]).chain(rows.len() - ENDS..rows.len()).collect();
    shown.sort_unstable();
    shown.dedup();
    let mut table = Vec::new();
    let mut next = 0;
    for index in shown {
        if index > next {
            table.push(Shown::More((index - next) as u64));
        }
        table.push(Shown::Step(&rows[index]));
        next = index + 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(peaks: &[u64], growth: u64) -> StepsRow {
        let row = |(index, &peak): (usize, &u64)| StepRow {
            name: (index + 1).to_string(),
            peak_allocated_bytes: peak << 20,
            end_allocated_bytes: (index as u64 * growth) << 10,
            ..StepRow::default()
        };
        let rows: Vec<_> = peaks.iter().enumerate().map(row).collect();
        StepsRow { source: "detected".to_owned(), count: rows.len() as u64, rows }
    }

    fn names(steps: &StepsRow) -> Vec<String> {
        let shown = telling(&steps.rows);
        let name = |shown: &Shown| match shown {
            Shown::Step(step) => step.name.clone(),
            Shown::More(count) => format!("+{count}"),
        };
        shown.iter().map(name).collect()
    }

    #[test]
    fn the_sentence_tells_the_peaks_and_the_growth() {
        assert_eq!(
            sentence(&steps(&[90, 80, 85], 512)),
            "3 steps (detected): peak 80.0 MiB to 90.0 MiB, live at a step's end grows by 512.0 KiB a step"
        );
        assert_eq!(
            sentence(&steps(&[80, 80], 0)),
            "2 steps (detected): peak 80.0 MiB, live at a step's end does not grow"
        );
        assert_eq!(sentence(&steps(&[80], 0)), "1 step (detected): peak 80.0 MiB");
        assert!(sentence(&StepsRow::default()).contains("not periodic"));
    }

    #[test]
    fn of_many_steps_the_ends_and_the_highest_are_shown() {
        let mut peaks = vec![10; 20];
        peaks[11] = 50;
        assert_eq!(names(&steps(&peaks, 0)), ["1", "2", "3", "+8", "12", "+5", "18", "19", "20"]);
        assert_eq!(names(&steps(&[1; 9], 0)), ["1", "2", "3", "+3", "7", "8", "9"]);
        assert_eq!(names(&steps(&[1; 8], 0)).len(), 8);
    }
}
