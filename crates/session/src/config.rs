//! Configuration of a node's sessions.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

use anabranch_admission::Prior;
use anabranch_channel as channel;
use anabranch_estimate::model::Choice;
use anabranch_sched::Policy;
use anabranch_spec::{ADU_BYTES_MAX, Preferences, Shares};

use crate::send::ADU_OVERHEAD_BYTES;

/// Credit that both ends assume before the peer's HELLO: enough for the first round trip.
pub(crate) const INITIAL_STREAM_CREDIT_BYTES: u64 = 256 << 10;
/// As above, for all reliable streams together.
pub(crate) const INITIAL_SESSION_CREDIT_BYTES: u64 = 1 << 20;
/// Margin of a stream window over the largest ADU.
pub(crate) const ADU_MARGIN_BYTES: u64 = 4096;
/// Cost of the largest ADU.
pub(crate) const ADU_COST_MAX_BYTES: u64 = ADU_BYTES_MAX as u64 + ADU_OVERHEAD_BYTES;
/// Most streams that a peer may have open at a time.
pub(crate) const STREAMS_MAX: usize = 65_536;
/// Largest window: sums of what both ends may announce stay far from the end of their range.
const WINDOW_MAX_BYTES: u64 = 1 << 48;
/// Most channels of one session.
pub(crate) const CHANNELS_MAX: usize = 32;

/// Credit that is worth an announcement: a quarter of the window, or less where needed, so that the largest ADU always fits
/// the announced credit if it fits the window; otherwise its sender would wait for ever.
pub(crate) fn grant_step(window_bytes: u64) -> u64 {
    let quarter = window_bytes / 4;
    match window_bytes.saturating_sub(ADU_COST_MAX_BYTES) {
        0 => quarter,
        spare => quarter.min(spare),
    }
}

/// Coupling of a session's channels that share a bottleneck: each takes its part of one flow's share there, so that
/// together they take no more than one flow. See `docs/congestion.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Coupling {
    /// Channels that are found to share one ([`PathReport::shares_with`](crate::PathReport::shares_with)) are coupled.
    #[default]
    Auto,
    /// All channels are coupled: the operator knows that all paths share one access line.
    All,
    /// No channels are coupled: each takes the share of a flow.
    Off,
}

/// The text names no coupling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a coupling mode; choose auto, all or off")]
pub struct ParseCouplingError(String);

impl FromStr for Coupling {
    type Err = ParseCouplingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            "off" => Ok(Self::Off),
            other => Err(ParseCouplingError(other.to_owned())),
        }
    }
}

impl fmt::Display for Coupling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::All => "all",
            Self::Off => "off",
        })
    }
}

/// Bounds of the probes that measure paths for promises while no data does; they hold for all sessions of a node together, in any ten
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probing {
    /// Bytes that may always be spent; 0 and a `share` of 0: no probes.
    pub idle_bytes: u64,
    /// Bytes that may be spent as a part of all that the node sends, 0 to 1, if that is more.
    pub share: f64,
    /// True if metered paths are probed, too.
    pub metered: bool,
}

impl Probing {
    /// No probes.
    pub const OFF: Self = Self {
        idle_bytes: 0,
        share: 0.0,
        metered: false,
    };

    /// True if any probe may be sent.
    pub fn is_on(&self) -> bool {
        self.idle_bytes > 0 || self.share > 0.0
    }
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            idle_bytes: 64_000,
            share: 0.05,
            metered: false,
        }
    }
}

/// Settings of an engine; the defaults suit up to 10 Gbit/s over 50 ms or 1 Gbit/s over 300 ms.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of new channels.
    pub channel: channel::Config,
    /// Scheduling policy of new sessions.
    pub policy: Policy,
    /// Memory of the [transcript](crate::transcript) of each new session, in bytes; 0: none is kept.
    pub transcript_bytes: usize,
    /// Objectives that are in force in every new session from its beginning, as a HOSE text; check it with
    /// `hose check` or [`anabranch_hose::compile`]: a text with errors is ignored.
    pub objectives: Option<Arc<str>>,
    /// Largest ADU that both nodes' applications send, 1 byte to 16 MiB: windows are raised to hold one. The peer
    /// cannot begin a larger one where windows are small.
    pub adu_bytes_max: usize,
    /// Bytes of one stream that may wait for the application to read them; at least one ADU of the
    /// largest size, and 256 KiB.
    pub stream_window_bytes: u64,
    /// Bytes of all reliable streams of a session that may wait; at least one stream's, and 1 MiB.
    pub session_window_bytes: u64,
    /// Bytes of one stream that may wait to be sent or acknowledged; beyond, `send` returns `Full`. Raised
    /// to twice the sum of the congestion windows where paths are long and fast.
    pub send_buffer_bytes: usize,
    /// Time for which a new session tries to reach the peer.
    pub connect_timeout: Duration,
    /// Time for which a session without any channel waits for one to return.
    pub session_timeout: Duration,
    /// Copies sent on a second channel, as a fraction of bytes sent: for the tail of a transfer and
    /// for packets, urgent or of a short lifetime, that are overdue or likely to be late.
    pub copies_max: f64,
    /// Length of the windows in which paths' bandwidth is measured, 100 ms to 1 s.
    pub measure_window: Duration,
    /// Path preferences of all streams, after those of the stream's own spec.
    pub paths: Preferences,
    /// Bounds of probes.
    pub probing: Probing,
    /// Knowledge of local interfaces from earlier sessions, by name; it applies to paths that are measured from now on.
    pub priors: Arc<BTreeMap<Arc<str>, Prior>>,
    /// Largest shares of tenants of what can be promised, over all sessions; see [`crate::Engine::set_promised_share`].
    pub promised_shares: Arc<Shares>,
    /// Coupling of the channels of a session.
    pub coupling: Coupling,
    /// Model by which channels are predicted in sessions whose policy plans. See `docs/objectives.md`.
    pub model: Choice,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            channel: channel::Config::default(),
            policy: Policy::Default,
            transcript_bytes: 0,
            objectives: None,
            adu_bytes_max: ADU_BYTES_MAX,
            stream_window_bytes: 32 << 20,
            session_window_bytes: 64 << 20,
            send_buffer_bytes: 8 << 20,
            connect_timeout: Duration::from_secs(30),
            session_timeout: Duration::from_secs(300),
            copies_max: 0.05,
            measure_window: Duration::from_millis(200),
            paths: Preferences::default(),
            probing: Probing::default(),
            priors: Arc::default(),
            promised_shares: Arc::default(),
            coupling: Coupling::default(),
            model: Choice::default(),
        }
    }
}

impl Config {
    /// The same settings with every window raised to what the protocol needs at least.
    pub(crate) fn normalised(mut self) -> Self {
        let adu = self.adu_bytes_max.clamp(1, ADU_BYTES_MAX) as u64 + ADU_MARGIN_BYTES;
        // What peers assume before the HELLO (`spec/wire.md` §7).
        let stream_min = adu.max(INITIAL_STREAM_CREDIT_BYTES);
        self.stream_window_bytes = self.stream_window_bytes.clamp(stream_min, WINDOW_MAX_BYTES);
        let session_min = self.stream_window_bytes.max(INITIAL_SESSION_CREDIT_BYTES);
        self.session_window_bytes = self
            .session_window_bytes
            .clamp(session_min, WINDOW_MAX_BYTES);
        self.send_buffer_bytes = self.send_buffer_bytes.max(1);
        self.measure_window = self
            .measure_window
            .clamp(Duration::from_millis(100), Duration::from_secs(1));
        self
    }
}
