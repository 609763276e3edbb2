//! What was recorded, and how: names and values.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::varint::{self, Cursor};

pub const MAX_TEXT: usize = 65_536;
const MAX_PROPERTIES: usize = 1024;

/// Names and values; docs/reference/trace-format.md lists the names that have a meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number; none where there is no such property or it is no number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            put_text(out, name);
            put_text(out, value);
        }
    }

    /// Adds a block's properties to these.
    pub(super) fn decode(&mut self, payload: &[u8], records: u32, offset: u64) -> Result<()> {
        let mut cursor = Cursor::new(payload);
        for _ in 0..records {
            let name = text(&mut cursor, offset)?;
            let value = text(&mut cursor, offset)?;
            if self.0.len() >= MAX_PROPERTIES && !self.0.contains_key(&name) {
                return Err(Error::damaged(offset, "too many properties"));
            }
            self.set(name, value);
        }
        expect_end(&cursor, offset)
    }
}

/// Longer texts are cut: they are for people.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    varint::put(out, end as u64);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

pub fn text(cursor: &mut Cursor, offset: u64) -> Result<String> {
    cursor
        .varint()
        .filter(|&length| length <= MAX_TEXT as u64)
        .and_then(|length| cursor.bytes(length as usize))
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .ok_or_else(|| Error::damaged(offset, "a text does not fit into its block"))
}

pub fn expect_end(cursor: &Cursor, offset: u64) -> Result<()> {
    if cursor.is_at_end() {
        return Ok(());
    }
    Err(Error::damaged(
        offset,
        "a block holds more than its records",
    ))
}
