//! Site-keyed spans on made-up native programs, trained on one seed and tested on others:
//! `cargo run --release --example native_groups`. Average resident pages relative to ungrouped spans.

use metis::algorithm::{MetisOptions, Plan};
use metis::grouping::Grouping;
use metis::grouping::learn::learn;
use metis::grouping::selection::select;
use metis::grouping::spans::replay;
use metis::heap::{HeapOptions, Purge, SpanOptions, Stopped};
use metis::workload::{Kind, Style, generate};

const EVENTS: usize = 400_000;
const SEEDS: std::ops::RangeInclusive<u64> = 2..=11;

fn main() -> Result<(), Stopped> {
    let groupings = [Grouping::Lifetimes, Grouping::Deaths, Grouping::Sites];
    println!(
        "| purge | workload | pages | live/resident | lifetimes (random) | deaths (random) | sites (random) | chosen: learned | random |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for purge in [Purge::EmptySpans, Purge::EmptyPages] {
        let spans = SpanOptions {
            purge,
            ..SpanOptions::default()
        };
        for kind in Kind::ALL {
            let training = generate(kind, Style::Native, 1, EVENTS);
            let ratio = |plan: &dyn Fn(u64) -> Plan| {
                let ratios = SEEDS.map(|seed| {
                    let testing = generate(kind, Style::Native, seed, EVENTS);
                    let plain = replay(&Plan::default(), spans, &testing).average_pages;
                    replay(&plan(seed), spans, &testing).average_pages / plain
                });
                ratios.sum::<f64>() / SEEDS.count() as f64
            };
            let plain = replay(
                &Plan::default(),
                spans,
                &generate(kind, Style::Native, 2, EVENTS),
            );
            let used = plain.average_live_bytes / plain.average_pages / spans.page_bytes as f64;
            print!(
                "| {purge:?} | {} | {:.0} | {used:.2} |",
                kind.name(),
                plain.average_pages
            );
            for grouping in groupings {
                let plan = learn(
                    grouping,
                    &training,
                    &HeapOptions::native(),
                    &MetisOptions::default(),
                )?;
                let learned = ratio(&|_| plan.clone());
                let random = ratio(&|seed| plan.randomized(seed));
                print!(" {learned:.2} ({random:.2}) |");
            }
            let selection = select(&training, spans)?;
            let learned = ratio(&|_| selection.plan.clone());
            let random = ratio(&|seed| selection.plan.randomized(seed));
            let name = selection.grouping.map_or("none", Grouping::name);
            println!(" {name}: {learned:.3} | {random:.3} |");
        }
    }
    Ok(())
}
