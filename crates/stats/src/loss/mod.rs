//! Loss: how much, in what bursts, and how likely two packets are lost together.
//!
//! | file | estimator | source |
//! |---|---|---|
//! | [`rate`] | fraction lost of the last N packets, with an interval | Wilson 1927 |
//! | [`bursts`] | lengths of runs of lost packets | [Horde Appendix A, Figures] |
//! | [`gilbert`] | the Gilbert–Elliott model and its moment fits | Gilbert 1960, Elliott 1963 |
//! | [`baum_welch`] | its maximum-likelihood fit | Baum et al. 1970, Rabiner 1989 §III |
//! | [`pairs`] | P(both lost \| either lost), k packets apart on one channel | [Horde §4.2, Appendix A] |
//! | [`cross`] | the same for packets on two channels | [Horde §4.2, Appendix A] |

pub mod baum_welch;
pub mod bursts;
pub mod cross;
pub mod gilbert;
pub mod pairs;
pub mod rate;

pub use baum_welch::BaumWelch;
pub use bursts::Bursts;
pub use cross::CrossLoss;
pub use gilbert::{GilbertElliott, Moments};
pub use pairs::PairLoss;
pub use rate::LossRate;
