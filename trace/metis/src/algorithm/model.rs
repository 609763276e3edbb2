//! The instruction counter model of section 4.2: a list of sites (the paper's ICs), each with an array of tuples
//! (probability, group), and the groups.

use rustc_hash::{FxHashMap, FxHashSet};

use trace_format::SiteId;

use super::options::{MetisOptions, RegionSize};

pub type GroupId = u32;

/// One site's part in one group. Its probability is `times` over the times that the site was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    pub group: GroupId,
    pub times: u64,
    /// False while the site is here only because its objects referred to objects of the group (section 4.3).
    pub visited: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub parents: FxHashSet<SiteId>,
    pub graphs: u64,
    pub objects: u64,
    pub all_bytes: u64,
    pub largest_bytes: u64,
    pub last_bytes: u64,
}

impl Group {
    pub fn region_bytes(&self, size: RegionSize) -> u64 {
        match size {
            RegionSize::MeanGraph => self.all_bytes.div_ceil(self.graphs.max(1)),
            RegionSize::LargestGraph => self.largest_bytes,
            RegionSize::LastGraph => self.last_bytes,
            RegionSize::AllGraphs => self.all_bytes,
        }
    }

    pub fn average_object(&self) -> u64 {
        self.all_bytes.div_ceil(self.objects.max(1))
    }
}

/// One dead object as training sees it.
#[derive(Clone, Debug)]
pub struct DeadObject<'a> {
    pub site: SiteId,
    pub bytes: u64,
    /// Sites whose objects ever referred to this one.
    pub parents: &'a [SiteId],
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    list: FxHashMap<SiteId, Vec<Tuple>>,
    executed: FxHashMap<SiteId, u64>,
    groups: Vec<Group>,
}

impl Model {
    pub fn executed(&mut self, site: SiteId) {
        *self.executed.entry(site).or_default() += 1;
    }

    pub fn tuples(&self, site: SiteId) -> &[Tuple] {
        self.list.get(&site).map_or(&[], Vec::as_slice)
    }

    pub fn probability(&self, site: SiteId, tuple: &Tuple) -> f64 {
        let executed = self.executed.get(&site).copied().unwrap_or(0);
        tuple.times as f64 / executed.max(1) as f64
    }

    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub fn contains(&self, site: SiteId) -> bool {
        self.list.contains_key(&site)
    }

