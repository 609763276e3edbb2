//! How the parts of a heap name an object.

/// Index of an object in the table; used again after its death.
pub type Slot = u32;
