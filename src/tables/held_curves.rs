//! Curves over time for viewers that zoom: the four counters and what chosen groups held, each thinned on its
//! own so that no extreme of it is lost.
//!
//! Owns the thinning. A curve says its value where it changes and keeps it until the next point; of the changes
//! that fall into one column it keeps the first, the last, the lowest and the highest (M4). Memory grows with
//! columns, never with events. Does not own names, nor how a position is written down.

use crate::rebuild::{History, Moment, NONE};

use super::Grouping;
use super::walk::{Tally, Totals, Walk};

/// A value of a curve, kept until the next point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurvePoint {
    /// From when on.
    pub moment: Moment,
    /// Bytes.
    pub bytes: u64,
}

/// Points in order of their moments. The first is at `Moment(0)`; a value never equals the one before it,
/// unless points between the two were left out.
pub type Curve = Vec<CurvePoint>;

/// The curves of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldCurves {
    /// Asked for, over active blocks (PyTorch's counter).
    pub requested: Curve,
    /// Blocks handed out.
    pub allocated: Curve,
    /// Plus blocks whose free waits for another stream.
    pub active: Curve,
    /// Held from the driver.
    pub reserved: Curve,
    /// Allocated bytes of every group asked for, in that order.
    pub groups: Vec<Curve>,
    /// Allocated bytes of all other groups.
    pub other_groups: Curve,
    /// Allocated bytes of what belongs to no group.
    pub no_group: Curve,
}

/// Counters that come before the groups in [`Drawer::values`].
const COUNTERS: usize = 4;

/// The curves of one device: one pass over its events. `shown` are groups of `grouping` that get a curve of
/// their own; at most four points are kept per curve and column. Columns have equally many events: with equal
/// times an idle stretch would take as many points as a busy one, into which a viewer zooms.
#[must_use]
pub fn held_curves(history: &History, grouping: &Grouping, shown: &[u32], columns: usize) -> HeldCurves {
    drawn(history, &grouping.of_allocation, grouping.len(), shown, columns)
}

/// As [`held_curves`], of the four counters alone.
#[must_use]
pub fn counter_curves(history: &History, columns: usize) -> HeldCurves {
    drawn(history, &[], 0, &[], columns)
}

fn drawn(
    history: &History,
    group_of_row: &[u32],
    groups: usize,
    shown: &[u32],
    columns: usize,
) -> HeldCurves {
    let mut drawer = Drawer::new(history, group_of_row, groups, shown, columns);
    Walk::new(history).run(&mut drawer);
    let mut drawn = drawer.pens.into_iter().map(Pen::finish);
    let mut next = || drawn.next().unwrap_or_default();
    let [requested, allocated, active, reserved] = std::array::from_fn(|_| next());
    let groups = shown.iter().map(|_| next()).collect();
    let (other_groups, no_group) = (next(), next());
    HeldCurves { requested, allocated, active, reserved, groups, other_groups, no_group }
}

/// One curve in the making.
#[derive(Clone, Default)]
struct Pen {
    /// First moment behind the current column.
    next_column: Moment,
    now: Option<u64>,
    /// First, lowest, highest and last point of the current column.
    column: Option<[CurvePoint; 4]>,
    kept: Curve,
}

impl Pen {
    #[inline]
    fn draw(&mut self, moment: Moment, width: u64, bytes: u64) {
        if self.now == Some(bytes) {
            return;
        }
        self.now = Some(bytes);
        let point = CurvePoint { moment, bytes };
        match &mut self.column {
            Some([_, lowest, highest, last]) if moment < self.next_column => {
                *last = point;
                if bytes < lowest.bytes {
                    *lowest = point;
                }
                if bytes > highest.bytes {
                    *highest = point;
                }
            }
            _ => {
                self.close();
                self.column = Some([point; 4]);
                self.next_column = Moment((moment.0 / width + 1).saturating_mul(width));
            }
        }
    }

    fn close(&mut self) {
        let Some(mut points) = self.column.take() else { return };
        points.sort_by_key(|point| point.moment);
        for point in points {
            if self.kept.last().is_none_or(|last| last.moment != point.moment) {
                self.kept.push(point);
            }
        }
    }

    fn finish(mut self) -> Curve {
        self.close();
        self.kept
    }
}

struct Drawer<'a> {
    totals: Totals<'a>,
    history: &'a History,
    /// Moments per column.
    width: u64,
    group_of_row: &'a [u32],
    slot_of_group: Vec<usize>,
    /// Requested, allocated, active, reserved; then one per shown group, other groups, no group.
    values: Vec<u64>,
    pens: Vec<Pen>,
}

impl<'a> Drawer<'a> {
    fn new(
        history: &'a History,
        group_of_row: &'a [u32],
        groups: usize,
        shown: &[u32],
        columns: usize,
    ) -> Self {
        let (others, slots) = (COUNTERS + shown.len(), COUNTERS + shown.len() + 2);
        let mut slot_of_group = vec![others; groups];
        for (at, &group) in shown.iter().enumerate() {
            if let Some(slot) = slot_of_group.get_mut(group as usize) {
                *slot = COUNTERS + at;
            }
        }
        Self {
            totals: Totals::new(history),
            history,
            // Wide enough that the end still falls into the last column.
            width: history.events / columns.max(1) as u64 + 1,
            group_of_row,
            slot_of_group,
            values: vec![0; slots],
            pens: vec![Pen::default(); slots],
        }
    }

