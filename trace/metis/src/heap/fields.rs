//! The references an object holds, by field number. Few objects hold many: those are arrays as a rule, and sparse ones
//! pay for a map.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::slot::Slot;

const MOST_LISTED: usize = 16;
const NONE: Slot = Slot::MAX;

#[derive(Clone, Debug)]
pub enum Fields {
    List(SmallVec<[(u32, Slot); 4]>),
    /// By field number; `held` of them are not `NONE`.
    Array {
        slots: Vec<Slot>,
        held: usize,
    },
    Map(Box<FxHashMap<u32, Slot>>),
}

impl Default for Fields {
    fn default() -> Self {
        Self::List(SmallVec::new())
    }
}

impl Fields {
    /// Makes `field` refer to `target`, and says what it referred to before.
    #[inline]
    pub fn set(&mut self, field: u32, target: Option<Slot>) -> Option<Slot> {
        match self {
            Self::List(list) => {
                let at = list.iter().position(|(number, _)| *number == field);
                match (at, target) {
                    (Some(at), Some(target)) => Some(std::mem::replace(&mut list[at].1, target)),
                    (Some(at), None) => Some(list.swap_remove(at).1),
                    (None, None) => None,
                    (None, Some(target)) => self.add(field, target),
                }
            }
            Self::Array { slots, held } => match slots.get_mut(field as usize) {
                Some(slot) => {
                    let before = std::mem::replace(slot, target.unwrap_or(NONE));
                    *held += usize::from(target.is_some());
                    *held -= usize::from(before != NONE);
                    (before != NONE).then_some(before)
                }
                None => target.and_then(|target| self.add(field, target)),
            },
            Self::Map(map) => match target {
                Some(target) => map.insert(field, target),
                None => map.remove(&field),
            },
        }
    }

    /// Adds a field that is not there, changing the form where it must.
    fn add(&mut self, field: u32, target: Slot) -> Option<Slot> {
        match self {
            Self::List(list) => {
                list.push((field, target));
                if list.len() > MOST_LISTED {
                    let fields = std::mem::take(list);
                    *self = Self::for_fields(&fields);
                    for (field, target) in fields {
                        self.set(field, Some(target));
                    }
                }
            }
            Self::Array { slots, held } if worth_an_array(field, *held) => {
                slots.resize(field as usize, NONE);
                slots.push(target);
                *held += 1;
            }
            Self::Array { slots, .. } => {
                let held = slots
                    .iter()
                    .copied()
                    .zip(0u32..)
                    .filter(|(slot, _)| *slot != NONE);
                let mut map: FxHashMap<u32, Slot> =
                    held.map(|(slot, field)| (field, slot)).collect();
                map.insert(field, target);
                *self = Self::Map(Box::new(map));
            }
            Self::Map(map) => return map.insert(field, target),
        }
        None
    }

    fn for_fields(fields: &[(u32, Slot)]) -> Self {
        if fields
            .iter()
            .all(|(field, _)| worth_an_array(*field, fields.len()))
        {
            Self::Array {
                slots: Vec::new(),
                held: 0,
            }
        } else {
            Self::Map(Box::default())
        }
    }

    /// Calls `visit` with each object referred to; once for each field.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(Slot)) {
        match self {
            Self::List(list) => list.iter().for_each(|(_, target)| visit(*target)),
            Self::Array { slots, .. } => {
                slots
                    .iter()
                    .filter(|slot| **slot != NONE)
                    .for_each(|target| visit(*target));
            }
            Self::Map(map) => map.values().for_each(|target| visit(*target)),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.is_empty(),
            Self::Array { held, .. } => *held == 0,
            Self::Map(map) => map.is_empty(),
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(Slot) -> bool) {
        match self {
            Self::List(list) => list.retain(|(_, target)| keep(*target)),
            Self::Array { slots, held } => {
                for slot in slots.iter_mut().filter(|slot| **slot != NONE) {
                    if !keep(*slot) {
                        *slot = NONE;
                        *held -= 1;
                    }
                }
            }
            Self::Map(map) => map.retain(|_, target| keep(*target)),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Self::List(list) => list.clear(),
            Self::Array { .. } | Self::Map(_) => *self = Self::default(),
        }
    }
}

/// An array may have so many empty places, and no more: hostile field numbers must not make it large.
fn worth_an_array(field: u32, held: usize) -> bool {
    field as usize <= 2 * held + 64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_form_agrees_with_a_map() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut fields = Fields::default();
            let mut expected: BTreeMap<u32, Slot> = BTreeMap::new();
            let widest = *random
                .choice(&[3, 20, 90, 400, u32::MAX])
                .expect("not empty");
            for step in 0..500 {
                let context = format!("seed {seed}, step {step}");
                let field = random.u32(0..widest);
                let target = if random.u32(0..3) == 0 {
                    None
                } else {
                    Some(random.u32(0..50))
                };
                let before = match target {
                    Some(target) => expected.insert(field, target),
                    None => expected.remove(&field),
                };
                assert_eq!(fields.set(field, target), before, "{context}");
                if random.u32(0..100) == 0 {
                    fields.retain(|slot| slot % 7 != 0);
                    expected.retain(|_, slot| *slot % 7 != 0);
                }
                let mut seen = Vec::new();
                fields.each(|slot| seen.push(slot));
                let mut values: Vec<Slot> = expected.values().copied().collect();
                seen.sort_unstable();
                values.sort_unstable();
                assert_eq!(seen, values, "{context}");
                assert_eq!(fields.is_empty(), expected.is_empty(), "{context}");
            }
        }
    }

    #[test]
    fn growing_field_numbers_do_not_grow_an_array() {
        let mut fields = Fields::default();
        let mut field = 1;
        for _ in 0..20 {
            fields.set(field, Some(1));
            field = 2 * field + 60;
        }
        assert!(matches!(fields, Fields::Map(_)));
    }
}
