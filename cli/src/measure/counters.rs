//! Physical memory by the kernel's own counters, for less than half a percent of a core.
//!
//! The counters of one process are its pages, and no anonymous page is mapped twice in it. What they do not tell is
//! found out in other ways: which snapshot pages there are, mapped or not, by the files' sizes; what forked processes
//! have in common, by a look at proportional sizes now and then.
//!
//! A memory cgroup of the command's own would tell the latter at once. But to enter one takes ten milliseconds.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::allowance::{Allowance, thread_cpu_time};
use super::available::has_hugetlb_pool;
use super::family::Family;
use super::page_map::page_size;
use super::process_status::{self, ProcessStatus};
use super::process_tree::{self, Strangers};
use super::pss;
use super::reading::Reading;
use super::shared::{Part, Shared, largest, sum};
use super::snapshot::{self, Inode};

/// All is looked at this often, and what moves quickly in between.
const THOROUGH: Duration = Duration::from_millis(200);
/// Or as seldom as this share of a core demands: were every look a thorough one, peaks would be missed.
const THOROUGH_SHARE: f64 = 0.0008;
/// But not more seldom: a file of snapshots that has come since counts from then on only.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// What a process maps of files is read anew, where it has moved, at most this often.
const STATUS_REST: Duration = Duration::from_millis(20);
/// Memory that is shared by other means than snapshots is looked for less often where there are snapshots beside it.
const THOROUGH_LOOKS_PER_MAP: u32 = 8;
/// Shared memory that is not worth more than its counters: a statistics block, semaphores.
const WORTH_TELLING: u64 = 1 << 20;
/// What cannot be told of forked processes matters from these bytes on, and from this part of the memory on.
const UNCERTAIN_BYTES: u64 = 4 << 20;
const UNCERTAIN_PART: u64 = 100;
/// Looks at page tables: a share of a core, and what a run may use up at once.
const PAGE_TABLES_SHARE: f64 = 0.001;
const PAGE_TABLES_AT_ONCE: Duration = Duration::from_millis(20);
/// At least so far apart: what is shared changes while processes run, not at once.
const PAGE_TABLES_REST: Duration = Duration::from_millis(25);
/// What a look takes for a page, about.
const NANOSECONDS_A_PAGE: u64 = 20;

pub struct CounterSampler {
    /// The program that this process runs.
    own_program: Option<(u64, u64)>,
    family: Family,
    members: HashMap<i32, Member>,
    snapshots: Vec<(Inode, PathBuf)>,
    forked: Shared,
    shmem: Shared,
    /// Of that, what the last look at page tables found, less what went since.
    sure_of_shmem: u64,
    /// What the counters said at that look.
    shmem_looked_at: u64,
    /// How much of a process's shared memory can be other than snapshots.
    others: HashMap<i32, u64>,
    page_tables: Allowance,
    page_tables_read: Option<Instant>,
    status_read: Instant,
    /// Pages of the pool are in none of the counters that are read quickly.
    has_pool: bool,
    thorough: Option<Instant>,
    thorough_took: Duration,
    thorough_looks: u32,
}

/// What is known of a process from one thorough look to the next.
struct Member {
    status_file: File,
    statm: File,
    program: Option<(u64, u64)>,
    /// Its parent, as long as it runs no program of its own: it has memory of its parent's.
    forked_from: Option<i32>,
    status: ProcessStatus,
    /// What it has mapped since then, too little to read the status anew for: libraries, mostly.
    file_bytes_since: u64,
}

impl CounterSampler {
    pub fn new(strangers: Strangers, started: Instant) -> Self {
        Self {
            own_program: program_of(std::process::id().cast_signed()),
            family: Family::new(strangers),
            members: HashMap::new(),
            snapshots: Vec::new(),
            forked: Shared::default(),
            shmem: Shared::default(),
            sure_of_shmem: 0,
            shmem_looked_at: 0,
            others: HashMap::new(),
            page_tables: Allowance::new(started, PAGE_TABLES_AT_ONCE, PAGE_TABLES_SHARE),
            page_tables_read: None,
            status_read: started,
            has_pool: false,
            thorough: None,
            thorough_took: Duration::ZERO,
            thorough_looks: 0,
        }
    }

