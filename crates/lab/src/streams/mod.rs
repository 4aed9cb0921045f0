//! A [`Source`](crate::sources::Source) over the paths of a network, under a scheduling policy, in virtual
//! time: what arrives of each stream in windows of one second.
//!
//! | module | holds |
//! |---|---|
//! | [`scene`] | the paths: a network with cross-traffic, or recordings |
//! | [`algorithm`] | the policies that are compared |
//! | [`apps`] | the application that offers frames, and the one that writes down what arrives |
//! | [`oracle`] | what the optimum knows of the future |
//! | [`mod@measure`] | one run |
//! | [`figures`] | what windows and frames come to |
//! | [`lateness`] | why frames came late |
//! | [`show`] | rows and curves that several experiments have in common |

pub mod algorithm;
pub mod apps;
pub mod figures;
pub mod lateness;
pub mod measure;
pub mod oracle;
pub mod scene;
pub mod show;

pub use algorithm::Algorithm;
pub use figures::{StreamFigures, Windows};
pub use measure::{Measured, Timing, measure};
pub use scene::{RecordedPath, Scene};