    #[inline]
    fn held(&mut self, row: usize) -> &mut u64 {
        let group = self.group_of_row.get(row).copied().unwrap_or(NONE);
        let no_group = self.values.len() - 1;
        let slot = self.slot_of_group.get(group as usize).copied().unwrap_or(no_group);
        &mut self.values[slot]
    }
}

impl<'a> Tally<'a> for Drawer<'a> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    #[inline]
    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
        let rows = &self.history.allocations;
        let (requested, bytes) = (rows.requested_bytes[row], rows.block_bytes[row]);
        self.values[0] = self.values[0].saturating_add(requested);
        let held = self.held(row);
        *held = held.saturating_add(bytes);
    }

    #[inline]
    fn free(&mut self, row: usize) {
        self.totals.free(row);
        let bytes = self.history.allocations.block_bytes[row];
        let held = self.held(row);
        *held = held.saturating_sub(bytes);
    }

    #[inline]
    fn complete(&mut self, row: usize) {
        self.totals.complete(row);
        let requested = self.history.allocations.requested_bytes[row];
        self.values[0] = self.values[0].saturating_sub(requested);
    }

    #[inline]
    fn arrive(&mut self, moment: Moment) {
        let usage = self.totals.usage;
        self.values[1..COUNTERS].copy_from_slice(&[
            usage.allocated_bytes,
            usage.active_bytes,
            usage.reserved_bytes,
        ]);
        for (pen, &bytes) in self.pens.iter_mut().zip(&self.values) {
            pen.draw(moment, self.width, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupBy;
    use super::super::walk::samples::{history_of, usage};
    use super::*;
    use crate::model::{Trace, TraceBuilder};

    fn sawtooth(rounds: u64) -> Trace {
        let mut builder = TraceBuilder::new().segment_alloc(0, 1 << 30);
        for round in 0..rounds {
            let size = 512 * (1 + (round * 7919) % 1000);
            builder = builder.at("a.py", round % 3 + 1, "f").alloc(0, size).alloc(1 << 20, 512);
            builder = builder.free(1 << 20, 512).free(0, size);
        }
        builder.build()
    }

    fn drawn(trace: &Trace, shown: &[u32], columns: usize) -> (History, HeldCurves) {
        let (device, history) = history_of(trace);
        let grouping = Grouping::build(trace, &device, &history, GroupBy::Line);
        let curves = held_curves(&history, &grouping, shown, columns);
        (history, curves)
    }

    fn at(curve: &Curve, moment: Moment) -> u64 {
        curve[curve.partition_point(|point| point.moment <= moment) - 1].bytes
    }

    #[test]
    fn wide_enough_a_curve_says_every_value() {
        let (history, curves) = drawn(&sawtooth(5), &[1], 1000);
        for moment in (0..=history.events).map(Moment) {
            let usage = usage(&history, moment);
            assert_eq!(at(&curves.requested, moment), usage.requested_bytes, "{moment:?}");
            assert_eq!(at(&curves.allocated, moment), usage.allocated_bytes, "{moment:?}");
            assert_eq!(at(&curves.active, moment), usage.active_bytes, "{moment:?}");
            assert_eq!(at(&curves.reserved, moment), usage.reserved_bytes, "{moment:?}");
            let groups = at(&curves.groups[0], moment) + at(&curves.other_groups, moment);
            assert_eq!(groups + at(&curves.no_group, moment), usage.allocated_bytes, "{moment:?}");
        }
        assert!(curves.allocated.windows(2).all(|pair| pair[0].bytes != pair[1].bytes));
    }

    #[test]
    fn every_column_of_every_curve_keeps_its_extremes() {
        let (history, thin) = drawn(&sawtooth(300), &[0], 13);
        let (_, full) = drawn(&sawtooth(300), &[0], 1 << 40);
        let width = history.events / 13 + 1;
        assert!(history.events > 1000);
        for (thin, full) in [
            (&thin.allocated, &full.allocated),
            (&thin.requested, &full.requested),
            (&thin.groups[0], &full.groups[0]),
            (&thin.other_groups, &full.other_groups),
        ] {
            assert!(thin.len() <= 13 * 4 && full.len() > 100, "{} of {}", thin.len(), full.len());
            for column in 0..13 {
                let extremes = |curve: &Curve| {
                    let inside = |point: &&CurvePoint| point.moment.0 / width == column;
                    let values = || curve.iter().filter(inside).map(|point| point.bytes);
                    (values().min(), values().max(), values().next(), values().next_back())
                };
                assert_eq!(extremes(thin), extremes(full), "column {column}");
            }
        }
    }

    #[test]
    fn counters_alone_are_those_that_stand_beside_groups() {
        let (history, curves) = drawn(&sawtooth(300), &[0], 13);
        let alone = counter_curves(&history, 13);
        assert_eq!(alone.allocated, alone.no_group, "without a grouping nothing has a group");
        assert_eq!((alone.requested, alone.allocated), (curves.requested, curves.allocated));
        assert_eq!((alone.active, alone.reserved), (curves.active, curves.reserved));
    }

    #[test]
    fn no_events_leave_one_point_each() {
        let (_, curves) = drawn(&Trace::default(), &[], 4000);
        assert_eq!(curves.allocated, [CurvePoint::default()]);
        assert_eq!(curves.no_group, [CurvePoint::default()]);
    }
}
