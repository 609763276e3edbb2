//! The index at a trace's end: where each block lies.

use super::block::{Header, Kind, MAX_PAYLOAD};
use super::varint::{self, Cursor};

/// Bytes of an end block's payload.
pub const END_PAYLOAD: usize = 16;
const LONGEST_RECORD: usize = 64;

/// A block of the file; `first` and `time` are kept for event blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub offset: u64,
    pub records: u32,
    pub first: u64,
    pub time: u64,
}

impl Entry {
    pub fn of(header: &Header, offset: u64) -> Self {
        let is_events = header.kind == Kind::Events;
        Self {
            kind: header.kind,
            offset,
            records: header.records,
            first: if is_events { header.first } else { 0 },
            time: if is_events { header.time } else { 0 },
        }
    }
}

/// Encodes as many entries as fit into one index block; returns the payload and their number.
pub fn encode(previous: u64, entries: &[Entry]) -> (Vec<u8>, usize) {
    let mut payload = Vec::new();
    varint::put(&mut payload, previous);
    let (mut offset, mut first, mut time) = (0, 0, 0);
    let mut count = 0;
    for entry in entries {
        if payload.len() + LONGEST_RECORD > MAX_PAYLOAD {
            break;
        }
        payload.push(entry.kind.byte());
        varint::put(&mut payload, entry.offset - offset);
        varint::put(&mut payload, u64::from(entry.records));
        offset = entry.offset;
        if entry.kind == Kind::Events {
            varint::put(&mut payload, entry.first - first);
            varint::put(&mut payload, entry.time - time);
            (first, time) = (entry.first, entry.time);
        }
        count += 1;
    }
    (payload, count)
}

/// Position of the index block before this one (0: none), and this one's entries. None: damaged.
pub fn decode(payload: &[u8], records: u32) -> Option<(u64, Vec<Entry>)> {
    let mut cursor = Cursor::new(payload);
    let previous = cursor.varint()?;
    let (mut offset, mut first, mut time) = (0_u64, 0_u64, 0_u64);
    let mut entries = Vec::new();
    for _ in 0..records {
        let kind = Kind::of(cursor.byte()?);
        offset = offset.checked_add(cursor.varint()?)?;
        let count = u32::try_from(cursor.varint()?).ok()?;
        let mut entry = Entry {
            kind,
            offset,
            records: count,
            first: 0,
            time: 0,
        };
        if kind == Kind::Events {
            first = first.checked_add(cursor.varint()?)?;
            time = time.checked_add(cursor.varint()?)?;
            (entry.first, entry.time) = (first, time);
        }
        entries.push(entry);
    }
    cursor.is_at_end().then_some((previous, entries))
}
