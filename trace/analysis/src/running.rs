//! A process that is still being recorded: what its sites have allocated so far, hold and pin.
//!
//! Its recording is read on from where it was read last. What is kept meanwhile grows with the live blocks and the sites,
//! not with the recording.

use std::io::{self, Write};
use std::path::Path;

use trace_format::{Occurrence, Properties, SiteTable};

use super::analysis::{Analysis, Counting, Heap};
use super::assemble::build_id_of;
use super::clock;
use super::frames;
use super::objects::Objects;
use super::perf_map::PerfMap;
use super::pprof::{self, Taken};
use super::spool::Spool;
use super::symbols::Symbols;

pub struct Running {
    spool: Spool,
    objects: Objects,
    heap: Heap,
    found: Analysis,
    counting: Counting,
    /// Of the first sites; those that were found since have no names yet.
    names: SiteTable,
    /// So many names of generated code were known for them.
    generated: usize,
}

impl Running {
    /// None: there is no recording, or none yet.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let Some(spool) = Spool::open_growing(path)? else {
            return Ok(None);
        };
        let heap = Heap::of_sample(spool.header.sample_bytes, true);
        Ok(Some(Self {
            spool,
            objects: Objects::default(),
            heap,
            found: Analysis::default(),
            counting: Counting::default(),
            names: SiteTable::default(),
            generated: 0,
        }))
    }

    /// Reads what was recorded up to now. False: `go_on` did not want the rest, which is read the next time.
    pub fn read_on(&mut self, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
        let (now, _) = clock::now();
        self.spool.look_again()?;
        self.read_until(now, go_on)
    }

    fn read_until(&mut self, last: u64, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
        let mut read = 0_u64;
        while self.read_record(last)? {
            read += 1;
            if read.is_multiple_of(1 << 16) && !go_on() {
                return Ok(false);
            }
        }
        self.found.take_anew(&self.heap);
        Ok(true)
    }

    /// False: there is no other one up to `last`.
    fn read_record(&mut self, last: u64) -> io::Result<bool> {
        let Some(record) = self.spool.next_until(last)? else {
            return Ok(false);
        };
        let (found, heap, counting) = (&mut self.found, &mut self.heap, &mut self.counting);
        // Nothing here can fail, as nothing is written.
        let _ = self
            .objects
            .record(&record, 0, &mut |occurrence: &Occurrence| {
                found.count(heap, occurrence, counting);
                Ok(())
            });
        Ok(true)
    }

    /// The profile of what has been read. `generated`: names of the code that the process has made.
    pub fn write(
        &mut self,
        taken: Taken,
        symbols: &mut Symbols,
        generated: &PerfMap,
        out: impl Write,
    ) -> io::Result<()> {
        if self.generated != generated.len() {
            self.generated = generated.len();
            self.names = SiteTable::default();
        }
        let new = self
            .objects
            .keys
            .get(self.names.len()..)
            .unwrap_or_default();
        // Where there are too many to be named, the others stay numbers.
        let _ = frames::add_sites(&mut self.names, new, &self.spool, symbols, generated);
        let properties = self.properties();
        pprof::write(&self.found, taken, &properties, &self.names, out)
    }

    /// Not the command line, which may hold secrets: whoever reaches the server can ask for a profile.
    fn properties(&self) -> Properties {
        let header = &self.spool.header;
        let mut properties = Properties::new()
            .with("program", header.program.as_str())
            .with("sample-bytes", header.sample_bytes.to_string());
        if let Some(build_id) = build_id_of(&self.spool) {
            properties.set("build-id", build_id);
        }
        if let Some(stop) = header.stop {
            properties.set("stopped", stop.to_string());
        }
        properties
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use fastrand::Rng;
    use prost::Message;

    use super::*;
    use crate::pprof::{Profile, Shown};
    use crate::spool::tests::{allocate, chunk, free, header, other};

    const STEP: u64 = 64 << 10;
    const CHUNK_HEADER: u64 = 64;

    /// A thread as the recorder has it write: each step may be followed by any of the others'.
    #[derive(Default)]
    struct Thread {
        number: u64,
        chunks: u64,
        /// Where its next word goes, and where its chunk ends.
        at: u64,
        end: u64,
        stamp: u64,
        holds: Vec<u64>,
        doing: Option<Doing>,
    }

    /// What has been stamped and not been written down.
    enum Doing {
        Allocate {
            stamp: u64,
            address: u64,
        },
        Free {
            stamp: u64,
            address: u64,
        },
        /// The first block is free already, and may be another thread's.
        Resize {
            stamp: u64,
            address: u64,
            moved: (u64, u64),
        },
    }

    struct World {
        file: File,
        bytes: u64,
        now: u64,
        free: Vec<u64>,
        live: BTreeMap<u64, u64>,
        allocations: u64,
        random: Rng,
    }

    impl World {
        fn stamp(&mut self) -> u64 {
            self.now += 1;
            self.now
        }

        fn take(&mut self) -> u64 {
            // Most often what was freed last, as allocators do.
            let one = match self.random.usize(..4) {
                0 => self.random.usize(..self.free.len()),
                _ => self.free.len() - 1,
            };
            self.free.swap_remove(one)
        }

        fn write(&mut self, thread: &mut Thread, records: &[Vec<u64>]) {
            let words: Vec<u64> = records.concat();
            let length = words.len() as u64 * 8;
            if thread.at + length > thread.end || self.random.u32(..300) == 0 {
                let head = chunk(thread.number, thread.chunks, thread.stamp, &[]);
                let head = &head[..CHUNK_HEADER as usize];
                self.file.write_all_at(head, self.bytes).expect("written");
                thread.at = self.bytes + CHUNK_HEADER;
                self.bytes += STEP;
                thread.end = self.bytes;
                self.file.set_len(self.bytes).expect("longer");
                thread.chunks += 1;
            }
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.file.write_all_at(&bytes, thread.at).expect("written");
            thread.at += length;
        }

        fn write_allocation(&mut self, thread: &mut Thread, stamp: u64, address: u64) {
            let size = 16 + address % 1000;
            let step = stamp - thread.stamp;
            self.write(thread, &[allocate(step, address, size, 3)]);
            thread.stamp = stamp;
            self.allocations += 1;
            self.live.insert(address, size);
            thread.holds.push(address);
        }

        fn write_free(&mut self, thread: &mut Thread, stamp: u64, address: u64) {
            let time = other(1, 0, &[stamp]);
            self.write(thread, &[time, free(0, address)]);
            thread.stamp = stamp;
        }

        /// The thread's next step.
        fn step(&mut self, thread: &mut Thread, other: &mut Vec<u64>) {
            match thread.doing.take() {
                Some(Doing::Allocate { stamp, address }) => {
                    self.write_allocation(thread, stamp, address);
                }
                Some(Doing::Free { stamp, address }) => {
                    self.write_free(thread, stamp, address);
                    self.live.remove(&address);
                    self.free.push(address);
                }
                Some(Doing::Resize {
                    stamp,
                    address,
                    moved,
                }) => {
                    self.write_free(thread, stamp, address);
                    self.write_allocation(thread, moved.0, moved.1);
                }
                None => thread.doing = self.begin(thread, other),
            }
        }

        fn begin(&mut self, thread: &mut Thread, other: &mut Vec<u64>) -> Option<Doing> {
            let held = match self.random.usize(..8) {
                0..4 => None,
                // What another thread has allocated.
                4 => other.pop(),
                _ => thread.holds.pop(),
            };
            let stamp = self.stamp();
            let Some(address) = held else {
                let address = self.take();
                return Some(Doing::Allocate { stamp, address });
            };
            if self.random.bool() {
                return Some(Doing::Free { stamp, address });
            }
            self.live.remove(&address);
            let moved = self.take();
            self.free.push(address);
            let moved = (self.stamp(), moved);
            Some(Doing::Resize {
                stamp,
                address,
                moved,
            })
        }
    }

    /// Many threads, and somebody who asks in the midst of it: what is left at the end is what is live.
    #[test]
    fn reading_on_comes_to_what_is_live() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        for _ in 0..20 {
            let path = tempfile::NamedTempFile::new().expect("file");
            let file = path.reopen().expect("file");
            file.write_all_at(&header(), 0).expect("written");
            let mut world = World {
                file,
                bytes: STEP,
                now: 100,
                free: (1..200).map(|number| number * 0x1000).collect(),
                live: BTreeMap::new(),
                allocations: 0,
                random: random.fork(),
            };
            let mut threads: Vec<Thread> = (0..5)
                .map(|number| Thread {
                    // Those that begin later have lanes before the others'.
                    number: 4 - number,
                    ..Thread::default()
                })
                .collect();
            let mut running = Running::open(path.path()).expect("readable").expect("one");
            let mut last = 0;
            let mut go_on = |world: &mut World| {
                let begun = (1 + world.now as usize / 1000).min(threads.len());
                let one = random.usize(..begun);
                let mut thread = std::mem::take(&mut threads[one]);
                let other = (one + 1) % threads.len();
                if world.free.len() > 20 || thread.doing.is_some() {
                    world.step(&mut thread, &mut threads[other].holds);
                } else {
                    // Enough is live: the latest of this thread's go.
                    thread.doing = thread.holds.pop().map(|address| Doing::Free {
                        stamp: world.stamp(),
                        address,
                    });
                }
                threads[one] = thread;
            };
            for _ in 0..300 {
                for _ in 0..world.random.usize(..30) {
                    go_on(&mut world);
                }
                last = world.now;
                // Threads are at work while it is read, and sometimes it is not read to the end.
                let most = world.random.usize(..100);
                for _ in 0..world.random.usize(..3) {
                    go_on(&mut world);
                }
                running.spool.look_again().expect("readable");
                for _ in 0..most {
                    for _ in 0..world.random.usize(..3) {
                        go_on(&mut world);
                    }
                    if !running.read_record(last).expect("readable") {
                        break;
                    }
                }
            }
            for mut thread in threads {
                if thread.doing.is_some() {
                    world.step(&mut thread, &mut Vec::new());
                }
            }
            assert!(last > 0);
            running.spool.look_again().expect("readable");
            running.read_until(world.now, &|| true).expect("readable");
            let found: BTreeMap<u64, u64> = running
                .heap
                .blocks
                .values()
                .map(|block| (block.address, block.size))
                .collect();
            assert_eq!(found, world.live);
            let total = &running.found.total;
            assert_eq!(total.allocations, world.allocations as f64);
            assert_eq!(total.live_objects, world.live.len() as f64);
            let bytes: u64 = world.live.values().sum();
            assert_eq!(total.live_bytes, bytes as f64);
        }
    }

    #[test]
    fn a_profile_is_of_now() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let mut bytes = header();
        let records = [
            other(5, 0, &[11]),
            other(2, 3, &[0x1000 | 7 << 48]),
            allocate(5, 0x10_0000, 24, 3),
            allocate(5, 0x10_0040, 24, 3),
            free(5, 0x10_0000),
        ];
        bytes.extend(chunk(0, 0, 100, &records));
        file.as_file().write_all_at(&bytes, 0).expect("written");
        let mut running = Running::open(file.path()).expect("readable").expect("one");
        let profile = |running: &mut Running, shown| {
            let taken = Taken::Now {
                nanoseconds: 123,
                shown,
            };
            let (mut symbols, mut packed) = (Symbols::default(), Vec::new());
            let written = running.write(taken, &mut symbols, &PerfMap::default(), &mut packed);
            written.expect("written");
            let mut bytes = Vec::new();
            let mut unpacked = flate2::read::GzDecoder::new(&*packed);
            std::io::Read::read_to_end(&mut unpacked, &mut bytes).expect("gzip");
            Profile::decode(&*bytes).expect("protobuf")
        };
        // Nothing has been read yet.
        let empty = profile(&mut running, Shown::InUse);
        assert!(empty.sample.is_empty());
        assert_eq!((empty.time_nanos, empty.duration_nanos), (123, 0));

        assert!(running.read_on(&|| true).expect("readable"));
        let found = profile(&mut running, Shown::Allocated);
        let text = |number: i64| found.string_table[number as usize].as_str();
        let types: Vec<&str> = found.sample_type.iter().map(|one| text(one.kind)).collect();
        assert_eq!(
            types,
            [
                "alloc_objects",
                "alloc_space",
                "inuse_objects",
                "inuse_space",
                "pinned_space"
            ]
        );
        assert_eq!(text(found.default_sample_type), "alloc_space");
        assert_eq!(found.sample.len(), 1);
        assert_eq!(found.sample[0].value, [2, 48, 1, 24, 4096 - 24]);
        assert!(!found.string_table.iter().any(|text| text.contains("a b c")));
        let shown = profile(&mut running, Shown::InUse);
        let shown = &shown.string_table[shown.default_sample_type as usize];
        assert_eq!(shown, "inuse_space");
    }

    /// The program that is recorded can write to its recording.
    #[test]
    fn a_damaged_recording_is_survived() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let records = [
            other(5, 0, &[11]),
            other(2, 3, &[0x1000 | 7 << 48]),
            allocate(5, 0x10_0000, 24, 3),
            allocate(5, 0x10_0040, 5 << 30, 3),
            free(5, 0x10_0000),
        ];
        for _ in 0..300 {
            let mut bytes = header();
            let begin = bytes.len();
            for number in 0..3 {
                bytes.extend(chunk(number % 2, number / 2, 100 + number, &records));
            }
            let file = tempfile::NamedTempFile::new().expect("file");
            file.as_file().write_all_at(&bytes, 0).expect("written");
            let Some(mut running) = Running::open(file.path()).expect("readable") else {
                continue;
            };
            for _ in 0..4 {
                for _ in 0..random.usize(..12) {
                    // Mostly where something is: the heads of chunks and what follows.
                    let place = match random.usize(..8) {
                        0 => random.usize(..bytes.len()),
                        _ => begin + random.usize(..3) * STEP as usize + random.usize(..256),
                    };
                    bytes[place] = match random.usize(..3) {
                        0 => 0,
                        1 => u8::MAX,
                        _ => random.u8(..),
                    };
                }
                file.as_file().write_all_at(&bytes, 0).expect("written");
                // Errors are answers too.
                let _ = running.spool.look_again();
                let _ = running.read_until(random.u64(..), &|| true);
                let taken = Taken::Now {
                    nanoseconds: 0,
                    shown: Shown::InUse,
                };
                let (mut symbols, generated) = (Symbols::default(), PerfMap::default());
                let _ = running.write(taken, &mut symbols, &generated, io::sink());
            }
        }
    }

    #[test]
    fn what_was_left_is_read_the_next_time() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let mut bytes = header();
        let many: Vec<Vec<u64>> = (0..3000)
            .map(|number| allocate(1, 0x10_0000 + number * 64, 24, 3))
            .collect();
        for sequence in 0..30 {
            bytes.extend(chunk(0, sequence, 100 + sequence * 3000, &many));
        }
        file.as_file().write_all_at(&bytes, 0).expect("written");
        let mut running = Running::open(file.path()).expect("readable").expect("one");
        assert!(!running.read_on(&|| false).expect("readable"));
        assert!(running.found.total.allocations < 90_000.0);
        assert!(running.read_on(&|| true).expect("readable"));
        assert_eq!(running.found.total.allocations, 90_000.0);
    }
}
