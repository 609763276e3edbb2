//! What the user and their scripts get to see.

pub mod json;
pub mod savings;
pub mod style;
pub mod table;
pub mod units;
