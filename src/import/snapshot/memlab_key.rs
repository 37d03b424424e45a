//! Stub.
use super::Builder;
use crate::import::graph::Value;

impl Builder<'_> {
    pub(super) fn memlab_key(&mut self, _value: Value) {}
}
