//! Hand-made pickles, opcode by opcode: small snapshots for tests, and the nasty ones.

/// A pickle under construction.
#[derive(Clone, Default)]
pub(crate) struct Pickle(pub(crate) Vec<u8>);

impl Pickle {
    /// Protocol 4.
    pub(crate) fn new() -> Self {
        Self(vec![0x80, 4])
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.push(b'X');
        self.0.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn int(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&[0x8a, 9]);
        self.0.extend_from_slice(&value.to_le_bytes());
        self.0.push(0);
        self
    }

    /// `{"segments": [], "device_traces": [[VALUE]]}` where `event` writes the value.
    pub(crate) fn snapshot_with_event(event: impl FnOnce(Self) -> Self) -> Vec<u8> {
        let open = Self::new().raw(b"}(").text("segments").raw(b"]").text("device_traces").raw(b"](](");
        event(open).raw(b"eeu.").0
    }

    /// The event `alloc` at 0x7f0000000000 of 512 bytes whose `frames` are written by `frames`.
    pub(crate) fn alloc_event(self, frames: impl FnOnce(Self) -> Self) -> Self {
        let head = self
            .raw(b"}(")
            .text("action")
            .text("alloc")
            .text("addr")
            .int(0x7f00_0000_0000)
            .text("size")
            .int(512)
            .text("stream")
            .int(0)
            .text("frames");
        frames(head).raw(b"u")
    }

    /// A list that holds itself, memo index 0.
    pub(crate) fn list_in_itself(self) -> Self {
        self.raw(b"]q\x00h\x00a")
    }

    /// `depth` lists, each in the next.
    pub(crate) fn nested_lists(mut self, depth: usize) -> Self {
        self.0.resize(self.0.len() + depth, b']');
        self.0.resize(self.0.len() + depth.saturating_sub(1), b'a');
        self
    }

    /// `depth` lists, each of which holds the one before ten times: 10^depth leaves in a few bytes.
    pub(crate) fn sharing_bomb(mut self, depth: usize) -> Self {
        self = self.raw(b"]q\x01");
        for level in 1..depth as u8 {
            let reference = [b'h', level];
            self = self.raw(b"0](").raw(&reference.repeat(10)).raw(&[b'e', b'q', level + 1]);
        }
        self
    }
}

/// Pickles that would run a command if anything in them were executed, and the opcode to be refused.
pub(crate) fn executing(command: &str) -> Vec<(&'static str, Vec<u8>)> {
    let quoted = format!("S'{command}'\n");
    let in_text = |pickle: Pickle| pickle.text(command);
    vec![
        ("GLOBAL", [b"cos\nsystem\n(", quoted.as_bytes(), b"tR."].concat()),
        ("INST", [b"(", quoted.as_bytes(), b"ios\nsystem\n."].concat()),
        ("STACK_GLOBAL", in_text(Pickle::new().text("os").text("system").raw(b"\x93")).raw(b"\x85R.").0),
        ("REDUCE", in_text(Pickle::new().text("system")).raw(b"\x85R.").0),
        ("NEWOBJ", in_text(Pickle::new().text("system")).raw(b"\x85\x81.").0),
        ("NEWOBJ_EX", in_text(Pickle::new().text("system")).raw(b"\x85}\x92.").0),
        ("OBJ", in_text(Pickle::new().raw(b"(").text("system")).raw(b"o.").0),
        ("BUILD", in_text(Pickle::new().raw(b"}")).raw(b"b.").0),
        ("PERSID", [b"P".as_slice(), command.as_bytes(), b"\n."].concat()),
        ("BINPERSID", in_text(Pickle::new()).raw(b"Q.").0),
        ("EXT1", Pickle::new().raw(b"\x82\x01.").0),
        ("EXT2", Pickle::new().raw(b"\x83\x01\x00.").0),
        ("EXT4", Pickle::new().raw(b"\x84\x01\x00\x00\x00.").0),
    ]
}

/// Lengths and indices that no file can back.
pub(crate) fn absurd_lengths() -> Vec<(&'static str, Vec<u8>)> {
    let huge = u64::MAX.to_le_bytes();
    let half = (u64::MAX / 2).to_le_bytes();
    vec![
        ("BINUNICODE", Pickle::new().raw(b"X\xff\xff\xff\xff.").0),
        ("BINUNICODE8", Pickle::new().raw(b"\x8d").raw(&huge).raw(b".").0),
        ("BINBYTES8", Pickle::new().raw(b"\x8e").raw(&half).raw(b".").0),
        ("BYTEARRAY8", Pickle::new().raw(b"\x96").raw(&half).raw(b".").0),
        ("LONG4", Pickle::new().raw(b"\x8b\xff\xff\xff\x7f.").0),
        ("negative LONG4", Pickle::new().raw(b"\x8b\xff\xff\xff\xff.").0),
        ("FRAME", Pickle::new().raw(b"\x95").raw(&huge).raw(b"N.").0),
        ("LONG_BINPUT", Pickle::new().raw(b"Nr\xff\xff\xff\xff.").0),
        ("LONG_BINGET", Pickle::new().raw(b"j\xff\xff\xff\xff.").0),
        ("POP of nothing", Pickle::new().raw(b"0000.").0),
        ("APPENDS without a mark", Pickle::new().raw(b"]e.").0),
        ("SETITEM into a list", Pickle::new().raw(b"]NNs.").0),
        ("SETITEMS with an odd count", Pickle::new().raw(b"}(NNNu.").0),
        ("TUPLE3 of one", Pickle::new().raw(b"N\x87.").0),
        ("no STOP", Pickle::new().raw(b"N").0),
        ("protocol 200", vec![0x80, 200, b'N', b'.']),
    ]
}
