//! What users of the crate can see.

use std::cell::Cell;

use pagewise::{Box, Heap, HeapError, Options, Vec};

#[test]
fn values_live_until_free_all_and_memory_is_used_again() {
    let mut heap = Heap::new();
    let first = heap.alloc(41u64);
    *first += 1;
    let name = heap.alloc_str("a name");
    let numbers = heap.alloc_slice_copy(&[1u16, 2, 3]);
    numbers[1] = 7;
    assert_eq!(
        (*first, &*name, &*numbers),
        (42, "a name", &[1u16, 7, 3][..])
    );
    let address = std::ptr::from_ref(first) as usize;
    assert_eq!(heap.statistics().live_blocks, 3);
    heap.free_all();
    assert_eq!(
        (
            heap.statistics().live_blocks,
            heap.statistics().transactions
        ),
        (0, 1)
    );
    assert_eq!(std::ptr::from_ref(heap.alloc(0u64)) as usize, address);
}

#[test]
fn boxes_drop_and_free() {
    struct Counted<'a>(&'a Cell<u32>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Cell::new(0);
    let heap = Heap::new();
    for _ in 0..1000 {
        drop(Box::new_in(Counted(&drops), &heap));
    }
    assert_eq!(drops.get(), 1000);
    assert_eq!(heap.statistics().live_blocks, 0);
    assert!(heap.statistics().segment_bytes <= 32 << 10);
}

#[test]
fn vectors_grow_shrink_and_leave_nothing() {
    for checked in [false, true] {
        let heap = Options::new().checked(checked).build().expect("a heap");
        let mut outer = Vec::new_in(&heap);
        for i in 0..300usize {
            let mut inner = Vec::new_in(&heap);
            inner.extend(0..i * 10);
            inner.truncate(i);
            inner.shrink_to_fit();
            outer.push(inner);
        }
        for (i, inner) in outer.iter().enumerate() {
            assert!(inner.iter().copied().eq(0..i));
        }
        let mut large = Vec::new_in(&heap);
        large.resize(9 << 20, 3u8);
        assert_eq!(large[9_000_000], 3);
    }
}

#[test]
fn alignment_is_kept() {
    #[repr(align(64))]
    struct Line([u8; 3]);
    #[repr(align(16))]
    struct Sixteen;
    let heap = Options::new().checked(true).build().expect("a heap");
    for i in 0..50u8 {
        let line = heap.alloc(Line([i; 3]));
        assert_eq!(std::ptr::from_ref(line) as usize % 64, 0);
        assert_eq!(line.0[2], i);
        assert_eq!(std::ptr::from_ref(heap.alloc(0u128)) as usize % 16, 0);
        assert_eq!(std::ptr::from_ref(heap.alloc(Sixteen)) as usize % 16, 0);
        heap.alloc(i);
    }
    let mut lines = Vec::new_in(&heap);
    lines.extend((0..100).map(|i| Line([i; 3])));
    assert!(
        lines
            .iter()
            .all(|line| (std::ptr::from_ref(line) as usize).is_multiple_of(64))
    );
    assert_eq!(lines[99].0[0], 99);
}

#[test]
fn limits_are_results_where_asked_for() {
    let heap = Options::new().limit_bytes(1 << 20).build().expect("a heap");
    assert!(heap.try_alloc([0u8; 4096]).is_ok());
    assert!(heap.try_alloc([1u8; 2 << 20]).is_err());
    heap.set_limit(0);
    assert!(heap.try_alloc([1u8; 2 << 20]).is_ok());
    assert_eq!(
        Options::new().segment_bytes(5000).build().err(),
        Some(HeapError::Segment(5000))
    );
}

#[test]
fn what_was_freed_serves_other_sizes() {
    let heap = Heap::new();
    let kept = heap.alloc([7u8; 50]);
    let mut blocks = Vec::new_in(&heap);
    blocks.extend((0..20_000).map(|i| Box::new_in([i; 10], &heap)));
    assert_eq!(heap.reclaim(), 0);
    drop(blocks);
    let before = heap.statistics();
    let reclaimed = heap.reclaim();
    assert!(reclaimed > 500_000);
    let after = heap.statistics();
    assert_eq!(after.segment_bytes, before.segment_bytes - reclaimed as u64);
    assert_eq!(after.empty_segment_bytes, 0);
    assert_eq!(kept, &[7u8; 50]);
}

#[test]
fn a_heap_can_be_sent() {
    let mut heap = Heap::new();
    heap.alloc([1u8; 100]);
    heap.free_all();
    let heap = std::thread::spawn(move || {
        heap.alloc_str("there");
        heap
    })
    .join()
    .expect("the thread");
    assert_eq!(heap.statistics().live_blocks, 1);
}
