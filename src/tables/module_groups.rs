//! How modules that the recorder named take part in a grouping.
//!
//! Owns the extra groups of `--group-by module` and the line that stands for a module's backward pass under
//! the groupings by position. A recording without such names is grouped as if this file did not exist.

use std::collections::BTreeSet;

use crate::model::Trace;
use crate::rebuild::NONE;

use super::tags::{ForwardSums, ModuleTags, Tag};
use super::{GroupBy, GroupKey, Phase};

/// The tags of a device and the groups that follow from them.
#[derive(Clone, Debug, Default)]
pub struct ModuleGroups {
    /// What the recorder noted.
    pub tags: ModuleTags,
    /// By module: its own group, under [`GroupBy::Module`]; else empty.
    own: Vec<u32>,
    /// By module: the group of its forward line, or [`NONE`], under groupings by position; else empty.
    forward: Vec<u32>,
    /// By module: its forward line.
    pub forward_lines: Vec<Option<GroupKey>>,
}

impl ModuleGroups {
    /// Joins the modules that `tags` name to the groups `keys`, to which `of_frame` refers; `sums` say which line stands
    /// for each module.
    pub(super) fn join(
        trace: &Trace,
        tags: ModuleTags,
        sums: &ForwardSums,
        by: GroupBy,
        keys: &mut Vec<GroupKey>,
        of_frame: &mut [u32],
    ) -> Self {
        if tags.is_empty() {
            return Self::default();
        }
        let frames = sums.frames(&tags);
        let forward_lines = frames.iter().map(|frame| frame.map(|id| GroupKey::of_frame(trace, id)));
        let mut groups = Self { forward_lines: forward_lines.collect(), ..Self::default() };
        if by == GroupBy::Module {
            groups.own = merge(keys, of_frame, &tags.names);
        } else if by != GroupBy::Stack {
            let group = |id: crate::model::FrameId| of_frame.get(id.0 as usize).copied();
            groups.forward = frames.iter().map(|frame| frame.and_then(group).unwrap_or(NONE)).collect();
        }
        groups.tags = tags;
        groups
    }

    /// The group that the recorder names outright.
    #[inline]
    pub(super) fn stated(&self, tag: Option<Tag>) -> u32 {
        tag.and_then(|tag| self.own.get(tag.module? as usize).copied()).unwrap_or(NONE)
    }

    /// The group of the forward line, for an allocation of the backward pass.
    #[inline]
    pub(super) fn inferred(&self, tag: Option<Tag>) -> u32 {
        let backward = tag.filter(|tag| tag.phase == Phase::Backward);
        backward.and_then(|tag| self.forward.get(tag.module? as usize).copied()).unwrap_or(NONE)
    }
}

/// Adds `names` to the module groups, which stay in order; answers the group of each name.
fn merge(keys: &mut Vec<GroupKey>, of_frame: &mut [u32], names: &[String]) -> Vec<u32> {
    let old: Vec<String> = keys.drain(..).map(|key| key.module.unwrap_or_default()).collect();
    let all: BTreeSet<&str> = old.iter().chain(names).map(String::as_str).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let place = |name: &str| all.binary_search(&name).map_or(NONE, |at| at as u32);
    let moved: Vec<u32> = old.iter().map(|name| place(name)).collect();
    for group in of_frame.iter_mut().filter(|group| **group != NONE) {
        *group = moved[*group as usize];
    }
    keys.extend(all.iter().map(|&name| GroupKey { module: Some(name.to_owned()), ..GroupKey::default() }));
    names.iter().map(|name| place(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_groups_stay_in_order_and_keep_their_frames() {
        let key = |name: &str| GroupKey { module: Some(name.to_owned()), ..GroupKey::default() };
        let mut keys = vec![key("data"), key("train")];
        let mut of_frame = [1, NONE, 0];
        let own = merge(&mut keys, &mut of_frame, &["blocks.0".to_owned(), "train".to_owned()]);
        let names: Vec<_> = keys.iter().filter_map(|key| key.module.as_deref()).collect();
        assert_eq!(names, ["blocks.0", "data", "train"]);
        assert_eq!((own, of_frame), (vec![0, 2], [2, NONE, 1]));
    }
}
