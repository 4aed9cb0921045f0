//! A [`Source`](crate::kit::sources::Source) over the paths of a network, under a scheduling policy, in virtual time: arrivals of
//! each stream in windows of one second.
//!
//! | module | holds |
//! |---|---|
//! | [`scene`] | the paths: a network with cross-traffic, or recordings |
//! | [`recorded`] | a path with recorded rates |
//! | [`algorithm`] | the policies compared |
//! | [`apps`] | the application that offers frames, and the one that records arrivals |
//! | [`published_pgos`] | PGOS as it was published, to compare ours with |
//! | [`oracle`] | the optimum's knowledge of the future |
//! | [`mod@measure`] | one run |
//! | [`changes`] | paths that fail or are added on the way |
//! | [`figures`] | figures from windows and frames |
//! | [`lateness`] | causes of late frames |
//! | [`show`] | rows and curves that several experiments have in common |

pub mod algorithm;
pub mod apps;
pub mod changes;
pub mod figures;
pub mod lateness;
pub mod measure;
pub mod oracle;
pub mod published_pgos;
pub mod recorded;
pub mod scene;
pub mod show;

pub use algorithm::Algorithm;
pub use changes::Change;
pub use figures::{StreamFigures, Windows};
pub use measure::{Measured, Timing, measure, measure_changing};
pub use recorded::RecordedPath;
pub use scene::Scene;
