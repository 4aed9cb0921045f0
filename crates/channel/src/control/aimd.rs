//! Additive increase, multiplicative decrease: the default of Horde's channel managers [Horde §7.4.1], and TCP's
//! algorithm with a = 1, b = ½.
//!
//! It is the binomial controller with k = 0 and l = 1.

use super::binomial::Binomial;
use crate::config;

pub(super) fn new(aimd: config::Aimd, window: u64, mtu: u16) -> Binomial {
    let parameters = config::Binomial {
        k: 0.0,
        l: 1.0,
        increase: aimd.increase,
        decrease: aimd.decrease,
    };
    Binomial::new(parameters, window, mtu)
}