    /// CPU time of looks at page tables, which have an allowance of their own.
    pub fn spent_on_page_tables(&self) -> Duration {
        self.page_tables.spent()
    }

    pub fn look(&mut self) -> Reading {
        if self.is_thorough_look_due() || !self.read_quickly() {
            self.look_thoroughly();
        }
        let snapshot_bytes = self.snapshot_bytes();
        let (forked, shmem) = (self.forked_parts(), self.parts_of_shmem());
        let exact = self.exact_look(&forked, &shmem);
        let anonymous = self.anonymous(&forked, exact);
        let mapped = self.sum(|status| status.shmem_bytes);
        let hugetlb_bytes = self.sum(|status| status.hugetlb_bytes);
        let shmem_bytes = self.shmem_bytes(&shmem, mapped, exact);
        Reading {
            bytes: anonymous + self.file_bytes() + snapshot_bytes + shmem_bytes + hugetlb_bytes,
            unmapped_snapshot_bytes: snapshot_bytes.saturating_sub(mapped),
            hugetlb_bytes,
            swap_bytes: self.sum(|status| status.swap_bytes),
            page_table_bytes: self.sum(|status| status.page_table_bytes),
            processes: u32::try_from(self.members.len()).unwrap_or(u32::MAX),
            largest: self.largest(),
            saved_bytes: 0,
            unreadable: 0,
            is_estimated: exact.is_some()
                || self.is_uncertain(&forked)
                || sum(&shmem) >= WORTH_TELLING,
            maps_twice: !self.snapshots.is_empty() || mapped >= WORTH_TELLING,
        }
    }

    fn largest(&self) -> (i32, u64) {
        let each = self
            .members
            .iter()
            .map(|(process, one)| (*process, one.status.resident()));
        each.max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
    }

    /// Those that the last look was at.
    pub fn processes(&self) -> &[i32] {
        self.family.members()
    }

    fn is_thorough_look_due(&self) -> bool {
        let rest = rest_after(self.thorough_took);
        let is_long_ago = self.thorough.is_none_or(|at| at.elapsed() >= rest);
        // One that lived in its parent's memory may have a program of its own by now.
        is_long_ago || self.family.has_changed() || self.members.len() < self.family.members().len()
    }

    /// Anonymous memory of all. Returns whether the rest can be as it was.
    fn read_quickly(&mut self) -> bool {
        let knows_snapshots =
            !self.snapshots.is_empty() && self.others.values().all(|other| *other == 0);
        let may_read = self.status_read.elapsed() >= STATUS_REST;
        let maps_files_alone = self.snapshots.is_empty();
        for member in self.members.values_mut() {
            let Some((resident, shared)) = process_status::resident_and_shared(&member.statm)
            else {
                return false;
            };
            let [resident, shared] = [resident, shared].map(|pages| pages * page_size());
            let status = &mut member.status;
            let moved = shared.abs_diff(status.file_bytes + status.shmem_bytes);
            if moved >= WORTH_TELLING && !knows_snapshots {
                return false;
            }
            if (moved >= WORTH_TELLING || self.has_pool) && may_read {
                // Libraries, or snapshots: one number of the counters for both. Or pages of the pool.
                self.status_read = Instant::now();
                if !member.read() {
                    return false;
                }
                continue;
            }
            status.anonymous_bytes = resident.saturating_sub(shared);
            if maps_files_alone && status.shmem_bytes == 0 {
                member.file_bytes_since = shared.saturating_sub(status.file_bytes);
            }
        }
        true
    }

    fn look_thoroughly(&mut self) {
        let before = thread_cpu_time();
        self.thorough = Some(Instant::now());
        self.has_pool = has_hugetlb_pool();
        self.family.walk();
        self.meet();
        self.search();
        // A process that is gone is met again where another one has its number.
        self.members.retain(|_, member| member.read());
        let is_map_due = self.thorough_looks.is_multiple_of(THOROUGH_LOOKS_PER_MAP)
            || self.others.values().any(|other| *other > 0);
        if self.snapshots.is_empty() {
            self.others.clear();
        } else if is_map_due || self.others.is_empty() {
            let processes = self.members.keys();
            let other = |process: &i32| (*process, snapshot::other_shared_memory(*process));
            self.others = processes.map(other).collect();
        }
        self.thorough_looks += 1;
        self.thorough_took = thread_cpu_time().saturating_sub(before);
    }

