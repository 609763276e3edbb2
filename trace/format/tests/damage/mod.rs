//! Damage to traces, with knowledge of the format: without it, check sums would find every change before any code behind
//! them is reached. Written from docs/reference/trace-format.md, not with the reader's own code.
#![allow(dead_code, clippy::unwrap_used)]

use fastrand::Rng;

pub const FILE_HEADER: usize = 16;
pub const HEADER: usize = 48;
/// Of a block's payload.
pub const MAX_PAYLOAD: usize = 1 << 20;
const MAGIC: &[u8] = b"\x89PWTR\r\n\x1a";

pub const SITES: u8 = 5;
pub const EVENTS: u8 = 6;
pub const INDEX: u8 = 7;
pub const END: u8 = 8;

/// Where the numbers of a block's header stand, and how long they are.
const NUMBERS: [(usize, usize); 8] = [
    (4, 1),
    (5, 1),
    (6, 2),
    (8, 4),
    (12, 4),
    (16, 4),
    (24, 8),
    (32, 8),
];

#[derive(Clone)]
pub struct Block {
    header: [u8; HEADER],
    stored: Vec<u8>,
}

impl Block {
    /// With this payload, compressed.
    pub fn of(kind: u8, records: u32, first: u64, payload: &[u8]) -> Self {
        let mut block = Self {
            header: [0; HEADER],
            stored: Vec::new(),
        };
        block.header[..4].copy_from_slice(b"PWBK");
        block.header[4] = kind;
        block.header[16..20].copy_from_slice(&records.to_le_bytes());
        block.header[24..32].copy_from_slice(&first.to_le_bytes());
        block.fill(payload);
        block.sum();
        block
    }

    pub fn kind(&self) -> u8 {
        self.header[4]
    }

    pub fn length(&self) -> usize {
        HEADER + self.stored.len()
    }

    fn payload(&self) -> Option<Vec<u8>> {
        match self.header[5] {
            0 => Some(self.stored.clone()),
            1 => zstd::bulk::decompress(&self.stored, MAX_PAYLOAD).ok(),
            _ => None,
        }
    }

    fn fill(&mut self, payload: &[u8]) {
        self.stored = zstd::bulk::compress(payload, 1).unwrap();
        self.header[5] = 1;
        self.header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    }

    /// Makes the stored length and the check sums good.
    fn sum(&mut self) {
        let length = (self.stored.len() as u32).to_le_bytes();
        self.header[8..12].copy_from_slice(&length);
        self.sum_only();
    }

    fn sum_only(&mut self) {
        self.header[20..24].copy_from_slice(&crc32fast::hash(&self.stored).to_le_bytes());
        let sum = crc32fast::hash(&self.header[..44]);
        self.header[44..].copy_from_slice(&sum.to_le_bytes());
    }

    fn end(records: [u64; 2]) -> Self {
        let payload: Vec<u8> = records.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut end = Self::of(END, 0, 0, &[]);
        (end.header[5], end.header[12]) = (0, payload.len() as u8);
        end.stored = payload;
        end.sum();
        end
    }
}

/// The blocks of a whole file.
pub fn blocks(bytes: &[u8]) -> Vec<Block> {
    let mut found = Vec::new();
    let mut at = FILE_HEADER;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let header: [u8; HEADER] = header.try_into().unwrap();
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        at += HEADER;
        let stored = bytes[at..at + length].to_vec();
        at += length;
        found.push(Block { header, stored });
    }
    found
}

/// A file of these blocks.
pub fn joined(blocks: &[Block]) -> Vec<u8> {
    let mut bytes = [MAGIC, &[1, 0, 1, 0, 0, 0, 0, 0]].concat();
    for block in blocks {
        bytes.extend(block.header);
        bytes.extend(&block.stored);
    }
    bytes
}

/// A file of these blocks with an end block, which says that the index block is at `index`.
pub fn ended(blocks: &[Block], index: u64) -> Vec<u8> {
    let end = Block::end([index, 0]);
    joined(&[blocks, &[end]].concat())
}

/// Where blocks begin, and where the last one ends.
pub fn borders(bytes: &[u8]) -> Vec<usize> {
    let mut found = vec![0, FILE_HEADER];
    for block in blocks(bytes) {
        found.push(found[found.len() - 1] + block.length());
    }
    found
}

