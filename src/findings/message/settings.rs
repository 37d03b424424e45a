//! What a log says about expandable segments outside of the messages.
//!
//! Owns telling a setting that is in force from one that somebody merely recommends: only the latter forms
//! are common in a log, so only a few clear forms of the former count.

use super::read::Expandable;

/// Reads the mention of `expandable_segments` at `at..end`.
pub(super) fn read(text: &[u8], at: usize, end: usize) -> Option<Expandable> {
    let behind = &text[end..text.len().min(end + 64)];
    if behind.starts_with(b" not supported on this platform") {
        return Some(Expandable::NotSupported);
    }
    if !behind.starts_with(b":True") {
        return None;
    }
    let line = text[..at].iter().rev().take(256).position(|byte| *byte == b'\n').unwrap_or(at.min(256));
    let before = &text[at - line..at];
    let name = before
        .windows(11)
        .rposition(|part| part == b"ALLOC_CONF=" || part == b"ALLOC_CONF'" || part == b"ALLOC_CONF\"")?;
    let name = before[..name]
        .iter()
        .rposition(|byte| !(byte.is_ascii_uppercase() || *byte == b'_'))
        .map_or(0, |last| last + 1);
    let in_front = before[..name].trim_ascii_end();
    let in_front =
        in_front.strip_suffix(b"'").or(in_front.strip_suffix(b"\"")).unwrap_or(in_front).trim_ascii_end();
    let is_set = in_front.is_empty()
        || [&b"export"[..], b"env", b"{", b",", b"+", b"environ[", b"declare -x"]
            .iter()
            .any(|word| in_front.ends_with(word));
    is_set.then_some(Expandable::On)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<Expandable> {
        let at = text.find("expandable_segments")?;
        read(text.as_bytes(), at, at + "expandable_segments".len())
    }

    #[test]
    fn a_setting_counts_and_advice_does_not() {
        for text in [
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
            "x\n+ export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True",
            "{'A': 1, 'PYTORCH_ALLOC_CONF': 'expandable_segments:True'}",
            "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\"",
        ] {
            assert_eq!(said(text), Some(Expandable::On), "{text}");
        }
        for text in [
            "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid",
            "Use PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False",
            "expandable_segments:True",
            "setting\nhint: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
        let warning = "UserWarning: expandable_segments not supported on this platform (Triggered";
        assert_eq!(said(warning), Some(Expandable::NotSupported));
    }
}
