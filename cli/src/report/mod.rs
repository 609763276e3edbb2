//! What the user and their scripts get to see.

pub mod csv;
pub mod json;
mod link;
pub mod page;
pub mod plain;
pub mod savings;
pub mod style;
pub mod table;
pub mod target;
pub mod units;
