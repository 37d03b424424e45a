//! `private-pools`: private pools hold memory that nothing else can use.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "private-pools",
    heading: "Private pools hold memory that nothing else can use",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(_scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
