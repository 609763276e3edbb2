//! How fast traces are written and read: `cargo run --release --example decode_speed [EVENTS]`.

use std::io::Cursor;
use std::time::Instant;

use trace_format::{Codec, Event, ObjectId, Options, Properties, Result, TraceReader, TraceWriter};

/// Half of the objects die at once, most of the others soon, as in a native program.
fn write(events: u64, options: Options) -> Result<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut writer = TraceWriter::new(Vec::new(), Properties::new(), options)?;
    let mut live: Vec<(ObjectId, u64)> = Vec::new();
    let mut spare: Vec<u64> = Vec::new();
    for number in 0..events {
        if live.len() < 1000 || (random.bool() && live.len() < 200_000) {
            let site = (random.f64().powi(4) * 3000.0) as u32;
            let event = Event::Allocate {
                object: writer.latest_object() + 1,
                site,
                size: 16 + u64::from(site % 40) * 8,
                thread: u32::from(number % 1000 == 0),
            };
            let fresh = 0x7f00_0000_0000 + number * 48;
            let address = spare.pop().unwrap_or(fresh);
            if options.with_addresses {
                writer.allocate_at(&event, address)?;
            } else {
                writer.event(&event)?;
            }
            live.push((writer.latest_object(), address));
        } else {
            let back = (random.f64().powi(8) * live.len() as f64) as usize;
            let (object, address) = live.swap_remove(live.len() - 1 - back);
            spare.push(address);
            writer.event(&Event::Free { object })?;
        }
        if number % 256 == 0 {
            writer.time(number * 20)?;
        }
    }
    writer.finish()
}

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    let events = argument
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_000_000);
    for (name, codec, with_addresses) in [
        ("stored", Codec::None, false),
        ("zstd", Codec::Zstd, false),
        ("zstd, addresses", Codec::Zstd, true),
        ("deflate", Codec::Deflate, false),
    ] {
        let options = Options {
            codec,
            with_addresses,
            ..Options::default()
        };
        let started = Instant::now();
        let bytes = write(events, options)?;
        let writing = started.elapsed().as_secs_f64();
        let mut best = f64::MAX;
        let mut size = 0_u64;
        for _ in 0..3 {
            let started = Instant::now();
            let mut reader = TraceReader::new(Cursor::new(&bytes))?;
            while let Some(batch) = reader.next_batch()? {
                for event in &batch.events {
                    if let Event::Allocate { size: of_one, .. } = event {
                        size = size.wrapping_add(*of_one);
                    }
                }
            }
            best = best.min(started.elapsed().as_secs_f64());
        }
        println!(
            "{name:16} {:.2} bytes an event; read {:.0} million events/s, made and written {:.0} (check {size})",
            bytes.len() as f64 / events as f64,
            events as f64 / best / 1e6,
            events as f64 / writing / 1e6,
        );
    }
    Ok(())
}
