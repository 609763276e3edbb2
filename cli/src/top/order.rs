//! By what the processes are sorted.

use std::cmp::Reverse;

use crate::processes::Row;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Physical,
    Saved,
    Warm,
    Faults,
    Process,
}

impl Order {
    pub fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'p' => Self::Physical,
            's' => Self::Saved,
            'w' => Self::Warm,
            'f' => Self::Faults,
            'i' => Self::Process,
            _ => return None,
        })
    }

    pub fn sort(self, rows: &mut [Row]) {
        match self {
            Self::Physical => rows.sort_by_key(|row| Reverse(row.physical_bytes)),
            Self::Saved => rows.sort_by_key(|row| Reverse(row.saved_bytes)),
            Self::Warm => rows.sort_by_key(|row| Reverse(row.warm_bytes)),
            Self::Faults => rows.sort_by_key(|row| Reverse(row.page_faults)),
            Self::Process => rows.sort_by_key(|row| row.process),
        }
    }
}
