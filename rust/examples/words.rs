//! A request handler on a transaction heap: counts the words of each line of standard input.
//!     cargo run --package pagewise --example words

use std::io::{BufRead, stdin};

use pagewise::{Heap, Vec};

/// One request: everything it makes is on `heap`, and may go when it returns.
fn serve(heap: &Heap, line: &str) {
    let mut counts: Vec<(&str, usize), &Heap> = Vec::new_in(heap);
    for word in line.split_whitespace() {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((heap.alloc_str(word), 1)),
        }
    }
    for (word, count) in &counts {
        println!("{word} {count}");
    }
}

fn main() -> std::io::Result<()> {
    let mut heap = Heap::new(); // one for each thread
    for line in stdin().lock().lines() {
        serve(&heap, &line?);
        heap.free_all();
    }
    eprintln!("{} requests", heap.statistics().transactions);
    Ok(())
}
