//! The stack machine: one loop over opcodes, no recursion, plain data only.

use rustc_hash::FxHashSet;

use crate::error::{Error, Result};
use crate::import::Progress;
use crate::import::graph::{Graph, Value};
use crate::import::rows::Rows;
use crate::model::{FrameId, StringId};

use super::containers::underflow;
use super::cursor::Cursor;
use super::opcodes as op;
use super::text;

/// Deepest nesting of open containers.
const MARKS_MAX: usize = 1 << 20;
const HIGHEST_PROTOCOL: u8 = 5;
/// Progress is told every so many bytes.
const REPORT_BYTES: usize = 1 << 20;

/// The machine while it runs.
pub(super) struct Machine<'a, 'r> {
    pub(super) cursor: Cursor<'a>,
    pub(super) stack: Vec<Value>,
    pub(super) marks: Vec<usize>,
    pub(super) memo: Vec<Value>,
    pub(super) graph: Graph<'a>,
    pub(super) rows: &'r mut Rows,
    /// Whether events, frames and stacks may be read at one go.
    pub(super) shortcuts: bool,
    /// Set when something that was read at one go turns out to go on: only a run without shortcuts is right.
    pub(super) reopened: bool,
    /// Empty lists that a shortcut took for empty stacks.
    pub(super) taken_empty: FxHashSet<u32>,
    pub(super) scratch: Vec<FrameId>,
    pub(super) last_text: (Value, StringId),
}

impl<'a, 'r> Machine<'a, 'r> {
    pub(super) fn new(bytes: &'a [u8], rows: &'r mut Rows, shortcuts: bool) -> Self {
        Self {
            cursor: Cursor::new(bytes),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            graph: Graph::new(bytes),
            rows,
            shortcuts,
            reopened: false,
            taken_empty: FxHashSet::default(),
            scratch: Vec::new(),
            last_text: (Value::UNSET, StringId(0)),
        }
    }

    /// Runs to STOP and gives the object.
    pub(super) fn run(&mut self, progress: &Progress<'_>) -> Result<Value> {
        let mut report = REPORT_BYTES;
        loop {
            if self.cursor.at >= report {
                progress(self.cursor.at as u64, self.cursor.bytes.len() as u64);
                report = self.cursor.at + REPORT_BYTES;
            }
            let at = self.cursor.at;
            let opcode = self.cursor.byte()?;
            if opcode == op::STOP {
                progress(self.cursor.at as u64, self.cursor.bytes.len() as u64);
                return self.pop(at);
            }
            self.step(opcode, at)?;
        }
    }

    fn step(&mut self, opcode: u8, at: usize) -> Result<()> {
        match opcode {
            op::BINGET => {
                let index = self.cursor.byte()? as usize;
                self.get(index, at)
            }
            op::LONG_BINGET => {
                let index = self.cursor.u32()? as usize;
                self.get(index, at)
            }
            op::MEMOIZE => self.put(self.memo.len(), at),
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING | op::SHORT_BINBYTES => self.file_text(1, at),
            op::BININT1 => {
                let value = i64::from(self.cursor.byte()?);
                self.push_int(value, at)
            }
            op::BININT2 => {
                let value = i64::from(self.cursor.u16()?);
                self.push_int(value, at)
            }
            op::BININT => {
                let value = i64::from(self.cursor.u32()?.cast_signed());
                self.push_int(value, at)
            }
            op::LONG1 => {
                let bytes = self.cursor.counted(1)?;
                self.push_long(bytes, at)
            }
            op::EMPTY_DICT => self.empty_dict(at),
            op::EMPTY_LIST => self.empty_list(at),
            op::MARK => self.mark(at),
            op::SETITEMS | op::APPENDS => self.extend_from_mark(opcode == op::SETITEMS, at),
            op::NONE => self.push(Value::NONE, at),
            op::NEWTRUE | op::NEWFALSE => self.push(Value::bool(opcode == op::NEWTRUE), at),
            op::TUPLE2 => self.small_tuple(2, at),
            op::BINUNICODE | op::BINSTRING | op::BINBYTES => self.file_text(4, at),
            op::BINPUT => {
                let index = self.cursor.byte()? as usize;
                self.put(index, at)
            }
            op::LONG_BINPUT => {
                let index = self.cursor.u32()? as usize;
                self.put(index, at)
            }
            _ => self.rare_step(opcode, at),
        }
    }

