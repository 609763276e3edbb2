//! Integers of variable length (LEB128), read from and appended to byte strings.

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads a payload from its start to its end.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// None where the bytes end or the number has more than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        // Most have one to three bytes: no loop for those.
        if let Some(&[a, b, c]) = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk())
        {
            if a < 0x80 {
                self.at += 1;
                return Some(u64::from(a));
            }
            if b < 0x80 {
                self.at += 2;
                return Some(u64::from(a & 0x7f) | u64::from(b) << 7);
            }
            if c < 0x80 {
                self.at += 3;
                return Some(u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14);
            }
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let found = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                let mut cursor = Cursor::new(&bytes);
                assert_eq!(cursor.varint(), Some(value));
                assert!(cursor.is_at_end());
                assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
                assert_eq!(Cursor::new(&bytes[..bytes.len() - 1]).varint(), None);
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(1);
        assert_eq!(Cursor::new(&bytes).varint(), Some(u64::MAX));
        bytes[9] = 2;
        assert_eq!(Cursor::new(&bytes).varint(), None);
        bytes[9] = 0x80;
        bytes.push(0);
        assert_eq!(Cursor::new(&bytes).varint(), None);
    }
}
