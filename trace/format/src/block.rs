//! Blocks: a header of 48 bytes and stored bytes, which decompress to the payload.

use std::io::{Read, Write};

use super::error::{Error, Result};

pub const HEADER: usize = 48;
pub const MAX_PAYLOAD: usize = 1 << 20;
pub const MAX_STORED: usize = MAX_PAYLOAD + 4096;
pub const MAX_EVENTS: u32 = 65_536;
/// In an event block: allocations carry addresses.
pub const WITH_ADDRESSES: u16 = 1;

const MAGIC: [u8; 4] = *b"PWBK";
/// zstd's default: twice the speed of level 6 in writing, and all levels read as fast.
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Properties,
    Strings,
    Modules,
    Frames,
    Sites,
    Events,
    Index,
    End,
    /// Of the event block that follows.
    Manners,
    /// Of a later minor version: to be skipped.
    Other(u8),
}

impl Kind {
    pub fn of(byte: u8) -> Self {
        match byte {
            1 => Self::Properties,
            2 => Self::Strings,
            3 => Self::Modules,
            4 => Self::Frames,
            5 => Self::Sites,
            6 => Self::Events,
            7 => Self::Index,
            8 => Self::End,
            9 => Self::Manners,
            other => Self::Other(other),
        }
    }

    pub fn byte(self) -> u8 {
        match self {
            Self::Properties => 1,
            Self::Strings => 2,
            Self::Modules => 3,
            Self::Frames => 4,
            Self::Sites => 5,
            Self::Events => 6,
            Self::Index => 7,
            Self::End => 8,
            Self::Manners => 9,
            Self::Other(byte) => byte,
        }
    }
}

/// How stored bytes are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    None,
    #[default]
    Zstd,
    Deflate,
}

impl Codec {
    fn byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Zstd => 1,
            Self::Deflate => 2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub codec: u8,
    pub flags: u16,
    pub stored: u32,
    pub payload: u32,
    pub records: u32,
    pub crc: u32,
    pub first: u64,
    pub time: u64,
}

impl Header {
    /// Checks what a header says of itself; `offset` is where it stands.
    pub fn parse(bytes: &[u8; HEADER], offset: u64) -> Result<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..4] != MAGIC {
            return Err(Error::damaged(offset, "no block begins here"));
        }
        if crc32fast::hash(&bytes[..44]) != u32_at(44) {
            return Err(Error::damaged(
                offset,
                "wrong check sum of a block's header",
            ));
        }
        let header = Self {
            kind: Kind::of(bytes[4]),
            codec: bytes[5],
            flags: u16::from_le_bytes([bytes[6], bytes[7]]),
            stored: u32_at(8),
            payload: u32_at(12),
            records: u32_at(16),
            crc: u32_at(20),
            first: u64_at(24),
            time: u64_at(32),
        };
        if header.stored as usize > MAX_STORED || header.payload as usize > MAX_PAYLOAD {
            return Err(Error::damaged(
                offset,
                "a block is larger than the format allows",
            ));
        }
        if header.kind == Kind::Events && header.records > MAX_EVENTS {
            return Err(Error::damaged(
                offset,
                "a block has more events than the format allows",
            ));
        }
        Ok(header)
    }

    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind.byte();
        bytes[5] = self.codec;
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.crc.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.time.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// What a block says beside its payload.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    pub kind: Kind,
    pub flags: u16,
    pub records: u32,
    pub first: u64,
    pub time: u64,
}

/// Writes blocks; keeps a compressor and its buffer.
pub struct Packer {
    codec: Codec,
    zstd: zstd::bulk::Compressor<'static>,
    block: Vec<u8>,
}

impl Packer {
    pub fn new(codec: Codec) -> Result<Self> {
        Ok(Self {
            codec,
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            block: Vec::new(),
        })
    }

    /// Writes header and stored bytes with one call; returns how many bytes those are.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        description: Description,
        payload: &[u8],
    ) -> Result<u64> {
        debug_assert!(payload.len() <= MAX_PAYLOAD);
        self.block.clear();
        self.block.resize(HEADER, 0);
        let mut codec = self.compress(payload, description.kind)?;
        if codec != Codec::None && self.block.len() - HEADER >= payload.len() {
            self.block.truncate(HEADER);
            self.block.extend_from_slice(payload);
            codec = Codec::None;
        }
        let stored = &self.block[HEADER..];
        let header = Header {
            kind: description.kind,
            codec: codec.byte(),
            flags: description.flags,
            stored: stored.len() as u32,
            payload: payload.len() as u32,
            records: description.records,
            crc: crc32fast::hash(stored),
            first: description.first,
            time: description.time,
        };
        self.block[..HEADER].copy_from_slice(&header.bytes());
        out.write_all(&self.block)?;
        Ok(self.block.len() as u64)
    }

    fn compress(&mut self, payload: &[u8], kind: Kind) -> Result<Codec> {
        // The end block must be found without decompressing.
        let codec = if kind == Kind::End {
            Codec::None
        } else {
            self.codec
        };
        match codec {
            Codec::None => self.block.extend_from_slice(payload),
            Codec::Zstd => {
                let stored = self.zstd.compress(payload)?;
                self.block.extend_from_slice(&stored);
            }
            Codec::Deflate => {
                let block = std::mem::take(&mut self.block);
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::ZlibEncoder::new(block, level);
                encoder.write_all(payload)?;
                self.block = encoder.finish()?;
            }
        }
        Ok(codec)
    }
}

/// Turns stored bytes into payloads; keeps a decompressor.
pub struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl Unpacker {
    pub fn new() -> Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Decompressor::new()?,
        })
    }

    /// Leaves the payload of the block at `offset` in `payload`, which never grows past its stated length.
    pub fn unpack(
        &mut self,
        header: &Header,
        stored: &[u8],
        payload: &mut Vec<u8>,
        offset: u64,
    ) -> Result<()> {
        let damaged = |what: &str| Error::damaged(offset, what);
        if crc32fast::hash(stored) != header.crc {
            return Err(damaged("wrong check sum of a block"));
        }
        let length = header.payload as usize;
        payload.clear();
        match header.codec {
            0 => payload.extend_from_slice(stored),
            1 => {
                payload.reserve(length);
                // The buffer may be larger than this block's payload: bound it.
                payload.resize(length, 0);
                let got = self
                    .zstd
                    .decompress_to_buffer(stored, &mut payload[..])
                    .map_err(|_| damaged("a block does not decompress"))?;
                payload.truncate(got);
            }
            2 => {
                flate2::read::ZlibDecoder::new(stored)
                    .take(length as u64 + 1)
                    .read_to_end(payload)
                    .map_err(|_| damaged("a block does not decompress"))?;
            }
            other => return Err(damaged(&format!("unknown compression {other}"))),
        }
        if payload.len() != length {
            return Err(damaged("a block does not have its stated length"));
        }
        Ok(())
    }
}
