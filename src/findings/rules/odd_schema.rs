//! `odd-schema`: the file is not quite what PyTorch writes.

use crate::findings::{Check, DeviceFacts, Finding, Guide, Rule};
use crate::model::Trace;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "odd-schema",
    heading: "The file is not quite what PyTorch writes",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Trace(find),
};

fn find(_trace: &Trace, _devices: &[DeviceFacts]) -> Vec<Finding> {
    Vec::new()
}
