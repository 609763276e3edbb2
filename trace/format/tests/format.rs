//! The format as its users meet it: round trips, seeking, crashes, damage.
#![allow(clippy::unwrap_used)]

mod damage;

use std::io::Cursor;

use trace_format::{
    Codec, Error, Event, Frame, JIT, Manner, Module, Options, Properties, Site, SiteTable,
    TraceReader, TraceWriter, text,
};

type Recorded = (Event, Option<u64>);

/// Events of every kind with operands of every length.
fn events(seed: u64, count: usize) -> Vec<Recorded> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut latest = 0;
    let mut out = Vec::new();
    while out.len() < count {
        let object = |random: &mut fastrand::Rng, latest: u64| {
            latest - (random.f64().powi(6) * latest as f64) as u64 % latest
        };
        let thread = if random.u8(..) < 20 {
            random.u32(..) >> random.u32(8..32)
        } else {
            0
        };
        if latest == 0 || random.u8(..4) == 0 {
            latest += 1;
            let event = Event::Allocate {
                object: latest,
                site: random.u32(..) >> random.u32(10..32),
                size: random.u64(..) >> random.u32(..64),
                thread,
            };
            out.push((event, Some(random.u64(..) >> random.u32(..64) & !7)));
            continue;
        }
        let object_of = object(&mut random, latest);
        let event = match random.u8(..5) {
            0 => Event::Free { object: object_of },
            1 => Event::Assign {
                object: object_of,
                field: random.u32(..) >> random.u32(..32),
                target: if random.bool() {
                    0
                } else {
                    object(&mut random, latest)
                },
            },
            2 => Event::AddRoot {
                object: object_of,
                thread,
            },
            3 => Event::RemoveRoot {
                object: object_of,
                thread,
            },
            _ => Event::Jump {
                site: random.u32(..) >> 10,
                thread,
            },
        };
        out.push((event, None));
    }
    out
}

fn write(events: &[Recorded], options: Options) -> Vec<u8> {
    let properties = Properties::new()
        .with("recorder", "test")
        .with("odd name", "a\n%b");
    let mut writer = TraceWriter::new(Vec::new(), properties, options).unwrap();
    for (index, (event, address)) in events.iter().enumerate() {
        match address {
            Some(address) if options.with_addresses => writer.allocate_at(event, *address).unwrap(),
            _ => writer.event(event).unwrap(),
        }
        if index % 7 == 0 {
            writer.time(index as u64 * 1000).unwrap();
        }
        if index == 50 {
            add_site(&mut writer, "early");
            writer.flush().unwrap();
        }
    }
    add_site(&mut writer, "late");
    writer.set_property("ended", "exit 0");
    writer.finish().unwrap()
}

fn add_site(writer: &mut TraceWriter<Vec<u8>>, symbol: &str) {
    let module = Module {
        path: "/usr/lib/lib a.so",
        build_id: "00ff",
    };
    let frame = |line| Frame {
        module: module.clone(),
        offset: 0x1234,
        symbol,
        file: "-",
        line,
    };
    let site = Site {
        kind: "java.lang.String",
        depth: Some(0),
        size_class: Some(64),
        frames: vec![frame(1), frame(2), frame(1)],
    };
    writer.sites_mut().add(&site).unwrap();
}

fn open(bytes: &[u8]) -> Result<TraceReader<Cursor<&[u8]>>, Error> {
    TraceReader::new(Cursor::new(bytes))
}

fn read(bytes: &[u8]) -> Result<Vec<Recorded>, Error> {
    let mut reader = open(bytes)?;
    read_on(&mut reader)
}

fn read_on(reader: &mut TraceReader<Cursor<&[u8]>>) -> Result<Vec<Recorded>, Error> {
    let mut out = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!(batch.events.len() <= 4096 && batch.times.len() <= 4097);
        let mut addresses = batch.addresses.iter();
        for event in &batch.events {
            let address = match event {
                Event::Allocate { .. } => addresses.next().copied(),
                _ => None,
            };
            out.push((*event, address));
        }
        assert!(addresses.next().is_none());
    }
    Ok(out)
}

fn without_addresses(events: &[Recorded]) -> Vec<Recorded> {
    events.iter().map(|(event, _)| (*event, None)).collect()
}

fn small_blocks() -> Options {
    Options {
        events_in_a_block: 100,
        ..Options::default()
    }
}

