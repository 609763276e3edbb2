//! Manners blocks: what programs asked for beyond allocations and frees. Each stands before the event block that it
//! speaks of; who does not know them loses nothing else.

use super::varint::{self, Cursor};

/// What a program asked for beyond an allocation or a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A `Free` that is the first half of a realloc: the thread's next `Allocate` takes over the contents.
    Resized,
    /// An `Allocate` at a multiple of 2 to this power, which is at least 1.
    Aligned(u8),
}

const LARGEST_POWER: u64 = 63;

/// (number of the event in its block, manner), in order.
pub type Manners = Vec<(u32, Manner)>;

pub fn encode(manners: &Manners) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut before = 0;
    for (event, manner) in manners {
        varint::put(&mut payload, u64::from(event - before));
        before = *event;
        varint::put(
            &mut payload,
            match manner {
                Manner::Resized => 0,
                Manner::Aligned(power) => u64::from(*power),
            },
        );
    }
    payload
}

/// None: damaged. Manners of a later version are left out.
pub fn decode(payload: &[u8], records: u32) -> Option<Manners> {
    let mut cursor = Cursor::new(payload);
    let mut event = 0_u32;
    let mut manners = Manners::new();
    for record in 0..records {
        let step = u32::try_from(cursor.varint()?).ok()?;
        if step == 0 && record > 0 {
            return None;
        }
        event = event.checked_add(step)?;
        match cursor.varint()? {
            0 => manners.push((event, Manner::Resized)),
            power if power <= LARGEST_POWER => manners.push((event, Manner::Aligned(power as u8))),
            _ => {}
        }
    }
    cursor.is_at_end().then_some(manners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manners_come_back() {
        let manners = vec![
            (0, Manner::Aligned(12)),
            (7, Manner::Resized),
            (65_535, Manner::Aligned(63)),
        ];
        let payload = encode(&manners);
        assert_eq!(decode(&payload, 3), Some(manners));
        assert_eq!(decode(&payload, 4), None);
        assert_eq!(decode(&payload, 2), None);
        assert_eq!(decode(&[], 0), Some(Vec::new()));
    }

    #[test]
    fn what_is_out_of_order_is_damage_and_what_is_new_is_skipped() {
        assert_eq!(decode(&[3, 0, 0, 0], 2), None);
        assert_eq!(decode(&[3, 100, 1, 0], 2), Some(vec![(4, Manner::Resized)]));
    }
}
