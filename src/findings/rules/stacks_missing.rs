//! `stacks-missing`: much of the peak has no stack.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "stacks-missing",
    heading: "Much of the peak has no stack",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(_scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
