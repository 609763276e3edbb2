//! Starting the command and seeing it to its end.

pub mod environment;
pub mod executable;
pub mod filter;
pub mod library;
pub mod options;
pub mod places;
pub mod preload;
pub mod signals;
pub mod spaceless;
pub mod standard;
pub mod supervise;