    /// What must be known of each process that is in the tree now.
    fn meet(&mut self) {
        let present = self.family.members();
        self.members.retain(|process, _| present.contains(process));
        for &process in present {
            let Some(stat) = process_tree::stat_of(process) else {
                self.members.remove(&process);
                continue;
            };
            let forked_from = is_forked(stat.flags).then_some(stat.ppid);
            if forked_from.is_some() && program_of(process) == self.own_program {
                // The command has not begun: this is our memory still.
                self.members.remove(&process);
                continue;
            }
            if forked_from.is_some_and(|parent| process_tree::same_address_space(process, parent)) {
                self.members.remove(&process);
                continue;
            }
            if let Some(known) = self.members.get_mut(&process) {
                known.program = program_of(process);
                known.forked_from = forked_from;
            } else if let Ok(member) = Member::open(process, forked_from) {
                self.members.insert(process, member);
            }
        }
    }

    /// One that cannot be looked at any more is closed: others may have been opened.
    fn snapshot_bytes(&mut self) -> u64 {
        let held = |(inode, path): &(Inode, PathBuf)| {
            let file = fs::metadata(path).ok()?;
            (file.st_ino() == *inode).then_some(file.st_blocks() * 512)
        };
        let known: Vec<Option<u64>> = self.snapshots.iter().map(held).collect();
        if known.iter().all(Option::is_some) {
            return known.iter().flatten().sum();
        }
        self.search();
        self.snapshots.iter().filter_map(held).sum()
    }

    fn search(&mut self) {
        self.snapshots = snapshot::files(self.members.keys().copied());
    }

    /// Files of one program are the same in each of its processes, those of different programs are taken to differ.
    fn file_bytes(&self) -> u64 {
        let mut by_program: HashMap<Option<(u64, u64)>, u64> = HashMap::new();
        for member in self.members.values() {
            let bytes = by_program.entry(member.program).or_default();
            *bytes = (*bytes).max(member.status.file_bytes + member.file_bytes_since);
        }
        by_program.values().sum()
    }

    /// Anonymous memory of processes that have it from one another.
    fn forked_parts(&self) -> Vec<Part> {
        let parents = self.members.values().filter_map(|one| one.forked_from);
        let parents: Vec<i32> = parents.collect();
        let is_one = |(process, member): &(&i32, &Member)| {
            member.forked_from.is_some() || parents.contains(process)
        };
        let ones = self.members.iter().filter(is_one);
        let parts: Vec<Part> = ones
            .map(|(process, one)| (*process, one.status.anonymous_bytes))
            .collect();
        // One alone shares with nobody who is left.
        if parts.len() > 1 { parts } else { Vec::new() }
    }

    /// Memory shared by other means than forks, but for snapshots: no more than is mapped of it.
    fn parts_of_shmem(&self) -> Vec<Part> {
        let of = |(process, member): (&i32, &Member)| {
            let limit = match self.snapshots.is_empty() {
                true => u64::MAX,
                false => self.others.get(process).copied().unwrap_or(0),
            };
            (*process, member.status.shmem_bytes.min(limit))
        };
        self.members.iter().map(of).collect()
    }

    /// What proportional sizes say of both kinds of shared memory, where it matters and has been earned.
    fn exact_look(&mut self, forked: &[Part], shmem: &[Part]) -> Option<pss::Kinds> {
        let wants_forked = self.is_uncertain(forked);
        let has_shmem = sum(shmem) >= WORTH_TELLING;
        let wants_shmem = has_shmem && sum(shmem) != self.shmem_looked_at;
        if !(wants_forked || wants_shmem) || !self.may_look_at_page_tables() {
            return None;
        }
        self.shmem_looked_at = sum(shmem);
        self.page_tables_read = Some(Instant::now());
        let before = thread_cpu_time();
        let processes = if has_shmem { shmem } else { forked };
        let mut kinds = pss::Kinds::default();
        for (process, _) in processes {
            let one = pss::kinds(*process).unwrap_or_default();
            kinds.shmem += one.shmem;
            if forked.iter().any(|(forked, _)| forked == process) {
                kinds.anonymous += one.anonymous;
            }
        }
        self.page_tables
            .spend(thread_cpu_time().saturating_sub(before));
        Some(kinds)
    }