    fn rare_step(&mut self, opcode: u8, at: usize) -> Result<()> {
        match opcode {
            op::PROTO => self.proto(at),
            op::FRAME => self.cursor.u64().map(|_| ()),
            op::SETITEM => self.extend_by(2, at),
            op::APPEND => self.extend_by(1, at),
            op::EMPTY_TUPLE => self.small_tuple(0, at),
            op::TUPLE1 => self.small_tuple(1, at),
            op::TUPLE3 => self.small_tuple(3, at),
            op::TUPLE | op::LIST | op::DICT => self.container_from_mark(opcode, at),
            op::BINUNICODE8 | op::BINBYTES8 | op::BYTEARRAY8 => self.file_text(8, at),
            op::BINFLOAT => {
                let number = self.cursor.f64()?;
                self.push_float(number, at)
            }
            op::LONG4 => {
                let bytes = self.cursor.counted(4)?;
                self.push_long(bytes, at)
            }
            op::POP => self.discard(at),
            op::POP_MARK => {
                let start = self.pop_mark(at)?;
                self.stack.truncate(start);
                Ok(())
            }
            op::DUP => {
                let top = self.stack.last().copied().ok_or_else(|| underflow(at))?;
                self.push(top, at)
            }
            op::FLOAT | op::INT | op::LONG | op::STRING | op::UNICODE => self.line_value(opcode, at),
            op::GET | op::PUT => {
                let line = self.cursor.line()?;
                let index = usize::try_from(text::decimal(line, at)?).unwrap_or(usize::MAX);
                if opcode == op::GET { self.get(index, at) } else { self.put(index, at) }
            }
            _ => Err(self.refuse(opcode, at)),
        }
    }

    /// An opcode that would run code, or a byte that is no opcode.
    #[cold]
    fn refuse(&mut self, opcode: u8, at: usize) -> Error {
        let Some(name) = op::name(opcode) else {
            return Error::corrupt(at, format_args!("{opcode:#04x} is no pickle opcode"));
        };
        let argument = match opcode {
            op::GLOBAL | op::INST => {
                let mut part = || self.cursor.line().map_or_else(|_| String::new(), short);
                format!("{} {}", part(), part())
            }
            op::STACK_GLOBAL => {
                let count = self.stack.len();
                let named: Vec<String> = self.stack[count.saturating_sub(2)..]
                    .iter()
                    .filter_map(|&value| self.graph.as_text(value))
                    .map(|text| short(text.as_bytes()))
                    .collect();
                named.join(" ")
            }
            op::PERSID => self.cursor.line().map_or_else(|_| String::new(), short),
            _ => String::new(),
        };
        Error::Refused { opcode: name, argument: argument.trim().to_owned(), offset: at as u64 }
    }

    fn proto(&mut self, at: usize) -> Result<()> {
        match self.cursor.byte()? {
            0..=HIGHEST_PROTOCOL => Ok(()),
            newer => Err(Error::corrupt(at, format_args!("pickle protocol {newer} is not known"))),
        }
    }

    fn line_value(&mut self, opcode: u8, at: usize) -> Result<()> {
        let line = self.cursor.line()?;
        let value = match (opcode, line) {
            (op::INT, b"00") => Value::bool(false),
            (op::INT, b"01") => Value::bool(true),
            (op::INT | op::LONG, _) => self.graph.integer(text::decimal(line, at)?, at)?,
            (op::FLOAT, _) => self.graph.float(text::float(line, at)?, at)?,
            (op::STRING, _) => self.graph.text(&text::quoted(line, at)?, at)?,
            _ => self.graph.text(&text::raw_unicode(line), at)?,
        };
        self.push(value, at)
    }
}

/// Values on the stack.
impl Machine<'_, '_> {
    #[inline]
    pub(super) fn push(&mut self, value: Value, at: usize) -> Result<()> {
        if self.stack.len() == self.stack.capacity() {
            self.graph.ledger.charge(self.stack.len() * size_of::<Value>(), at)?;
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self, at: usize) -> Result<Value> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(underflow(at));
        }
        self.stack.pop().ok_or_else(|| underflow(at))
    }

    /// POP also takes a mark, as in Python.
    fn discard(&mut self, at: usize) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop(at).map(|_| ())
    }

    fn mark(&mut self, at: usize) -> Result<()> {
        if self.marks.len() >= MARKS_MAX {
            return Err(Error::LimitExceeded {
                what: "open containers",
                value: self.marks.len() as u64 + 1,
                limit: MARKS_MAX as u64,
                offset: at as u64,
            });
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    pub(super) fn pop_mark(&mut self, at: usize) -> Result<usize> {
        self.marks.pop().ok_or_else(|| Error::corrupt(at, "a mark that was never set"))
    }

    #[inline]
    fn push_int(&mut self, value: i64, at: usize) -> Result<()> {
        self.push(Value::small_int(value).expect("32 bits fit into 60"), at)
    }

    fn push_long(&mut self, bytes: &[u8], at: usize) -> Result<()> {
        let value = self.graph.integer(text::long(bytes), at)?;
        self.push(value, at)
    }

    fn push_float(&mut self, number: f64, at: usize) -> Result<()> {
        let value = self.graph.float(number, at)?;
        self.push(value, at)
    }

    #[inline]
    fn file_text(&mut self, width: u8, at: usize) -> Result<()> {
        let content = self.cursor.counted(width)?;
        self.push(Graph::file_text(at, content), at)
    }
}

/// At most 80 characters of a name, for a message.
fn short(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(80).collect()
}
