//! Several messages in one log.

use memlab::findings::message::scan;

use super::rows::{assert_figures, rows};
use super::texts::{all_texts, size, with_figures};
use crate::inputs::Seeded;

#[test]
fn several_messages_stay_several() {
    let texts = all_texts();
    let log = texts.iter().map(|text| format!("epoch 1\n{}\n", text.raised())).collect::<Vec<_>>().concat();
    let found = rows(&log);
    assert_eq!(found.len(), texts.len());
    for (row, text) in found.iter().zip(&texts) {
        assert_eq!((row.variant, row.count), (text.variant, 1));
        assert_figures(row, &text.values, false, &text.body);
        let line = log[..row.offset as usize].matches('\n').count() as u64 + 1;
        assert_eq!(row.line, line);
        assert!(log[row.offset as usize..].starts_with(row.text.split(' ').next().unwrap()), "{row:?}");
    }
}

#[test]
fn a_repeat_is_counted_and_another_rank_is_no_repeat() {
    let text = with_figures(&mut Seeded(29)).remove(5);
    let (raised, first) = (text.raised(), &text.body[..160]);
    let log = format!("ERROR {first}\n{raised}\nDuring handling of the above\n{raised}\n[rank1]: {raised}\n");
    let found = rows(&log);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!((found[0].count, found[0].line, found[0].last_line, found[0].rank), (3, 1, 4, None));
    assert_eq!((found[1].count, found[1].line, found[1].rank), (1, 5, Some(1)));
    assert!(found[0].explanation.contains("3 times"), "{}", found[0].explanation);
    assert_figures(&found[0], &text.values, false, &log);
}

#[test]
fn ranks_that_write_at_once_are_told_apart() {
    let texts = with_figures(&mut Seeded(31));
    let text = &texts[8];
    let other = &with_figures(&mut Seeded(37))[8];
    let raised = [text.raised(), other.raised()];
    let lines = raised[0].lines().zip(raised[1].lines());
    let lines = lines.map(|(one, two)| format!("[rank0]: {one}\n[rank1]: {two}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    let found = rows(&lines);
    assert_eq!(found.len(), 2, "{lines}\n{found:#?}");
    assert_figures(&found[0], &text.values, false, &lines);
    assert_figures(&found[1], &other.values, false, &lines);
}

#[test]
fn endless_messages_are_counted_but_not_all_kept() {
    let line = |step: u64| {
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {} has\n",
            size((step % 1000) << 20),
            step / 1000
        )
    };
    let log = (0..30_000).map(line).collect::<Vec<_>>().concat();
    let found = scan(log.as_bytes());
    assert_eq!((found.messages.len(), found.left_out), (10_000, 20_000));
}
