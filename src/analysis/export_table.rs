//! Which tables can be exported, and what they are called.
//!
//! Owns the list; columns are `tables::frames`', how a table is made is `export`'s.

use std::fmt;
use std::str::FromStr;

use crate::tables::{TableSchema, schemas};

/// A table that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The recording, in one row.
    Trace,
    /// One row per allocation: size, life, stack, line, category.
    Allocations,
    /// One row per frame of every stack in use.
    Stacks,
    /// One row per line, and one for what has none.
    Lines,
    /// One row per step.
    Steps,
    /// One row per step and line that did something.
    StepLines,
    /// One row per category.
    Categories,
    /// One row per module and phase.
    Modules,
    /// One row per event: the four counters after it.
    Usage,
    /// One row per range held from the driver.
    Segments,
    /// One row per moment of interest: where reserved bytes are.
    Fragmentation,
    /// One row per line that pins stranded bytes.
    Pins,
    /// One row per stream, pool and kind.
    Pools,
    /// One row per failed request.
    Ooms,
    /// One row per finding.
    Findings,
    /// One row per kind of fault.
    Warnings,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 16] = [
        Self::Trace,
        Self::Allocations,
        Self::Stacks,
        Self::Lines,
        Self::Steps,
        Self::StepLines,
        Self::Categories,
        Self::Modules,
        Self::Usage,
        Self::Segments,
        Self::Fragmentation,
        Self::Pins,
        Self::Pools,
        Self::Ooms,
        Self::Findings,
        Self::Warnings,
    ];

    /// Its name and columns.
    #[must_use]
    pub fn schema(self) -> &'static TableSchema {
        match self {
            Self::Trace => &schemas::TRACE,
            Self::Allocations => &schemas::ALLOCATIONS,
            Self::Stacks => &schemas::STACKS,
            Self::Lines => &schemas::LINES,
            Self::Steps => &schemas::STEPS,
            Self::StepLines => &schemas::STEP_LINES,
            Self::Categories => &schemas::CATEGORIES,
            Self::Modules => &schemas::MODULES,
            Self::Usage => &schemas::USAGE,
            Self::Segments => &schemas::SEGMENTS,
            Self::Fragmentation => &schemas::FRAGMENTATION,
            Self::Pins => &schemas::PINS,
            Self::Pools => &schemas::POOLS,
            Self::Ooms => &schemas::OOMS,
            Self::Findings => &schemas::FINDINGS,
            Self::Warnings => &schemas::WARNINGS,
        }
    }

    /// The word on the command line, and the stem of the file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.schema().name
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Table {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|table| table.name() == text);
        named.ok_or_else(|| format!("`{text}` is no table; use {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_of_the_page_and_know_their_names() {
        assert_eq!(Table::ALL.map(Table::schema), crate::tables::TABLES);
        for table in Table::ALL {
            assert_eq!(table.name().parse::<Table>(), Ok(table));
        }
        assert!("events".parse::<Table>().is_err());
    }
}
