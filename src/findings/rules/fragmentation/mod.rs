//! `fragmentation`: free memory would have sufficed, had it been in one piece.
//!
//! Two ways to notice it, one file each: a request that failed (`at_oom`), and segments obtained although
//! enough was free.

mod at_oom;
mod avoidable;

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "fragmentation",
    heading: "Free memory would have sufficed, in one piece",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let found = at_oom::find(scene)?;
    // One cause is told once.
    if found.is_empty() { avoidable::find(scene) } else { Ok(found) }
}
