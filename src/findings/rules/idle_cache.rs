//! `idle-cache`: reserved far above use, and all of it can be given back.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "idle-cache",
    heading: "Reserved far above use, and all of it can be given back",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(_scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
