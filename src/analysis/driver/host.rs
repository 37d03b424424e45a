//! Memory of the host that driver calls took or pinned.

use crate::driver::{Figures, Memory, Places, Taking, figures};
use crate::model::NO_DEVICE;
use crate::report::{DriverHostRow, DriverKindRow};

use super::Work;

fn is_of_the_host(taking: &Taking) -> bool {
    taking.memory.is_of_the_host() || taking.memory == Memory::Physical && taking.device == NO_DEVICE
}

impl Work<'_> {
    /// `None` where no memory of the host was taken.
    pub(super) fn host(&self, places: &mut Places<'_>) -> Option<DriverHostRow> {
        let kinds = self.kinds(is_of_the_host);
        if kinds.is_empty() {
            return None;
        }
        let holder = |_: usize, taking: &Taking| {
            is_of_the_host(taking)
                .then(|| self.claims.holders.of_stack(self.claims.layer.rows[taking.row as usize].native))
        };
        // The device's peak says nothing here: rows go by their own.
        let (mut lines, lines_left_out) = self.lines(places, 0, None, holder);
        for row in &mut lines {
            row.at_peak_bytes = 0;
        }
        Some(DriverHostRow { kinds, lines, lines_left_out })
    }

    /// Figures by kind of the takings that are wanted, in the order of the kinds.
    pub(super) fn kinds(&self, is_wanted: impl Fn(&Taking) -> bool) -> Vec<DriverKindRow> {
        let found = figures(&self.claims.takings.all, 0, |taking| is_wanted(taking).then_some(taking.memory));
        let row = |(memory, figures): (Memory, Figures)| DriverKindRow {
            kind: memory.name().to_owned(),
            peak_bytes: figures.own_peak_bytes,
            end_bytes: figures.end_bytes,
            taken: figures.taken,
            given_back: figures.taken - figures.kept,
        };
        found.into_iter().map(row).collect()
    }
}
