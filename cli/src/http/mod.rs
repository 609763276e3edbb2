//! A small server of HTTP, for those who look at figures: metrics, and profiles of a recording.
//!
//! It serves whoever asks, and nobody can hang it: requests are short, answers are soon taken, connections are few.

mod address;
mod message;
mod server;

pub use address::{Usual, listen};
pub use message::{Answer, Request};
pub use server::{reach, serve};
