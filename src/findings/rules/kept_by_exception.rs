//! `kept-by-exception`: a caught exception keeps a failed step alive.

use crate::error::Result;
use crate::findings::{Check, Finding, Guide, Rule, Scene};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "kept-by-exception",
    heading: "A caught exception keeps a failed step alive",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Device(find),
};

fn find(_scene: &Scene<'_>) -> Result<Vec<Finding>> {
    Ok(Vec::new())
}
