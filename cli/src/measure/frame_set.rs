//! A set of page numbers that is cheap to empty between samples.

const FRAMES_PER_CHUNK: u64 = 1 << 15;
const WORDS: usize = (FRAMES_PER_CHUNK / 64) as usize;

struct Chunk {
    bits: [u64; WORDS],
    in_use: bool,
}

/// Bitmap over page frame numbers in chunks of 128 MB of memory. Physical addresses have large holes,
/// and one program uses few of the chunks, so only those are stored and cleared.
#[derive(Default)]
pub struct FrameSet {
    chunks: Vec<Option<Box<Chunk>>>,
    in_use: Vec<usize>,
    count: u64,
}

impl FrameSet {
    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn clear(&mut self) {
        for index in self.in_use.drain(..) {
            if let Some(chunk) = &mut self.chunks[index] {
                chunk.bits.fill(0);
                chunk.in_use = false;
            }
        }
        self.count = 0;
    }

    /// Returns true when the frame was not yet in the set.
    pub fn insert(&mut self, frame: u64) -> bool {
        let bit = 1 << (frame % 64);
        let word = (frame % FRAMES_PER_CHUNK / 64) as usize;
        let words = self.chunk(frame);
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Adds `length` consecutive frames; returns how many were new.
    pub fn insert_run(&mut self, first: u64, length: u64) -> u64 {
        let (mut at, end) = (first, first + length);
        let before = self.count;
        while at < end {
            // As much as lies in one word.
            let next = end.min((at / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (next - at))) << (at % 64);
            let word = &mut self.chunk(at)[(at % FRAMES_PER_CHUNK / 64) as usize];
            let new = bits & !*word;
            *word |= bits;
            self.count += u64::from(new.count_ones());
            at = next;
        }
        self.count - before
    }

    fn chunk(&mut self, frame: u64) -> &mut [u64; WORDS] {
        let index = (frame / FRAMES_PER_CHUNK) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| {
            Box::new(Chunk {
                bits: [0; WORDS],
                in_use: false,
            })
        });
        if !chunk.in_use {
            chunk.in_use = true;
            self.in_use.push(index);
        }
        &mut chunk.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_frame_once() {
        let mut set = FrameSet::default();
        assert!(set.insert(7));
        assert!(!set.insert(7));
        assert!(set.insert(FRAMES_PER_CHUNK * 9 + 7));
        assert_eq!(set.insert_run(0, 16), 15);
        assert_eq!(set.len(), 17);
    }

    #[test]
    fn runs_are_what_single_insertions_are() {
        for (first, length) in [(0, 1), (63, 2), (5, 59), (64, 64), (1, 200), (32700, 300)] {
            let (mut run, mut single) = (FrameSet::default(), FrameSet::default());
            run.insert(first + length / 2);
            assert_eq!(run.insert_run(first, length), length - 1);
            for frame in first..first + length {
                assert!(!run.insert(frame));
                single.insert(frame);
            }
            assert_eq!(run.len(), single.len());
            assert!(run.insert(first + length));
        }
        assert_eq!(FrameSet::default().insert_run(7, 0), 0);
    }

    #[test]
    fn is_empty_again_after_clear() {
        let mut set = FrameSet::default();
        set.insert_run(FRAMES_PER_CHUNK - 8, 16);
        set.clear();
        assert_eq!(set.len(), 0);
        assert_eq!(set.insert_run(FRAMES_PER_CHUNK - 8, 16), 16);
    }
}