#[test]
fn events_come_back_with_every_codec() {
    let written = events(1, 100_000);
    for codec in [Codec::None, Codec::Zstd, Codec::Deflate] {
        let options = Options {
            codec,
            ..Options::default()
        };
        assert_eq!(
            read(&write(&written, options)).unwrap(),
            without_addresses(&written)
        );
        let options = Options {
            with_addresses: true,
            ..options
        };
        assert_eq!(read(&write(&written, options)).unwrap(), written);
    }
}

#[test]
fn a_trace_without_events_is_one() {
    let bytes = write(&[], Options::default());
    let reader = open(&bytes).unwrap();
    assert_eq!(reader.event_count(), 0);
    assert_eq!(reader.sites().len(), 1);
    assert!(read(&bytes).unwrap().is_empty());
}

#[test]
fn tables_and_properties_come_back() {
    let bytes = write(&events(2, 500), small_blocks());
    let reader = open(&bytes).unwrap();
    assert_eq!(reader.properties().get("odd name"), Some("a\n%b"));
    assert_eq!(reader.properties().get("ended"), Some("exit 0"));
    assert_eq!(reader.sites().len(), 2);
    let early = reader.sites().get(0).unwrap();
    assert_eq!(early.kind, "java.lang.String");
    assert_eq!((early.depth, early.size_class), (Some(0), Some(64)));
    assert_eq!(early.frames.len(), 3);
    assert_eq!(early.frames[1].line, 2);
    assert_eq!(early.frames[1].symbol, "early");
    assert_eq!(early.frames[2].module.build_id, "00ff");
    assert_eq!(reader.sites().get(1).unwrap().frames[0].symbol, "late");
    assert!(reader.sites().get(2).is_none());
    assert_eq!(reader.sites().describe(9), "site 9");
}

#[test]
fn seeking_finds_every_event() {
    let written = without_addresses(&events(3, 3000));
    let bytes = write(&written, small_blocks());
    let mut reader = open(&bytes).unwrap();
    for at in [0, 1, 99, 100, 101, 1500, 2999, 3000, 99999] {
        reader.seek_to_event(at).unwrap();
        let rest = written.get(at as usize..).unwrap_or_default();
        assert_eq!(read_on(&mut reader).unwrap(), rest, "from {at}");
    }
    reader.rewind();
    assert_eq!(read_on(&mut reader).unwrap(), written);
}

#[test]
fn times_stay_with_their_events() {
    let bytes = write(&events(4, 20_000), Options::default());
    let mut reader = open(&bytes).unwrap();
    while let Some(batch) = reader.next_batch().unwrap() {
        for &(place, time) in &batch.times {
            let event = batch.first_event + place as u64;
            // A time was written after every seventh event; a batch begins with the one in force.
            let expected = if event == 0 {
                0
            } else {
                (event - 1) / 7 * 7000
            };
            assert_eq!(time, expected, "event {event}");
        }
    }
}

/// A crash cuts a file off anywhere: whole blocks before it stay, and nothing is invented.
#[test]
fn a_cut_off_file_is_valid_up_to_its_last_whole_block() {
    let written = without_addresses(&events(5, 1000));
    let bytes = write(&written, small_blocks());
    let mut longest = 0;
    for end in 0..bytes.len() {
        let Ok(mut reader) = open(&bytes[..end]) else {
            assert!(end < 16, "cut at {end}");
            continue;
        };
        let got = read_on(&mut reader).unwrap();
        assert_eq!(got, written[..got.len()], "cut at {end}");
        assert_eq!(got.len() as u64, reader.event_count());
        assert!(got.len() >= longest);
        longest = got.len();
    }
    assert_eq!(longest, 1000);
}

#[test]
fn foreign_files_are_named() {
    let said = |bytes: &[u8]| open(bytes).err().unwrap().to_string();
    assert_eq!(said(b""), "this is not a trace: the file is empty");
    assert_eq!(said(b"\x89PWTR"), "this is not a trace: it is too short");
    assert_eq!(
        said(b"\x7fELF and a good deal more"),
        "this is not a trace: it does not begin as one"
    );
    let mut later = write(&[], Options::default());
    later[8] = 9;
    assert!(said(&later).contains("version 9"), "{}", said(&later));
    assert!(TraceReader::open("/dev/null").is_err());
    assert!(TraceReader::open("/nonexistent").is_err());
}

