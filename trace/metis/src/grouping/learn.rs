//! From a profile to groups.

use std::collections::BTreeMap;

use crate::algorithm::plan::{Plan, PlannedGroup};
use crate::algorithm::{Activation, Control, Metis, MetisOptions};
use crate::heap::{HeapOptions, Simulator, Stopped};
use trace_format::{Event, SiteId};

use super::Grouping;
use super::profile::{Profiler, SiteProfile};

/// A site is too rare to learn from below this many objects.
const FEWEST_OBJECTS: u64 = 8;

/// Replays the training trace and groups its sites. A training trace that runs out of memory teaches what it
/// showed until then.
pub fn learn(
    grouping: Grouping,
    training: &[Event],
    heap: &HeapOptions,
    metis: &MetisOptions,
) -> Result<Plan, Stopped> {
    if grouping == Grouping::Metis {
        return learn_as_the_paper(training, heap, metis);
    }
    let mut simulator = Simulator::new(*heap, Profiler::new(heap.granule_bytes))?;
    ignore_out_of_memory(simulator.run(training))?;
    let profiler = simulator.placement();
    let group_of = match grouping {
        Grouping::Components => by_components(profiler),
        Grouping::Lifetimes => by_lifetime(profiler),
        Grouping::Deaths => by_deaths(profiler),
        Grouping::Survival => by_survival(profiler),
        Grouping::Sites | Grouping::Metis => by_site(profiler),
    };
    Ok(plan(grouping, profiler, group_of))
}

fn learn_as_the_paper(
    training: &[Event],
    heap: &HeapOptions,
    metis: &MetisOptions,
) -> Result<Plan, Stopped> {
    // Profiles the whole training trace: "elsewhere" there is time to.
    let whole = MetisOptions {
        activation: Activation::Collections(u64::MAX),
        ..*metis
    };
    let placement = Metis::new(whole, Control::Learned, heap.granule_bytes);
    let mut simulator = Simulator::new(*heap, placement)?;
    ignore_out_of_memory(simulator.run(training))?;
    simulator.placement_mut().activate();
    Ok(simulator.placement().plan().cloned().unwrap_or_default())
}

pub(super) fn ignore_out_of_memory(outcome: Result<(), Stopped>) -> Result<(), Stopped> {
    match outcome {
        Err(Stopped::OutOfMemory { .. }) => Ok(()),
        other => other,
    }
}

/// Cosine of two sites' deaths over time from which they count as the same.
const ALIKE: f64 = 0.7;

type GroupOf = BTreeMap<SiteId, u32>;

fn known_sites(profiler: &Profiler) -> BTreeMap<SiteId, &SiteProfile> {
    let sites = profiler
        .sites
        .iter()
        .map(|(site, profile)| (*site, profile));
    sites
        .filter(|(_, profile)| profile.objects >= FEWEST_OBJECTS)
        .collect()
}

fn by_site(profiler: &Profiler) -> GroupOf {
    known_sites(profiler).into_keys().zip(0..).collect()
}

fn by_survival(profiler: &Profiler) -> GroupOf {
    let sites = known_sites(profiler).into_iter();
    sites
        .map(|(site, profile)| (site, u32::from(profile.survives())))
        .collect()
}

fn by_lifetime(profiler: &Profiler) -> GroupOf {
    let class = |profile: &SiteProfile| profile.median_lifetime() / 3;
    let sites = known_sites(profiler);
    let mut classes: Vec<u32> = sites.values().map(|profile| class(profile)).collect();
    classes.sort_unstable();
    classes.dedup();
    let number = |class: u32| classes.binary_search(&class).unwrap_or(0) as u32;
    sites
        .into_iter()
        .map(|(site, profile)| (site, number(class(profile))))
        .collect()
}

/// Each site, those that free most first, joins the group whose deaths are most like its own, or begins one.
fn by_deaths(profiler: &Profiler) -> GroupOf {
    let mut sites: Vec<(SiteId, &SiteProfile)> = known_sites(profiler).into_iter().collect();
    sites.sort_by_key(|(site, profile)| (std::cmp::Reverse(profile.bytes), *site));
    let mut groups: Vec<Vec<f64>> = Vec::new();
    let mut group_of = GroupOf::new();
    for (site, profile) in sites {
        let deaths: Vec<f64> = profile.deaths.iter().map(|bytes| *bytes as f64).collect();
        let alike = |group: &Vec<f64>| cosine(group, &deaths);
        let best =
            (0..groups.len()).max_by(|a, b| alike(&groups[*a]).total_cmp(&alike(&groups[*b])));
        let group = match best.filter(|group| alike(&groups[*group]) >= ALIKE) {
            Some(group) => group,
            None => {
                groups.push(Vec::new());
                groups.len() - 1
            }
        };
        let sum = &mut groups[group];
        sum.resize(sum.len().max(deaths.len()), 0.0);
        sum.iter_mut()
            .zip(&deaths)
            .for_each(|(sum, bytes)| *sum += bytes);
        group_of.insert(site, group as u32);
    }
    group_of
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let lengths = (product(one, one) * product(other, other)).sqrt();
    if lengths > 0.0 {
        product(one, other) / lengths
    } else {
        0.0
    }
}

/// Joins two sites when each is in most of the components that hold the other.
fn by_components(profiler: &Profiler) -> GroupOf {
    let sites = known_sites(profiler);
    let mut leader: BTreeMap<SiteId, SiteId> = sites.keys().map(|site| (*site, *site)).collect();
    let mut pairs: Vec<(&(SiteId, SiteId), &u64)> = profiler.together.iter().collect();
    pairs.sort_unstable();
    for ((one, other), together) in pairs {
        let (Some(first), Some(second)) = (sites.get(one), sites.get(other)) else {
            continue;
        };
        if 2 * together > first.components && 2 * together > second.components {
            let (first, second) = (find(&leader, *one), find(&leader, *other));
            leader.insert(first.max(second), first.min(second));
        }
    }
    let leaders: Vec<SiteId> = sites.keys().map(|site| find(&leader, *site)).collect();
    let mut distinct = leaders.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let number = |site: &SiteId| distinct.binary_search(site).unwrap_or(0) as u32;
    sites.into_keys().zip(leaders.iter().map(number)).collect()
}

fn find(leader: &BTreeMap<SiteId, SiteId>, mut site: SiteId) -> SiteId {
    while let Some(next) = leader.get(&site).filter(|next| **next != site) {
        site = *next;
    }
    site
}

fn plan(grouping: Grouping, profiler: &Profiler, group_of: GroupOf) -> Plan {
    let count = group_of
        .values()
        .max()
        .map_or(0, |highest| *highest as usize + 1);
    let mut groups = vec![PlannedGroup::default(); count];
    let mut objects = vec![0u64; count];
    let mut bytes = vec![0u64; count];
    let mut deaths = vec![0u64; count];
    for (site, group) in &group_of {
        let profile = &profiler.sites[site];
        objects[*group as usize] += profile.objects;
        bytes[*group as usize] += profile.bytes;
        groups[*group as usize].survives |= grouping == Grouping::Survival && *group == 1;
        deaths[*group as usize] = deaths[*group as usize].max(profile.components);
    }
    for (group, planned) in groups.iter_mut().enumerate() {
        planned.average_object = bytes[group].div_ceil(objects[group].max(1));
        planned.bytes = bytes[group].div_ceil(deaths[group].max(1));
    }
    Plan {
        groups,
        group_of: group_of.into_iter().collect(),
    }
}