    /// Shells fork before they start another program, and share next to nothing.
    fn is_uncertain(&self, forked: &[Part]) -> bool {
        let all = self.sum(|status| status.anonymous_bytes);
        sum(forked) - largest(forked) > UNCERTAIN_BYTES.max(all / UNCERTAIN_PART)
    }

    fn may_look_at_page_tables(&self) -> bool {
        let bytes = self.sum(|status| status.anonymous_bytes + status.shmem_bytes);
        let cost = Duration::from_nanos(bytes / page_size() * NANOSECONDS_A_PAGE);
        let has_rested = self
            .page_tables_read
            .is_none_or(|at| at.elapsed() >= PAGE_TABLES_REST);
        has_rested && self.page_tables.rest_before(cost).is_zero()
    }

    fn anonymous(&mut self, forked: &[Part], exact: Option<pss::Kinds>) -> u64 {
        let all = self.sum(|status| status.anonymous_bytes);
        if forked.is_empty() {
            self.forked.forget();
            return all;
        }
        let alone = all - sum(forked);
        if let Some(kinds) = exact.filter(|kinds| kinds.anonymous > 0) {
            self.forked.learn(kinds.anonymous, forked);
        }
        alone + self.forked.bytes(forked, largest(forked))
    }

    fn shmem_bytes(&mut self, parts: &[Part], mapped: u64, exact: Option<pss::Kinds>) -> u64 {
        let most = sum(parts);
        if most < WORTH_TELLING {
            self.shmem.forget();
            self.sure_of_shmem = most;
            return most;
        }
        if let Some(kinds) = exact {
            // Snapshots that are mapped are among both in the same proportion.
            let share = most as f64 / mapped.max(1) as f64;
            self.sure_of_shmem = ((kinds.shmem as f64 * share.min(1.0)) as u64).min(most);
            self.shmem.learn(self.sure_of_shmem, parts);
        }
        // A page that is mapped once more moves the counters as a new one does: a look at page tables tells.
        self.sure_of_shmem = self.sure_of_shmem.min(self.shmem.bytes(parts, 0));
        self.sure_of_shmem
    }

    fn sum(&self, of: fn(&ProcessStatus) -> u64) -> u64 {
        self.members.values().map(|member| of(&member.status)).sum()
    }
}

impl Member {
    /// False: the process is gone.
    fn read(&mut self) -> bool {
        let status = process_status::read_again(&self.status_file);
        self.file_bytes_since = 0;
        self.status = *status.as_ref().unwrap_or(&self.status);
        status.is_ok()
    }

    fn open(process: i32, forked_from: Option<i32>) -> io::Result<Self> {
        Ok(Self {
            status_file: File::open(format!("/proc/{process}/status"))?,
            statm: File::open(format!("/proc/{process}/statm"))?,
            program: program_of(process),
            forked_from,
            status: ProcessStatus::default(),
            file_bytes_since: 0,
        })
    }
}

/// From a thorough look that took so long to the next one.
fn rest_after(took: Duration) -> Duration {
    took.div_f64(THOROUGH_SHARE).clamp(THOROUGH, LONGEST_REST)
}

/// PF_FORKNOEXEC of the kernel's sched.h: it has not executed a program since it was forked.
fn is_forked(flags: u32) -> bool {
    flags & 0x40 != 0
}

fn program_of(process: i32) -> Option<(u64, u64)> {
    let program = fs::metadata(format!("/proc/{process}/exe")).ok()?;
    Some((program.st_dev(), program.st_ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_looks_come_more_seldom() {
        assert_eq!(rest_after(Duration::ZERO), THOROUGH);
        assert_eq!(rest_after(Duration::from_micros(100)), THOROUGH);
        let dear = rest_after(Duration::from_micros(800));
        assert!(dear > Duration::from_millis(900) && dear < Duration::from_millis(1100));
        assert_eq!(rest_after(Duration::from_secs(1)), LONGEST_REST);
    }
}