/// Any damaged byte is found and named by its place, or lies where nothing is stored.
#[test]
fn damage_is_found_and_located() {
    let written = without_addresses(&events(6, 600));
    let bytes = write(&written, small_blocks());
    let mut located = 0;
    for at in 16..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        match read(&damaged) {
            Ok(got) => assert_eq!(got, written, "byte {at}"),
            Err(Error::Damaged { offset, .. }) => {
                assert!(offset <= at as u64, "byte {at} was reported at {offset}");
                located += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    // What is left are the index and the end, without which the file is readable.
    assert!(located > bytes.len() / 2);
}

/// A valid file, damaged at random and with its check sums made good again: errors, never a panic, never much memory.
#[test]
fn hostile_files_are_survived() {
    let seed =
        std::env::var("FUZZ_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(3000, |text| text.parse().unwrap());
    println!("FUZZ_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let whole: Vec<Vec<u8>> = [Codec::None, Codec::Zstd, Codec::Deflate]
        .map(|codec| {
            write(
                &events(7, 1500),
                Options {
                    codec,
                    ..small_blocks()
                },
            )
        })
        .into();
    for _ in 0..rounds {
        let mut bytes = whole[random.usize(..whole.len())].clone();
        damage::any_bytes(&mut bytes, &mut random);
        if random.u8(..8) > 0 {
            repair(&mut bytes);
        }
        if let Ok(mut reader) = open(&bytes) {
            let mut left = 20_000_000_usize;
            while let Ok(Some(batch)) = reader.next_batch() {
                left = left
                    .checked_sub(batch.events.len())
                    .expect("more events than bytes can hold");
            }
            let _ = reader.seek_to_event(random.u64(..2000));
            let _ = reader.next_batch();
            for site in 0..reader.sites().len() as u32 {
                reader.sites().describe(site);
            }
            let _ = text::write(&mut reader, std::io::sink());
        }
    }
}

/// Gives every block that can still be found the check sums it should have.
fn repair(bytes: &mut [u8]) {
    let mut at = 16;
    while at + 48 <= bytes.len() {
        if &bytes[at..at + 4] != b"PWBK" {
            at += 1;
            continue;
        }
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        if let Some(stored) = bytes.get(at + 48..at + 48 + length) {
            let sum = crc32fast::hash(stored);
            bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[at..at + 44]);
        bytes[at + 44..at + 48].copy_from_slice(&sum.to_le_bytes());
        at += 48;
    }
}

/// A block that says it is small and decompresses to much, and one of a type of the future.
#[test]
fn bombs_do_not_explode_and_unknown_blocks_are_skipped() {
    let written = without_addresses(&events(8, 300));
    let mut bytes = write(&written, small_blocks());
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    let mut block = vec![0; 48];
    block[..4].copy_from_slice(b"PWBK");
    block[4] = 99;
    block[5] = 1;
    block[8..12].copy_from_slice(&(bomb.len() as u32).to_le_bytes());
    block[12..16].copy_from_slice(&1000_u32.to_le_bytes());
    block.extend(&bomb);
    bytes.splice(16..16, block.clone());
    repair(&mut bytes);
    // The index no longer fits: the blocks are not where it says.
    assert!(matches!(read(&bytes), Err(Error::Damaged { .. })));
    bytes.truncate(bytes.len() - 64);
    assert_eq!(read(&bytes).unwrap(), written);
    bytes[16 + 4] = 6;
    repair(&mut bytes);
    assert!(matches!(
        read(&bytes),
        Err(Error::Damaged { offset: 16, .. })
    ));
}

#[test]
fn a_writer_refuses_what_could_not_be_read() {
    let mut writer = TraceWriter::new(Vec::new(), Properties::new(), Options::default()).unwrap();
    let allocate = |object, site| Event::Allocate {
        object,
        site,
        size: 1,
        thread: 0,
    };
    assert!(writer.event(&allocate(2, 0)).is_err());
    assert!(writer.event(&allocate(1, 1 << 22)).is_err());
    assert!(writer.event(&Event::Free { object: 1 }).is_err());
    writer.event(&allocate(1, 0)).unwrap();
    assert!(writer.event(&allocate(1, 0)).is_err());
    assert!(
        writer
            .event(&Event::Assign {
                object: 1,
                field: 0,
                target: 2
            })
            .is_err()
    );
    assert!(
        writer
            .event(&Event::Jump {
                site: 0,
                thread: 1 << 24
            })
            .is_err()
    );
    assert_eq!(read(&writer.finish().unwrap()).unwrap().len(), 1);
}

#[test]
fn text_and_binary_say_the_same() {
    for with_addresses in [false, true] {
        let written = events(9, 2000);
        let options = Options {
            with_addresses,
            ..small_blocks()
        };
        let bytes = write(&written, options);
        let mut first = Vec::new();
        text::write(&mut open(&bytes).unwrap(), &mut first).unwrap();
        let again = text::read(&first[..], Vec::new(), options).unwrap();
        let mut second = Vec::new();
        text::write(&mut open(&again).unwrap(), &mut second).unwrap();
        assert!(first == second, "the texts differ");
        assert!(read(&again).unwrap() == read(&bytes).unwrap());
    }
}

/// An assignment's line names no thread: the free behind it needs a line that does.
#[test]
fn a_free_after_an_assignment_keeps_its_thread() {
    let lines =
        "pagewise-trace 1\nallocate 1 0 8 0\nallocate 2 0 8 0\nthread 1\nassign 1 0 2\nfree 1\n";
    let bytes = text::read(lines.as_bytes(), Vec::new(), Options::default()).unwrap();
    let mut again = Vec::new();
    text::write(&mut open(&bytes).unwrap(), &mut again).unwrap();
    let again = String::from_utf8(again).unwrap();
    assert!(again.contains("thread 1\nfree 1\n"), "{again}");
}

#[test]
fn the_documents_example_is_a_trace() {
    let document = include_str!("../../../docs/reference/trace-format.md");
    let start = document.find("    pagewise-trace 1 addresses\n").unwrap();
    let example = document[start..].split("\n\n").next().unwrap();
    let lines: Vec<&str> = example.lines().map(str::trim_start).collect();
    let bytes = text::read(lines.join("\n").as_bytes(), Vec::new(), Options::default()).unwrap();
    let reader = open(&bytes).unwrap();
    assert_eq!(reader.event_count(), 7);
    assert_eq!(
        reader.sites().describe(0),
        "make_list (list.c:12), class 32, depth 3"
    );
}

#[test]
fn bad_text_is_named_by_its_line() {
    let said = |text: &str| {
        text::read(text.as_bytes(), Vec::new(), Options::default())
            .unwrap_err()
            .to_string()
    };
    assert!(said("").starts_with("line 1: a trace's text begins with"));
    assert!(said("pagewise-trace 2").starts_with("line 1:"));
    for (line, what) in [
        ("allocate 2 0 1 0", "object 2 is allocated after object 0"),
        ("allocate 1 0 1", "a field is missing"),
        ("allocate 1 0 1 0 0x10", "does not announce"),
        ("free 1", "there is no object 1 yet"),
        ("free x", "\"x\" is no number"),
        ("free 1 2", "more fields"),
        ("frame 0x1 symbol=a", "without a site"),
        ("site 1 type=- depth=- class=-", "the next site is 0"),
        ("site 0 depth=1 class=-", "type= is missing"),
        ("property a %zz", "percent"),
        ("dance", "\"dance\" is no kind of line"),
    ] {
        let said = said(&format!("pagewise-trace 1\n# a comment\n\n{line}\n"));
        assert!(
            said.starts_with("line 4: ") && said.contains(what),
            "{line}: {said}"
        );
    }
}

/// Threads of frees, alignments and reallocs, over block boundaries.
fn rich_text() -> String {
    let mut text = String::from("pagewise-trace 1 addresses\nproperty frees by-thread\n");
    for number in 1..=300_u64 {
        if number % 5 == 0 {
            text += "aligned 4096\n";
        }
        let thread = number % 3;
        text += &format!("allocate {number} 0 100 {thread} {:#x}\n", number * 4096);
        if number % 4 == 0 {
            // By the thread beside it.
            text += &format!("thread {}\n", (thread + 1) % 3);
            if number % 8 == 0 {
                text += "resized\n";
            }
            text += &format!("free {number}\n");
        }
    }
    text
}

#[test]
fn what_is_said_about_events_stays_with_them() {
    let source = rich_text();
    for events_in_a_block in [1, 7, 32_768] {
        let options = Options {
            events_in_a_block,
            ..Options::default()
        };
        let bytes = text::read(source.as_bytes(), Vec::new(), options).unwrap();
        let mut back = Vec::new();
        text::write(&mut open(&bytes).unwrap(), &mut back).unwrap();
        assert_eq!(
            String::from_utf8(back).unwrap(),
            source,
            "{events_in_a_block}"
        );
        // From the middle, too.
        let mut trace = open(&bytes).unwrap();
        trace.seek_to_event(200).unwrap();
        let whole = manners(&mut open(&bytes).unwrap(), 0);
        assert_eq!(
            manners(&mut trace, 200),
            whole
                .into_iter()
                .filter(|(at, _)| *at >= 200)
                .collect::<Vec<_>>()
        );
    }
}

fn manners(trace: &mut TraceReader<Cursor<&[u8]>>, from: u64) -> Vec<(u64, Manner)> {
    let mut found = Vec::new();
    let mut number = from;
    while let Some(batch) = trace.next_batch().unwrap() {
        for occurrence in batch.iter() {
            found.extend(occurrence.manner.map(|manner| (number, manner)));
            number += 1;
        }
    }
    assert!(number > 300);
    found
}

#[test]
fn manners_that_fit_no_event_are_bad_text() {
    for (lines, line) in [
        ("aligned 3\n", 2),
        ("aligned 0\n", 2),
        ("aligned 8\nfree 1\n", 3),
        ("resized\nallocate 1 0 1 0\n", 3),
        ("resized now\n", 2),
        ("thread\n", 2),
        (
            "thread 16777216\nallocate 1 0 1 0\nthread 16777216\nfree 1\n",
            5,
        ),
    ] {
        let text = format!("pagewise-trace 1\n{lines}");
        match text::read(text.as_bytes(), Vec::new(), Options::default()) {
            Err(Error::Text { line: found, .. }) => assert_eq!(found, line, "{lines}"),
            other => panic!("{lines}: {other:?}"),
        }
    }
}

#[test]
fn sites_of_two_traces_are_matched_by_what_is_known_of_them() {
    let table = |symbols: &[&str]| {
        let mut table = SiteTable::new();
        for symbol in symbols {
            let frame = Frame {
                symbol,
                ..Frame::default()
            };
            let frames = vec![frame];
            table
                .add(&Site {
                    frames,
                    ..Site::default()
                })
                .unwrap();
        }
        table
    };
    let (one, other) = (table(&["a", "b", "c"]), table(&["c", "x", "a", "a"]));
    assert_eq!(one.numbers_in(&other), [Some(2), None, Some(0)]);
    assert_eq!(one.numbers_in(&SiteTable::new()), [None; 3]);

    // Stacks are the same by what they say, however the two tables number it.
    let stacks = |order: [[&str; 2]; 2]| {
        let mut table = SiteTable::new();
        for paths in order {
            let frame = |path| Frame {
                module: Module { path, build_id: "" },
                ..Frame::default()
            };
            let site = Site {
                frames: paths.map(frame).into(),
                ..Site::default()
            };
            table.add(&site).unwrap();
        }
        table
    };
    let (one, other) = (
        stacks([["a", "b"], ["b", "b"]]),
        stacks([["b", "a"], ["a", "b"]]),
    );
    assert_eq!(one.numbers_in(&other), [Some(1), None]);
}

/// Whoever looks for a place means the script, not its interpreter, nor what that works through.
#[test]
fn a_scripts_place_is_its_own_function() {
    let frame = |path, symbol, file| Frame {
        module: Module { path, build_id: "" },
        symbol,
        file,
        ..Frame::default()
    };
    let place = |frames: &[Frame]| {
        let mut table = SiteTable::new();
        let site = Site {
            frames: frames.to_vec(),
            ..Site::default()
        };
        let number = table.add(&site).unwrap();
        table.describe_place(number)
    };
    let native = frame("/usr/bin/python3", "_PyObject_Malloc", "obmalloc.c");
    let stub = frame(JIT, "Builtin:Add", "");
    let import = frame(JIT, "_call", "<frozen importlib._bootstrap>");
    let script = frame(JIT, "load", "/app/a.py");
    let all = [native, stub, import, script];
    assert_eq!(place(&all), "load (a.py)");
    assert_eq!(place(&all[..3]), "_call (<frozen importlib._bootstrap>)");
    assert_eq!(place(&all[..2]), "_PyObject_Malloc (obmalloc.c)");
    assert_eq!(place(&all[1..2]), "Builtin:Add ([jit])");
}
