//! Configuration of a channel.
//!
//! | file | holds |
//! |---|---|
//! | `controller` | [`Controller`]: congestion controllers by name, and their text form |
//! | `binomial` | [`Aimd`], [`Binomial`]: parameters of the window-based ones |
//! | `ctcp` | [`Ctcp`]: parameters of the controller with a target rate |
//! | `verb` | [`Verb`]: parameters of the rate-based one with plateaus |

mod binomial;
mod controller;
mod ctcp;
mod verb;

use std::time::Duration;

pub use binomial::{Aimd, Binomial};
pub use controller::{Controller, ParseControllerError};
pub use ctcp::{Ctcp, Inner};
pub use verb::{Plateaus, Step, Verb};

/// Settings of a channel; the defaults suit Internet paths from 1 Mbit/s to 10 Gbit/s and 1 ms to
/// 1 s of round trip.
#[derive(Clone, Debug)]
pub struct Config {
    /// The congestion controller.
    pub controller: Controller,
    /// Congestion window of a new channel, in packets, paced over a quarter of a round trip. 48 makes
    /// the ramp two round trips shorter than RFC 6928's 10; lower it for paths below 1 Mbit/s.
    pub initial_window_packets: u32,
    /// Largest UDP payload that path MTU discovery tries, in bytes; 1472 fills an Ethernet frame
    /// over IPv4, 1452 over IPv6. At least 1200.
    pub mtu_max_bytes: u16,
    /// Acknowledge after this many packets at the latest; fewer acknowledgements cost less CPU and less of a narrow
    /// return path.
    pub ack_every_packets: u32,
    /// Acknowledge after this time at the latest.
    pub ack_delay_max: Duration,
    /// Close the connection after this time without a packet from the peer. The session outlives its channels and opens
    /// a new one when the path returns.
    pub idle_timeout: Duration,
    /// Queueing delay that [`Controller::Auto`] aims for at the bottleneck.
    pub queue_target: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller: Controller::default(),
            initial_window_packets: 48,
            mtu_max_bytes: 1472,
            ack_every_packets: 8,
            ack_delay_max: Duration::from_millis(4),
            idle_timeout: Duration::from_secs(30),
            queue_target: Duration::from_millis(2),
        }
    }
}
