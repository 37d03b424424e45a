//! `pending-at-oom`: the block that would have fitted was waiting for another stream.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "pending-at-oom",
    heading: "The block that would have fitted was waiting for another stream",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(_scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