    pub fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.list.keys().copied()
    }

    /// The share of the sites executed that are in the list.
    pub fn coverage(&self) -> f64 {
        let covered = self
            .executed
            .keys()
            .filter(|site| self.list.contains_key(site))
            .count();
        covered as f64 / self.executed.len().max(1) as f64
    }

    /// Section 4.3: identifies the group of a reclaimable graph and adds the graph's sites to it.
    pub fn add_graph(&mut self, graph: &[DeadObject<'_>]) -> GroupId {
        let group = self.identify(graph);
        let bytes = graph.iter().map(|object| object.bytes).sum();
        let entry = &mut self.groups[group as usize];
        entry.graphs += 1;
        entry.objects += graph.len() as u64;
        entry.all_bytes += bytes;
        entry.largest_bytes = entry.largest_bytes.max(bytes);
        entry.last_bytes = bytes;
        for object in graph {
            let tuple = self.tuple(object.site, group);
            tuple.times += 1;
            tuple.visited = true;
        }
        for parent in graph.iter().flat_map(|object| object.parents) {
            self.groups[group as usize].parents.insert(*parent);
            self.tuple(*parent, group);
        }
        group
    }

    /// The group that most of the graph's known sites are in; the oldest among equals; a new one where none is.
    fn identify(&mut self, graph: &[DeadObject<'_>]) -> GroupId {
        let known: FxHashSet<SiteId> = graph
            .iter()
            .map(|object| object.site)
            .filter(|site| self.contains(*site))
            .collect();
        let mut votes: FxHashMap<GroupId, u64> = FxHashMap::default();
        for tuple in known.iter().flat_map(|site| self.tuples(*site)) {
            *votes.entry(tuple.group).or_default() += 1;
        }
        let most = votes
            .into_iter()
            .max_by_key(|(group, votes)| (*votes, u32::MAX - group));
        most.map_or_else(|| self.new_group(), |(group, _)| group)
    }

    fn new_group(&mut self) -> GroupId {
        self.groups.push(Group::default());
        self.groups.len() as GroupId - 1
    }

    fn tuple(&mut self, site: SiteId, group: GroupId) -> &mut Tuple {
        let tuples = self.list.entry(site).or_default();
        let at = tuples
            .iter()
            .position(|tuple| tuple.group == group)
            .unwrap_or_else(|| {
                tuples.push(Tuple {
                    group,
                    times: 0,
                    visited: false,
                });
                tuples.len() - 1
            });
        &mut tuples[at]
    }

    /// Sorts the tuples, most probable first, and applies both rules of section 4.2. A tuple that has not been visited
    /// yet has no probability to judge: only rule a can take it.
    pub fn prune(&mut self, options: &MetisOptions) {
        for (site, tuples) in &mut self.list {
            tuples.sort_by_key(|tuple| std::cmp::Reverse(tuple.times));
            tuples.truncate(options.tuple_limit.saturating_sub(1));
            let executed = self.executed.get(site).copied().unwrap_or(0).max(1) as f64;
            tuples.retain(|tuple| {
                !tuple.visited || tuple.times as f64 / executed >= options.least_probability
            });
        }
    }

    /// Section 4.3, end of profiling: what was never visited goes, and so does a site without a tuple.
    pub fn finish(&mut self, options: &MetisOptions) {
        self.prune(options);
        for tuples in self.list.values_mut() {
            tuples.retain(|tuple| tuple.visited);
        }
        self.list.retain(|_, tuples| !tuples.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(site: SiteId, parents: &[SiteId]) -> DeadObject<'_> {
        DeadObject {
            site,
            bytes: 10 * u64::from(site),
            parents,
        }
    }

    fn groups_of(model: &Model, site: SiteId) -> Vec<GroupId> {
        let mut groups: Vec<GroupId> = model.tuples(site).iter().map(|tuple| tuple.group).collect();
        groups.sort_unstable();
        groups
    }

    /// Figure 3: sweeping begins at O1, which O0 refers to; O3 refers to O2, a child of O1. When O0 and O3 are
    /// swept, O1 and its children are gone, and the parents' sites still lead to the same group.
    #[test]
    fn figure_3_parents_keep_a_graph_together_that_is_swept_from_the_middle() {
        let mut model = Model::default();
        (0..5).for_each(|site| model.executed(site));
        let first = model.add_graph(&[object(1, &[0]), object(2, &[1, 3]), object(4, &[1])]);
        assert!(!model.tuples(0)[0].visited && !model.tuples(3)[0].visited);
        assert!(model.tuples(1)[0].visited);
        assert!(model.groups()[0].parents.contains(&0) && model.groups()[0].parents.contains(&3));
        assert_eq!(model.add_graph(&[object(0, &[])]), first);
        assert_eq!(model.add_graph(&[object(3, &[])]), first);
        assert!(
            model.tuples(0)[0].visited,
            "the mark goes once the site is visited"
        );
        assert_eq!(model.groups().len(), 1);
    }

    #[test]
    fn without_parents_the_same_sweep_would_make_three_groups() {
        let mut model = Model::default();
        (0..5).for_each(|site| model.executed(site));
        model.add_graph(&[object(1, &[]), object(2, &[]), object(4, &[])]);
        model.add_graph(&[object(0, &[])]);
        model.add_graph(&[object(3, &[])]);
        assert_eq!(model.groups().len(), 3);
    }

    /// Figure 2: O5's site is in two groups, its array has two tuples, the more probable one first.
    #[test]
    fn figure_2_a_site_can_be_in_two_groups() {
        let mut model = Model::default();
        (1..10).for_each(|_| model.executed(5));
        [1, 2, 3, 4].iter().for_each(|site| model.executed(*site));
        let one = model.add_graph(&[object(1, &[]), object(2, &[])]);
        let other = model.add_graph(&[object(3, &[]), object(4, &[])]);
        assert_ne!(one, other);
        model.add_graph(&[object(1, &[]), object(2, &[]), object(5, &[])]);
        for _ in 0..2 {
            model.add_graph(&[object(3, &[]), object(4, &[]), object(5, &[])]);
        }
        assert_eq!(groups_of(&model, 5), [one, other]);
        model.prune(&MetisOptions::default());
        assert_eq!(model.tuples(5)[0].group, other);
        assert_eq!(model.probability(5, &model.tuples(5)[0]), 2.0 / 9.0);
        assert_eq!(model.probability(5, &model.tuples(5)[1]), 1.0 / 9.0);
    }

    #[test]
    fn both_rules_shorten_the_array() {
        let mut model = Model::default();
        (0..100).for_each(|_| model.executed(9));
        let mut place = |site, times| {
            model.list.entry(9).or_default().push(Tuple {
                group: site,
                times,
                visited: true,
            });
        };
        [(0, 9), (1, 30), (2, 20), (3, 12)]
            .iter()
            .for_each(|(group, times)| place(*group, *times));
        let options = MetisOptions::default();
        let mut longer = model.clone();
        model.prune(&options);
        assert_eq!(groups_of(&model, 9), [1, 2], "rule a: fewer than three");
        longer.prune(&MetisOptions {
            tuple_limit: 10,
            ..options
        });
        assert_eq!(
            groups_of(&longer, 9),
            [1, 2, 3],
            "rule b: 9 of 100 is below .1"
        );
    }

    #[test]
    fn what_was_never_visited_is_gone_when_profiling_ends() {
        let mut model = Model::default();
        [1, 2].iter().for_each(|site| model.executed(*site));
        model.add_graph(&[object(1, &[2])]);
        model.prune(&MetisOptions::default());
        assert!(
            model.contains(2),
            "rule b does not judge what has no probability yet"
        );
        model.finish(&MetisOptions::default());
        assert!(model.contains(1) && !model.contains(2));
    }

    #[test]
    fn a_region_is_as_large_as_the_reading_says() {
        let mut model = Model::default();
        [1, 2, 3].iter().for_each(|site| model.executed(*site));
        let group = model.add_graph(&[object(1, &[]), object(2, &[])]);
        assert_eq!(
            model.add_graph(&[object(1, &[]), object(2, &[]), object(3, &[])]),
            group
        );
        assert_eq!(model.add_graph(&[object(1, &[])]), group);
        let bytes = |size| model.groups()[group as usize].region_bytes(size);
        assert_eq!(bytes(RegionSize::MeanGraph), 100u64.div_ceil(3));
        assert_eq!(bytes(RegionSize::LargestGraph), 60);
        assert_eq!(bytes(RegionSize::LastGraph), 10);
        assert_eq!(bytes(RegionSize::AllGraphs), 100);
        assert_eq!(
            model.groups()[group as usize].average_object(),
            100u64.div_ceil(6)
        );
    }
}
