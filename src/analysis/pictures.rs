//! What only pictures show, in the report's words.
//!
//! Owns ranks: a line's place in the table of lines, which is its colour in every picture. States, stacks and steps
//! are `tables`' and `rebuild`'s; looks are `report`'s.

use crate::model::{Action, BlockState, DeviceTrace, SegmentKind, Trace};
use crate::rebuild::{History, Moment, NONE, State, StateBlock, StateSegment};
use crate::report::{
    FlameBox, FlameGraph, FlameKind, MapBlock, MapSegment, MapState, SegmentMap, StepColumn, StepCurve,
};
use crate::tables::{self, FlameExtent, FlameNode, FlamePart, GroupKey, Grouping, StepTable, TimelineExtent};
use crate::units::Count;

/// Columns of a picture of steps: what can be told apart.
const STEP_COLUMNS: usize = 590;

/// Lines by rank.
pub(super) struct Ranks<'a> {
    trace: &'a Trace,
    grouping: &'a Grouping,
    /// Groups by rank.
    order: &'a [u32],
    /// Rank of every group; [`NONE`] for one that is not in the table.
    of_group: Vec<u32>,
}

impl<'a> Ranks<'a> {
    /// `order` lists groups as the table of lines does.
    pub(super) fn new(trace: &'a Trace, grouping: &'a Grouping, order: &'a [u32]) -> Self {
        let mut of_group = vec![NONE; grouping.len()];
        for (rank, &group) in (0..).zip(order) {
            if let Some(slot) = of_group.get_mut(group as usize) {
                *slot = rank;
            }
        }
        Self { trace, grouping, order, of_group }
    }

    /// Names by rank.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |&group: &u32| self.grouping.keys.get(group as usize).map(|key| key.label(self.trace));
        self.order.iter().map(|group| name(group).unwrap_or_default()).collect()
    }

    fn of(&self, group: u32) -> Option<u32> {
        self.of_group.get(group as usize).copied().filter(|&rank| rank != NONE)
    }

    /// The allocator's `state` at `moment`.
    pub(super) fn segments(&self, state: &State, moment: Moment) -> SegmentMap {
        SegmentMap {
            event: moment.event(),
            segments: state.segments.iter().map(|segment| self.segment(segment)).collect(),
            ..SegmentMap::default()
        }
    }

    fn segment(&self, segment: &StateSegment) -> MapSegment {
        MapSegment {
            address: segment.address,
            bytes: segment.bytes,
            stream: segment.stream,
            pool: (segment.pool.0, segment.pool.1),
            is_small: segment.kind == SegmentKind::Small,
            is_expandable: segment.is_expandable,
            blocks: segment.blocks.iter().map(|block| self.block(block)).collect(),
        }
    }

    fn block(&self, block: &StateBlock) -> MapBlock {
        let group = self.grouping.of_allocation.get(block.allocation as usize);
        MapBlock {
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            state: match block.state {
                BlockState::ActiveAllocated => MapState::InUse,
                BlockState::ActivePendingFree => MapState::Pending,
                BlockState::Inactive => MapState::Free,
            },
            rank: group.and_then(|&group| self.of(group)),
        }
    }

    /// What is allocated at `moment`, by stack.
    pub(super) fn flame(&self, device: &DeviceTrace, history: &History, moment: Moment) -> FlameGraph {
        let extent = FlameExtent::default();
        let flame = tables::flame(self.trace, device, history, self.grouping, moment, extent);
        FlameGraph {
            event: moment.event(),
            total_bytes: flame.total_bytes,
            is_folded: flame.is_folded,
            least_bytes: flame.least_bytes,
            boxes: flame.nodes.iter().map(|node| self.flame_box(node)).collect(),
        }
    }

    fn flame_box(&self, node: &FlameNode) -> FlameBox {
        let kind = match node.part {
            FlamePart::Frame(_) if node.group != NONE => FlameKind::Line(self.of(node.group)),
            FlamePart::Frame(_) => FlameKind::Library,
            _ => FlameKind::Folded,
        };
        FlameBox {
            level: node.level,
            begin_bytes: node.begin_bytes,
            bytes: node.bytes,
            allocations: node.allocations,
            label: self.label(node),
            kind,
        }
    }

    fn label(&self, node: &FlameNode) -> String {
        let frames = match node.frames {
            (fewest, most) if fewest < most => format!("{} to {}", Count(fewest.into()), Count(most.into())),
            (_, most) => Count(most.into()).to_string(),
        };
        match node.part {
            FlamePart::Frame(id) => GroupKey::of_frame(self.trace, id).label(self.trace),
            FlamePart::Library => format!("… {frames} library frames"),
            FlamePart::Native => format!("… {frames} native frames"),
            FlamePart::Backward => "backward pass (autograd engine)".to_owned(),
            FlamePart::NoStack => "no stack recorded".to_owned(),
            FlamePart::Deeper => format!("… {frames} frames deeper"),
            FlamePart::Smaller(boxes) => format!("… {} smaller", Count(boxes)),
        }
    }

    /// The steps, with what each line holds at their ends.
    pub(super) fn steps(&self, history: &History, steps: &StepTable) -> StepCurve {
        let bands = TimelineExtent::default().bands.min(self.order.len());
        let curve = tables::step_curve(history, self.grouping, self.order, steps, bands, STEP_COLUMNS);
        let column = |column: &tables::StepColumn| StepColumn {
            name: steps.rows.get(column.first).map(|step| step.name.clone()).unwrap_or_default(),
            first: column.first as u64,
            begin_allocated_bytes: column.begin_bytes,
            peak_allocated_bytes: column.peak_bytes,
            end_allocated_bytes: column.end_bytes,
            growth_bytes: column.growth_bytes,
        };
        StepCurve {
            steps: steps.rows.len() as u64,
            per_column: curve.per_column as u64,
            columns: curve.columns.iter().map(column).collect(),
            band_ranks: (0..bands as u32).collect(),
            bands: curve.bands,
        }
    }
}

/// The bytes that the last event before `moment` obtained from the driver: they are free until the next event.
pub(super) fn just_obtained(device: &DeviceTrace, moment: Moment) -> Option<u64> {
    let event = moment.event()? as usize;
    let action = *device.events.actions.get(event)?;
    let bytes = device.events.sizes.get(event).copied()?;
    matches!(action, Action::SegmentAlloc | Action::SegmentMap).then_some(bytes)
}
