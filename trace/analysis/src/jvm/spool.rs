//! What the agent in a JVM leaves behind, and jvm/'s `Spool.java` writes: a page of header, and windows of records of 32-bit
//! words. A zero word ends the file, if there is no more behind it than one record that was being written. Nothing here is trusted: the JVM may have been killed in the middle of a word.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"PWJSPOO1";
const HEADER: usize = 4096;
const WINDOW: u64 = 16 << 20;
/// What the header counts, by property.
pub const COUNTS: [&str; 5] = [
    "unseen-objects",
    "left-out-classes",
    "classes",
    "left-out-methods",
    "left-out-frames",
];
const AT_COUNTS: usize = 32;
const AT_COMMAND: usize = 1024;
const COMMAND_BYTES: usize = 2048;
const LONGEST_TEXT: u32 = 4000;
/// Behind the operation, of the longest record.
const LONGEST_RECORD: u64 = 8 + LONGEST_TEXT as u64;

#[derive(Clone, Debug)]
pub struct Header {
    pub process: u32,
    pub has_stopped: bool,
    pub start_real_ns: u64,
    pub has_ended: bool,
    pub counts: [u64; COUNTS.len()],
    pub command: String,
}

/// An object's compressed reference, which is its identity: objects never move. 0 is null.
pub type Reference = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Thread(u32),
    Allocate {
        site: u32,
        object: Reference,
        size: u64,
    },
    Assign {
        object: Reference,
        field: u32,
        target: Reference,
    },
    /// A slot of the thread's frames now holds the object.
    Slot {
        slot: u32,
        object: Reference,
    },
    /// Slots from this on are no more.
    Top(u32),
    /// The JVM holds the object for good.
    Pin(Reference),
    Site {
        number: u32,
        text: String,
    },
    /// A static field now refers to the object.
    Static {
        field: u32,
        target: Reference,
    },
    /// Nanoseconds, from any start.
    Time(u64),
    Jump(u32),
}

pub struct Spool {
    pub header: Header,
    /// What is left cannot be read, though something was written there.
    pub is_damaged: bool,
    input: BufReader<File>,
    position: u64,
}

impl Spool {
    /// None: this is none.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut page = [0; HEADER];
        match file.read_exact_at(&mut page, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        if page[..8] != MAGIC {
            return Ok(None);
        }
        let mut input = BufReader::with_capacity(1 << 20, file);
        input.seek(SeekFrom::Start(HEADER as u64))?;
        Ok(Some(Self {
            header: Header::parse(&page),
            is_damaged: false,
            input,
            position: HEADER as u64,
        }))
    }

    /// None: the end, or where the JVM was killed.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        loop {
            let Some(operation) = self.word()? else {
                return Ok(None);
            };
            if operation == 11 {
                let into = (self.position - HEADER as u64) % WINDOW;
                let left = (WINDOW - into) % WINDOW;
                self.position += left;
                self.input.seek_relative(left as i64)?;
                continue;
            }
            return self.record(operation);
        }
    }

    fn record(&mut self, operation: u32) -> io::Result<Option<Record>> {
        let words = match operation {
            1 | 5 | 6 | 10 => 1,
            4 | 7 | 8 | 9 => 2,
            2 | 3 => 3,
            0 => {
                self.is_damaged = self.has_more()?;
                return Ok(None);
            }
            _ => return Ok(self.damaged()),
        };
        let mut word = [0; 3];
        for place in &mut word[..words] {
            let Some(read) = self.word()? else {
                return Ok(None);
            };
            *place = read;
        }
        let [first, second, third] = word;
        Ok(Some(match operation {
            1 => Record::Thread(first),
            2 => Record::Allocate {
                site: first,
                object: second,
                size: u64::from(third) * 8,
            },
            3 => Record::Assign {
                object: first,
                field: second,
                target: third,
            },
            4 => Record::Slot {
                slot: first,
                object: second,
            },
            5 => Record::Top(first),
            6 => Record::Pin(first),
            7 => return self.site(first, second),
            8 => Record::Static {
                field: first,
                target: second,
            },
            9 => Record::Time(u64::from(first) | u64::from(second) << 32),
            _ => Record::Jump(first),
        }))
    }

    fn site(&mut self, number: u32, length: u32) -> io::Result<Option<Record>> {
        if length > LONGEST_TEXT {
            return Ok(self.damaged());
        }
        let mut bytes = vec![0; length.next_multiple_of(4) as usize];
        if !self.read(&mut bytes)? {
            return Ok(None);
        }
        bytes.truncate(length as usize);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Some(Record::Site { number, text }))
    }

    fn damaged(&mut self) -> Option<Record> {
        self.is_damaged = true;
        None
    }

    /// Whether anything was written behind the record that may have been begun when the JVM ended.
    fn has_more(&mut self) -> io::Result<bool> {
        let mut part = Vec::with_capacity(1 << 16);
        self.input.seek_relative(LONGEST_RECORD as i64)?;
        loop {
            part.clear();
            let input = self.input.by_ref();
            if input.take(1 << 16).read_to_end(&mut part)? == 0 {
                return Ok(false);
            }
            if part.iter().any(|byte| *byte != 0) {
                return Ok(true);
            }
        }
    }

    fn word(&mut self) -> io::Result<Option<u32>> {
        let mut bytes = [0; 4];
        Ok(self.read(&mut bytes)?.then_some(u32::from_le_bytes(bytes)))
    }

    /// False at the end of the file.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        self.position += bytes.len() as u64;
        Ok(true)
    }
}

impl Header {
    fn parse(page: &[u8; HEADER]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| page[at + i]));
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let command = &page[AT_COMMAND..AT_COMMAND + COMMAND_BYTES];
        let end = command.iter().position(|byte| *byte == 0).unwrap_or(0);
        Self {
            process: u32_at(8),
            has_stopped: u32_at(12) != 0,
            start_real_ns: u64_at(16),
            has_ended: u32_at(24) != 0,
            counts: std::array::from_fn(|count| u64_at(AT_COUNTS + 8 * count)),
            command: String::from_utf8_lossy(&command[..end]).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The records of a spool of these words, with as many zero words between them, and whether it is damaged.
    fn read(first: &[u32], gap: usize, second: &[u32]) -> (usize, bool) {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(HEADER, 0);
        let zeros = vec![0; gap];
        for word in [first, &zeros, second].concat() {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(HEADER + WINDOW as usize, 0);
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(&bytes).expect("written");
        let mut spool = Spool::open(file.path()).expect("read").expect("a spool");
        let mut records = 0;
        while spool.next_record().expect("read").is_some() {
            records += 1;
        }
        (records, spool.is_damaged)
    }

    #[test]
    fn what_is_behind_the_end_is_damage() {
        let (pins, more) = ([6, 1, 6, 2], [6, 3]);
        assert_eq!(read(&pins, 0, &more), (3, false));
        assert_eq!(read(&pins, 2000, &more), (2, true));
        assert_eq!(read(&pins, 100_000, &more), (2, true));
        // The record that a killed JVM was writing has its operation last.
        assert_eq!(read(&pins, 1, &more), (2, false));
        assert_eq!(read(&pins, 900, &more), (2, false));
        // No operation, and a text that is too long.
        assert_eq!(read(&pins, 0, &[99, 1]), (2, true));
        assert_eq!(read(&pins, 0, &[7, 0, LONGEST_TEXT + 1]), (2, true));
    }
}
