//! `rank-imbalance`: one rank needs much more than the others.

use crate::findings::{Check, Finding, Guide, RankFacts, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "rank-imbalance",
    heading: "One rank needs much more than the others",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Ranks(find),
};

fn find(_ranks: &[RankFacts]) -> Vec<(usize, Finding)> {
    Vec::new()
}
