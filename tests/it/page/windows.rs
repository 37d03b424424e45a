//! Recordings that do not fit: what is kept is exact, and what is left out is said.

use memlab::rebuild::{Moment, rebuild};

use super::decoded::{Device, rows};
use super::packed;
use crate::inputs::analyzed;

fn check(name: &'static str, budget: u64) -> Device {
    let trace = &analyzed("torch", name).trace;
    let (_, made) = packed(trace, budget);
    let bytes: usize = made.iter().map(|blob| blob.text.len()).sum();
    assert!(bytes as u64 <= budget, "{name}: {bytes} of {budget}");
    let history = rebuild(trace, &trace.devices[0]);
    let page = Device::of(&made[1].text);
    assert_eq!(page.container.header["complete"], false, "{name}");
    let mut end = None;
    for (from, to, rows) in &page.windows {
        assert!(end.is_none_or(|end| *from > end + 1), "windows are apart");
        end = Some(*to);
        let every = ((to - from) / 30).max(1) as usize;
        for moment in (*from..=*to).step_by(every).chain([*to]) {
            let usage = history.usage_at(Moment(moment));
            let expected = (usage.allocated_bytes, usage.active_bytes, usage.reserved_bytes);
            assert_eq!(page.sums(rows, moment), expected, "{name} at {moment}");
        }
    }
    let left_out = page.container.number("/ranges_left_out");
    assert_eq!(page.ranges.len() as u64 + left_out, history.ranges.len() as u64);
    page
}

#[test]
fn windows_are_exact_and_show_what_matters() {
    for (name, budget) in [("gpt", 24_000), ("oom", 18_000), ("varlen.default", 80_000)] {
        let page = check(name, budget);
        let history = rebuild(&analyzed("torch", name).trace, &analyzed("torch", name).trace.devices[0]);
        let mut wanted = vec![0, history.events, history.peaks.allocated.moment.0];
        wanted.push(history.peaks.reserved.moment.0);
        wanted.extend(history.ooms.last().map(|oom| oom.event + 1));
        for moment in wanted {
            let is_seen = page.windows.iter().any(|(from, to, _)| (from..=to).contains(&&moment));
            assert!(is_seen, "{name}: moment {moment}");
        }
    }
}

#[test]
fn large_allocations_are_there_whenever_they_lived() {
    let page = check("varlen.default", 80_000);
    let trace = &analyzed("torch", "varlen.default").trace;
    let history = rebuild(trace, &trace.devices[0]);
    let least = page.container.number("/large/least_bytes");
    assert!(least.is_power_of_two());
    let large = rows(&page.container, &page.container.header["large"]["rows"]);
    let expected: Vec<u64> =
        history.allocations.block_bytes.iter().copied().filter(|&b| b >= least).collect();
    let found: Vec<u64> = large.iter().map(|row| page.blocks[row.kind]).collect();
    assert_eq!(found, expected);
    assert!(!found.is_empty());
}

#[test]
fn a_tiny_budget_leaves_out_stacks_and_lines_and_says_so() {
    let page = check("gpt_cpp", 20_000);
    assert!(page.container.number("/stacks_left_out") > 0);
    let trace = &analyzed("torch", "gpt_cpp").trace;
    let history = rebuild(trace, &trace.devices[0]);
    let sum: u64 = page.container.column("/stacks/held").iter().sum();
    assert_eq!(sum + page.container.number("/no_stack/held"), history.peaks.allocated.bytes);
    let texts = page.container.texts();
    assert!(texts.iter().any(|text| text.ends_with("stacks left out")));
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let trace = &analyzed("torch", "gpt").trace;
    assert_eq!(packed(trace, 20_000).1, packed(trace, 20_000).1);
    assert_eq!(packed(trace, 2_000_000).1, packed(trace, 2_000_000).1);
}
