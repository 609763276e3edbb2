//! What other layouts would have done with a trace: simulated heaps (`heap`), Metis and its kin that learn which call
//! sites belong together (`algorithm`, `grouping`), and the Metis paper's experiment with its controls (`experiment`).

pub mod algorithm;
pub mod experiment;
pub mod grouping;
pub mod heap;
pub mod metrics;
pub mod workload;
