//! How fast traces are replayed on the mark-sweep baseline: `cargo run --release --example replay_speed [MILLIONS]`.
//! Prints events a second of this thread's processor time; making the events is not counted.

use metis::algorithm::{Control, Metis, MetisOptions};
use metis::heap::{HeapOptions, NoGroups, Placement, Simulator};
use metis::workload::{Generator, Kind, Style};

const BATCH: usize = 1 << 16;

/// Time on a processor, which other programs' load does not stretch.
fn processor_nanoseconds() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

fn replay<P: Placement>(kind: Kind, style: Style, placement: P, events: u64) -> String {
    let options = match style {
        Style::Managed => HeapOptions::default(),
        Style::Native => HeapOptions::native(),
    };
    let mut heap = match Simulator::new(options, placement) {
        Ok(heap) => heap,
        Err(stopped) => return stopped.to_string(),
    };
    let mut generator = Generator::new(kind, style, 1);
    let mut busy = 0;
    while heap.events() < events {
        let batch = generator.batch(BATCH);
        let start = processor_nanoseconds();
        let outcome = heap.run(&batch);
        busy += processor_nanoseconds() - start;
        if let Err(stopped) = outcome {
            return stopped.to_string();
        }
    }
    let rate = heap.events() as f64 / busy as f64 * 1e3;
    let share = heap.allocations() as f64 / heap.events() as f64;
    format!(
        "{rate:6.1} million events/s ({:.0} % allocations, {} collections, {} objects alive)",
        100.0 * share,
        heap.series().count,
        heap.objects().alive(),
    )
}

fn main() {
    let millions = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(20u64);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{millions} million events each, machine's load {}",
        load.trim()
    );
    let events = millions * 1_000_000;
    for kind in Kind::ALL {
        let name = kind.name();
        println!(
            "{name:12} no groups  {}",
            replay(kind, Style::Managed, NoGroups, events)
        );
        let metis = || {
            Metis::new(
                MetisOptions::default(),
                Control::Learned,
                HeapOptions::default().granule_bytes,
            )
        };
        println!(
            "{name:12} metis      {}",
            replay(kind, Style::Managed, metis(), events)
        );
        println!(
            "{name:12} native     {}",
            replay(kind, Style::Native, NoGroups, events)
        );
    }
}