/// One of these traces, damaged in some way: what happened, and the file.
pub fn damaged(whole: &[Vec<u8>], random: &mut Rng) -> (&'static str, Vec<u8>) {
    let bytes = &whole[random.usize(..whole.len())];
    match random.u8(..16) {
        0 => ("bytes", with(bytes.clone(), random, any_bytes)),
        1 => ("cut off", cut_off(bytes, random)),
        2 => ("foreign", foreign(bytes, random)),
        choice => {
            let mut blocks = blocks(bytes);
            // An index says where blocks are and what is in them, and most damage contradicts it.
            if random.u8(..4) > 0 {
                blocks.retain(|block| !matches!(block.kind(), INDEX | END));
            }
            let what = match choice {
                3..6 => header(&mut blocks, random),
                6..8 => order(&mut blocks, whole, random),
                8 => bomb(&mut blocks, random),
                _ => payload(&mut blocks, random),
            };
            (what, joined(&blocks))
        }
    }
}

fn with(mut bytes: Vec<u8>, random: &mut Rng, change: fn(&mut Vec<u8>, &mut Rng)) -> Vec<u8> {
    change(&mut bytes, random);
    bytes
}

/// Changes one to five places, whatever they mean.
pub fn any_bytes(bytes: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        let length = random.usize(1..9).min(bytes.len() - at);
        match random.u8(..6) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at..at + length].fill(0xff),
            2 => bytes[at..at + length].fill(0),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let from = random.usize(..=bytes.len() - length);
                let copied = bytes[from..from + length].to_vec();
                bytes.splice(at..at, copied);
            }
            _ => bytes[at] = random.u8(..),
        }
    }
}

/// At a block's border, beside it, or anywhere.
fn cut_off(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    let borders = borders(bytes);
    let border = borders[random.usize(..borders.len())];
    let end = match random.u8(..3) {
        0 => border,
        1 => (border + random.usize(..HEADER * 2)).saturating_sub(HEADER),
        _ => random.usize(..bytes.len()),
    };
    bytes[..end.min(bytes.len())].to_vec()
}

fn foreign(bytes: &[u8], random: &mut Rng) -> Vec<u8> {
    let noise: Vec<u8> = (0..random.usize(..3000)).map(|_| random.u8(..)).collect();
    match random.u8(..5) {
        0 => noise,
        1 => [&bytes[..FILE_HEADER], &noise].concat(),
        2 => [bytes, &noise].concat(),
        3 => b"\x7fELF\x02\x01\x01"
            .iter()
            .copied()
            .chain(noise)
            .collect(),
        _ => vec![0; noise.len()],
    }
}

/// A number of a header becomes one that it should not be.
fn header(blocks: &mut [Block], random: &mut Rng) -> &'static str {
    let at = random.usize(..blocks.len());
    let block = &mut blocks[at];
    let (place, length) = NUMBERS[random.usize(..NUMBERS.len())];
    let number = number(random).to_le_bytes();
    block.header[place..place + length].copy_from_slice(&number[..length]);
    block.sum_only();
    "a header's number"
}

fn number(random: &mut Rng) -> u64 {
    let power = 1_u64 << random.u32(..64);
    match random.u8(..5) {
        0 => u64::MAX,
        1 => power,
        2 => power - 1,
        3 => u64::from(random.u8(..12)),
        _ => random.u64(..),
    }
}

/// Blocks left out, twice, exchanged, or from another trace.
fn order(blocks: &mut Vec<Block>, whole: &[Vec<u8>], random: &mut Rng) -> &'static str {
    let at = random.usize(..blocks.len());
    match random.u8(..4) {
        0 => drop(blocks.remove(at)),
        1 => blocks.insert(at, blocks[at].clone()),
        2 => {
            let other = random.usize(..blocks.len());
            blocks.swap(at, other);
        }
        _ => {
            let others = self::blocks(&whole[random.usize(..whole.len())]);
            blocks.truncate(at);
            blocks.extend_from_slice(&others[random.usize(..others.len())..]);
        }
    }
    "blocks out of order"
}

/// Little that decompresses to much, of what is said or more.
fn bomb(blocks: &mut [Block], random: &mut Rng) -> &'static str {
    let at = random.usize(..blocks.len());
    let block = &mut blocks[at];
    let said = random.usize(..=MAX_PAYLOAD);
    let length = if random.bool() {
        said
    } else {
        random.usize(..64 << 20)
    };
    let byte = [0, 1, 0x7f, 0xff, random.u8(..)][random.usize(..5)];
    block.fill(&vec![byte; length]);
    block.header[12..16].copy_from_slice(&(said as u32).to_le_bytes());
    if random.bool() {
        let records = random.u32(..70_000).to_le_bytes();
        block.header[16..20].copy_from_slice(&records);
    }
    block.sum();
    "a bomb"
}

/// Records changed, behind check sums that are right.
fn payload(blocks: &mut [Block], random: &mut Rng) -> &'static str {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..blocks.len());
        let block = &mut blocks[at];
        if let Some(payload) = block.payload() {
            let changed = with(payload, random, any_bytes);
            block.fill(&changed);
            block.sum();
        }
    }
    "records"
}
