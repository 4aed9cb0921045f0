//! Output for players: fragmented MP4 (ISO/IEC 14496-12, CMAF) without the frames that did not arrive.

mod boxes;
mod filler;
mod fragment;
mod init;
mod progressive;
mod types;

pub use fragment::{fragment, fragment_bytes, plan};
pub use init::init_segment;
pub use progressive::Progressive;
pub use types::{Counts, Fragment, Frames, Layout, Options, Piece, Plan};
