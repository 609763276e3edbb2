//! The paper's metrics (section 6), and those that it leaves out.
//!
//! All are taken when an allocation finds no place, just before and after the collection that follows.

use serde::{Deserialize, Serialize};

use crate::heap::placement::Phase;

/// Longest series kept; a longer one is thinned to every second, fourth, ... collection.
const LONGEST_SERIES: usize = 1 << 16;

/// One collection. Bytes are whole granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collection {
    /// The time: allocations executed so far.
    pub allocations: u64,
    pub phase: Phase,
    /// Global heap and region groups.
    pub heap_bytes: u64,
    pub global_bytes: u64,
    pub global_free: u64,
    pub global_holes: u64,
    pub regions: u64,
    pub region_free: u64,
    pub region_holes: u64,
    pub reclaimed: u64,
    pub regions_after: u64,
    /// Holes anywhere after the collection.
    pub holes_after: u64,
}

impl Collection {
    pub fn region_bytes(&self) -> u64 {
        self.heap_bytes - self.global_bytes
    }

    pub fn occupied(&self) -> u64 {
        self.heap_bytes - self.free()
    }

    pub fn free(&self) -> u64 {
        self.global_free + self.region_free
    }

    pub fn holes(&self) -> u64 {
        self.global_holes + self.region_holes
    }

    /// Section 6.1: reclaimed over occupied before.
    pub fn efficiency(&self) -> Option<f64> {
        ratio(self.reclaimed, self.occupied())
    }

    /// Section 6.2: free bytes of the global heap over its size.
    pub fn fragmentation_ratio(&self) -> Option<f64> {
        ratio(self.global_free, self.global_bytes)
    }

    /// Not in the paper: free bytes anywhere over the whole heap. What moves into region groups stays counted.
    pub fn total_free_ratio(&self) -> Option<f64> {
        ratio(self.free(), self.heap_bytes)
    }

    /// Section 6.3, first reading: the global heap's free bytes over its holes, as its first sentence says.
    pub fn global_hole_size(&self) -> Option<f64> {
        ratio(self.global_free, self.global_holes)
    }

    /// Section 6.3, second reading: "regardless of the hole location", as it says of figure 7.
    pub fn hole_size(&self) -> Option<f64> {
        ratio(self.free(), self.holes())
    }

    /// Section 6.4: region groups given back over region groups before.
    pub fn region_group_efficiency(&self) -> Option<f64> {
        ratio(
            self.regions.saturating_sub(self.regions_after),
            self.regions,
        )
    }

    /// Section 6.5: bytes occupied in region groups over all bytes occupied.
    pub fn region_group_significance(&self) -> Option<f64> {
        ratio(self.region_bytes() - self.region_free, self.occupied())
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The collections of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Every `stride`-th collection is kept.
    pub stride: u64,
    /// How many there were.
    pub count: u64,
    pub collections: Vec<Collection>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            stride: 1,
            count: 0,
            collections: Vec::new(),
        }
    }
}

impl Series {
    pub fn push(&mut self, collection: Collection) {
        if self.count.is_multiple_of(self.stride) {
            if self.collections.len() == LONGEST_SERIES {
                let mut at = 0;
                self.collections.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.collections.push(collection);
            }
        }
        self.count += 1;
    }

    /// The averages over the collections from `start` allocations on.
    pub fn averages(&self, start: u64) -> Averages {
        let window: Vec<&Collection> = self
            .collections
            .iter()
            .filter(|collection| collection.allocations >= start)
            .collect();
        let mean = |of: &dyn Fn(&Collection) -> Option<f64>| {
            let values: Vec<f64> = window
                .iter()
                .filter_map(|collection| of(collection))
                .collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Averages {
            collections: window.len() as u64 * self.stride,
            efficiency: mean(&Collection::efficiency),
            fragmentation_ratio: mean(&Collection::fragmentation_ratio),
            total_free_ratio: mean(&Collection::total_free_ratio),
            global_holes: mean(&|collection| Some(collection.global_holes as f64)),
            all_holes: mean(&|collection| Some(collection.holes() as f64)),
            holes_after: mean(&|collection| Some(collection.holes_after as f64)),
            global_hole_size: mean(&Collection::global_hole_size),
            hole_size: mean(&Collection::hole_size),
            region_group_efficiency: mean(&Collection::region_group_efficiency),
            region_group_significance: mean(&Collection::region_group_significance),
            heap_bytes: mean(&|collection| Some(collection.heap_bytes as f64)),
        }
    }
}

/// Means over collections; None where no collection had a value (no region groups, no holes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Averages {
    pub collections: u64,
    pub efficiency: Option<f64>,
    pub fragmentation_ratio: Option<f64>,
    pub total_free_ratio: Option<f64>,
    pub global_holes: Option<f64>,
    pub all_holes: Option<f64>,
    /// Not in the paper: what the collection left for the next allocations.
    pub holes_after: Option<f64>,
    pub global_hole_size: Option<f64>,
    pub hole_size: Option<f64>,
    pub region_group_efficiency: Option<f64>,
    pub region_group_significance: Option<f64>,
    pub heap_bytes: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes, 400 of them in two region groups; 300 + 100 free in 10 + 2 holes; 360 reclaimed.
    fn example() -> Collection {
        Collection {
            allocations: 50,
            phase: Phase::Activation,
            heap_bytes: 1000,
            global_bytes: 600,
            global_free: 300,
            global_holes: 10,
            regions: 2,
            region_free: 100,
            region_holes: 2,
            reclaimed: 360,
            regions_after: 1,
            holes_after: 7,
        }
    }

    #[test]
    fn metrics_follow_their_definitions() {
        let collection = example();
        assert_eq!(collection.occupied(), 600);
        assert_eq!(collection.efficiency(), Some(0.6));
        assert_eq!(collection.fragmentation_ratio(), Some(0.5));
        assert_eq!(collection.total_free_ratio(), Some(0.4));
        assert_eq!(collection.global_hole_size(), Some(30.0));
        assert_eq!(collection.hole_size(), Some(400.0 / 12.0));
        assert_eq!(collection.region_group_efficiency(), Some(0.5));
        assert_eq!(collection.region_group_significance(), Some(0.5));
    }

    #[test]
    fn what_cannot_be_divided_is_left_out_of_averages() {
        let mut series = Series::default();
        series.push(example());
        let none = Collection {
            heap_bytes: 1000,
            global_bytes: 1000,
            ..Collection::default()
        };
        series.push(Collection {
            allocations: 60,
            ..none
        });
        let averages = series.averages(0);
        assert_eq!(averages.global_hole_size, Some(30.0));
        assert_eq!(averages.fragmentation_ratio, Some(0.25));
        assert_eq!(series.averages(51).region_group_efficiency, None);
        assert_eq!(series.averages(61), Averages::default());
    }

    #[test]
    fn a_long_series_is_thinned_evenly() {
        let mut series = Series::default();
        let many = 5 * LONGEST_SERIES as u64;
        for allocations in 0..many {
            series.push(Collection {
                allocations,
                ..example()
            });
        }
        assert!(series.collections.len() <= LONGEST_SERIES);
        assert_eq!((series.count, series.stride), (many, 8));
        let at: Vec<u64> = series
            .collections
            .iter()
            .map(|one| one.allocations)
            .collect();
        assert!(
            at.windows(2).all(|pair| pair[1] - pair[0] == 8),
            "evenly spaced"
        );
    }
}
