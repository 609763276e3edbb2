//! The references an object holds, by field number. Few objects hold many: those few pay for a map.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::objects::Slot;

const MOST_LISTED: usize = 16;

#[derive(Clone, Debug)]
pub enum Fields {
    List(SmallVec<[(u32, Slot); 4]>),
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
            Self::Map(map) => match target {
                Some(target) => map.insert(field, target),
                None => map.remove(&field),
            },
            Self::List(list) => {
                let at = list.iter().position(|(number, _)| *number == field);
                match (at, target) {
                    (Some(at), Some(target)) => Some(std::mem::replace(&mut list[at].1, target)),
                    (Some(at), None) => Some(list.swap_remove(at).1),
                    (None, None) => None,
                    (None, Some(target)) => {
                        self.push(field, target);
                        None
                    }
                }
            }
        }
    }

    fn push(&mut self, field: u32, target: Slot) {
        let Self::List(list) = self else { return };
        list.push((field, target));
        if list.len() > MOST_LISTED {
            *self = Self::Map(Box::new(list.iter().copied().collect()));
        }
    }

    /// Calls `visit` with each object referred to; once for each field.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(Slot)) {
        match self {
            Self::List(list) => list.iter().for_each(|(_, target)| visit(*target)),
            Self::Map(map) => map.values().for_each(|target| visit(*target)),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(Slot) -> bool) {
        match self {
            Self::List(list) => list.retain(|(_, target)| keep(*target)),
            Self::Map(map) => map.retain(|_, target| keep(*target)),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Self::List(list) => list.clear(),
            Self::Map(_) => *self = Self::default(),
        }
    }
}
