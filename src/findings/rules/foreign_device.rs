//! `foreign-device`: memory on a device that is not this process's.

use crate::findings::{Check, DeviceFacts, Finding, Guide, Rule};
use crate::model::Trace;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "foreign-device",
    heading: "Memory on a device that is not this process's",
    guide: Guide { says: "TODO", fires: "TODO", why: "TODO", needs: "TODO", is_not: "TODO", remedy: "TODO" },
    check: Check::Trace(find),
};

fn find(_trace: &Trace, _devices: &[DeviceFacts]) -> Vec<Finding> {
    Vec::new()
}
