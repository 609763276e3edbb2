//! What profiling leaves behind: which sites share a region group, and how large it is.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use trace_format::SiteId;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedGroup {
    /// Bytes of a region group, without its buffer.
    pub bytes: u64,
    pub average_object: u64,
    /// Objects that escape their thread: shared by all threads (section 7).
    pub escaped: bool,
    /// Objects that outlive collections (grouping past the paper).
    pub survives: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub groups: Vec<PlannedGroup>,
    pub group_of: FxHashMap<SiteId, u32>,
}

impl Plan {
    /// Predicts nothing: everything goes to the global heap.
    pub fn is_empty(&self) -> bool {
        self.group_of.is_empty()
    }

    /// That most of the site's objects outlive a collection.
    pub fn says_survives(&self, site: SiteId) -> bool {
        let group = self.group_of.get(&site);
        group
            .and_then(|group| self.groups.get(*group as usize))
            .is_some_and(|group| group.survives)
    }

    /// Whether shuffling changes anything: where every site is a group of its own it does not.
    pub fn has_shared_groups(&self) -> bool {
        let distinct: FxHashSet<&u32> = self.group_of.values().collect();
        distinct.len() < self.group_of.len()
    }

    /// The control: as many groups, of the same sizes and with as many sites each, but any site in any group.
    pub fn randomized(&self, seed: u64) -> Self {
        let mut sites: Vec<(SiteId, u32)> = self
            .group_of
            .iter()
            .map(|(site, group)| (*site, *group))
            .collect();
        sites.sort_unstable();
        let (sites, mut groups): (Vec<SiteId>, Vec<u32>) = sites.into_iter().unzip();
        fastrand::Rng::with_seed(seed).shuffle(&mut groups);
        Self {
            groups: self.groups.clone(),
            group_of: sites.into_iter().zip(groups).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_groups_keep_the_sizes() {
        let group_of: FxHashMap<SiteId, u32> = (0..90).map(|site| (site, site / 30)).collect();
        let plan = Plan {
            groups: vec![PlannedGroup::default(); 3],
            group_of,
        };
        let random = plan.randomized(1);
        let count =
            |plan: &Plan, group| plan.group_of.values().filter(|one| **one == group).count();
        assert!((0..3).all(|group| count(&random, group) == count(&plan, group)));
        assert_ne!(random, plan);
        assert_eq!(random, plan.randomized(1), "the same seed, the same groups");
        assert_ne!(random, plan.randomized(2));
        assert!(plan.has_shared_groups());
        let alone = Plan {
            group_of: (0..9).map(|site| (site, site)).collect(),
            ..Plan::default()
        };
        assert!(!alone.has_shared_groups());
    }
}
