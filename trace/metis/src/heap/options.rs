//! What can be chosen of a simulated heap.

use serde::{Deserialize, Serialize};

/// How objects die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collector {
    /// When nothing fits: marked from the roots, swept, never moved.
    #[default]
    MarkSweep,
    /// As soon as nothing refers to them; cycles when nothing fits.
    ReferenceCounting,
    /// When the program says so, and never otherwise (native traces).
    Explicit,
}

/// When the heap grows after a collection although the request would fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Free bytes over all bytes are below this (section 5.1 literally, with table 1's .8).
    FreeBelow(f64),
    /// Occupied bytes over all bytes are above this.
    OccupiedAbove(f64),
    WhenNothingFits,
}

/// Table 1's parameters, and what it leaves open (docs/notes/metis.md).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapOptions {
    /// At the start.
    pub heap_bytes: u64,
    /// Sizes and addresses are multiples of this.
    pub granule_bytes: u32,
    pub growth: Growth,
    /// Each growth, relative to the heap's size.
    pub increment: f64,
    /// Beyond this the simulated program is out of memory.
    pub max_heap_bytes: u64,
    pub collector: Collector,
    /// Keep each thread's newest object alive until its next, as a register would.
    pub protect_newest: bool,
    /// Reference counting: what nothing refers to any more dies at the next allocation, not at once. Recorders that tell
    /// roots only then (docs/notes/jvm-recorder.md) need it.
    pub deferred: bool,
    /// Stop at the first event that cannot have happened, instead of counting and skipping it.
    pub strict: bool,
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self {
            heap_bytes: 100_000,
            granule_bytes: 8,
            growth: Growth::FreeBelow(0.8),
            increment: 0.2,
            max_heap_bytes: 4 << 30,
            collector: Collector::MarkSweep,
            protect_newest: true,
            deferred: false,
            strict: false,
        }
    }
}

/// Addresses are 32-bit numbers of granules, with a page of 64 to spare.
const MOST_GRANULES: u64 = u32::MAX as u64 - 64;

impl HeapOptions {
    /// Heaps for native traces: objects die when freed, and the heap grows only when it must.
    pub fn native() -> Self {
        Self {
            heap_bytes: 1 << 20,
            granule_bytes: 16,
            growth: Growth::WhenNothingFits,
            collector: Collector::Explicit,
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.granule_bytes == 0 {
            return Err("granule_bytes is 0: try 8".to_owned());
        }
        if self.max_heap_bytes.div_ceil(u64::from(self.granule_bytes)) > MOST_GRANULES {
            let largest = MOST_GRANULES * u64::from(self.granule_bytes);
            return Err(format!(
                "max_heap_bytes is above {largest}: raise granule_bytes"
            ));
        }
        if self.heap_bytes == 0 || self.heap_bytes > self.max_heap_bytes {
            return Err("heap_bytes must be above 0 and at most max_heap_bytes".to_owned());
        }
        if !(self.increment > 0.0 && self.increment <= 100.0) {
            return Err("increment must be above 0 and at most 100".to_owned());
        }
        Ok(())
    }

    /// Bytes in granules, rounded up; `check` made sure that they fit.
    pub fn granules(&self, bytes: u64) -> u32 {
        bytes
            .div_ceil(u64::from(self.granule_bytes))
            .min(u64::from(u32::MAX)) as u32
    }

    pub(super) fn increment(&self, granules: u32) -> u32 {
        ((f64::from(granules) * self.increment) as u32).max(1)
    }
}
