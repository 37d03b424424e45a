//! Settings, annotations, and what memlab itself adds to a snapshot.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::import::graph::{NodeId, Value, View, Word};
use crate::model::{Annotation, DeviceId, NO_TIME, SettingValue, StringId};

use super::{Builder, TopLevel};

/// About what a setting costs in its tree.
const SETTING_BYTES: usize = 160;

impl Builder<'_> {
    /// Everything beside segments and events.
    pub(super) fn extras(&mut self, top: &TopLevel) -> Result<()> {
        if let Some(settings) = top.settings {
            self.settings(settings)?;
        }
        if let Some(annotations) = top.annotations {
            self.annotations(annotations)?;
        }
        if let Some(memlab) = top.memlab {
            self.memlab_key(memlab)?;
        }
        Ok(())
    }

    fn settings(&mut self, value: Value) -> Result<()> {
        let View::Dict(node) = value.view() else {
            self.odd("allocator_settings", "a dict");
            return Ok(());
        };
        let entries = self.entries(node)?;
        for pair in entries.chunks_exact(2) {
            let Some(key) = self.graph.as_text(pair[0]).map(std::borrow::Cow::into_owned) else {
                self.odd("allocator_settings", "a dict with texts as keys");
                continue;
            };
            self.rows.ledger.charge(SETTING_BYTES + key.len(), 0)?;
            match self.setting(pair[1])? {
                Some(setting) => drop(self.rows.trace.settings.values.insert(key, setting)),
                None if pair[1].view() == View::None => {}
                None => self.unknown_key(pair[0], "the allocator's settings"),
            }
        }
        Ok(())
    }

    fn setting(&mut self, value: Value) -> Result<Option<SettingValue>> {
        Ok(match value.view() {
            View::Bool(value) => Some(SettingValue::Bool(value)),
            View::Int(_) | View::BigInt(_) => self.graph.as_integer(value).map(SettingValue::Int),
            View::Float(_) => self.graph.as_float(value).map(SettingValue::Float),
            View::FileText(_) | View::TableText(_) => {
                self.graph.as_text(value).map(|text| SettingValue::Text(text.into_owned()))
            }
            View::Dict(node) => Some(SettingValue::Map(self.setting_map(node)?)),
            _ => None,
        })
    }

    fn setting_map(&mut self, node: NodeId) -> Result<BTreeMap<String, i128>> {
        let mut map = BTreeMap::new();
        for pair in self.entries(node)?.chunks_exact(2) {
            let key = match self.graph.as_text(pair[0]) {
                Some(text) => Some(text.into_owned()),
                None => self.graph.as_integer(pair[0]).map(|key| key.to_string()),
            };
            if let (Some(key), Some(value)) = (key, self.graph.as_integer(pair[1])) {
                self.rows.ledger.charge(SETTING_BYTES + key.len(), 0)?;
                map.insert(key, value);
            } else {
                self.odd("allocator_settings", "a table of integers");
            }
        }
        Ok(map)
    }

    fn annotations(&mut self, value: Value) -> Result<()> {
        let Some((node, count)) = self.list(value, "external_annotations") else { return Ok(()) };
        for index in 0..count {
            let item = self.item(node, index)?;
            let View::Dict(entry) = item.view() else {
                self.odd("external_annotations", "a list of dicts");
                continue;
            };
            if let Some(annotation) = self.annotation(entry)? {
                self.rows.ledger.charge(size_of::<Annotation>(), 0)?;
                self.rows.trace.annotations.push(annotation);
            }
        }
        Ok(())
    }

    fn annotation(&mut self, node: NodeId) -> Result<Option<Annotation>> {
        let unknown = DeviceId(u32::MAX);
        let mut annotation =
            Annotation { name: StringId(0), begins: true, device: unknown, time_us: NO_TIME };
        let mut stage = None;
        for pair in self.entries(node)?.chunks_exact(2) {
            match pair[0].word() {
                Word::Name => annotation.name = self.string(pair[1], "name"),
                Word::Stage => stage = Some(pair[1].word()),
                Word::Device => annotation.device = self.device(pair[1]).unwrap_or(unknown),
                Word::TimeUs => annotation.time_us = self.time(pair[1]),
                _ => self.unknown_key(pair[0], "an annotation"),
            }
        }
        match stage {
            Some(Word::Start) => annotation.begins = true,
            Some(Word::End) => annotation.begins = false,
            _ => {
                self.odd("stage", "`START` or `END`");
                return Ok(None);
            }
        }
        Ok(Some(annotation))
    }
}
