//! The words of a snapshot: keys and fixed values, recognised once, when their bytes are read.
//!
//! Everything behind compares words, never bytes.

macro_rules! words {
    ($($word:ident $text:literal),* $(,)?) => {
        /// A text with a meaning in a snapshot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(in crate::import) enum Word {
            /// Any text without a meaning of its own.
            Other,
            $($word),*
        }

        impl Word {
            const ALL: &'static [Self] = &[Self::Other, $(Self::$word),*];

            /// The word that `bytes` spell.
            pub(in crate::import) fn from_bytes(bytes: &[u8]) -> Self {
                const fn slice(text: &'static str) -> &'static [u8] {
                    text.as_bytes()
                }
                if bytes.len() > LONGEST {
                    return Self::Other;
                }
                $(if bytes == slice($text) { return Self::$word; })*
                Self::Other
            }

            /// The text; empty for [`Word::Other`].
            #[cfg(test)]
            pub(in crate::import) fn text(self) -> &'static str {
                match self {
                    Self::Other => "",
                    $(Self::$word => $text),*
                }
            }
        }
    };
}

const LONGEST: usize = 28;

words! {
    Action "action", Addr "addr", Size "size", Stream "stream", TimeUs "time_us", Frames "frames",
    CompileContext "compile_context", UserMetadata "user_metadata", PoolId "pool_id",
    DeviceFree "device_free", InternalMetadata "internal_metadata", ForwardFrames "forward_frames",
    CppFrames "cpp_frames", Name "name", Filename "filename", Line "line", NotApplicable "N/A",
    Alloc "alloc", FreeRequested "free_requested", FreeCompleted "free_completed",
    SegmentAlloc "segment_alloc", SegmentFree "segment_free", SegmentMap "segment_map",
    SegmentUnmap "segment_unmap", Snapshot "snapshot", Oom "oom", Annotate "annotate", Free "free",
    Segments "segments", DeviceTraces "device_traces", AllocatorSettings "allocator_settings",
    ExternalAnnotations "external_annotations", HostSegments "host_segments", HostTraces "host_traces",
    DeviceTotal "device_total", RingOverflowed "trace_alloc_overflowed",
    RingEntries "trace_alloc_max_entries", Memlab "memlab", Device "device", Address "address",
    TotalSize "total_size", AllocatedSize "allocated_size", ActiveSize "active_size",
    RequestedSize "requested_size", SegmentType "segment_type", SegmentPoolId "segment_pool_id",
    IsExpandable "is_expandable", Blocks "blocks", State "state", History "history",
    RealSize "real_size", Small "small", Large "large", Inactive "inactive",
    ActiveAllocated "active_allocated", ActivePendingFree "active_pending_free",
    ActiveAwaitingFree "active_awaiting_free", Stage "stage", Start "START", End "END",
}

impl Word {
    /// The word with this code; [`Word::Other`] for none.
    #[inline]
    pub(super) fn from_code(code: u8) -> Self {
        Self::ALL.get(code as usize).copied().unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_by_its_text_and_code() {
        for &word in &Word::ALL[1..] {
            assert!(word.text().len() <= LONGEST, "{word:?}");
            assert_eq!(Word::from_bytes(word.text().as_bytes()), word);
            assert_eq!(Word::from_code(word as u8), word);
        }
        assert_eq!(Word::from_bytes(b"actions"), Word::Other);
        assert_eq!(Word::from_code(255), Word::Other);
    }
}
