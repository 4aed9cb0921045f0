//! Plan of a video session: its transport, and the segments that it plays.

use anabranch_base::{Instant, Rate};

/// Transport of the essential flow. The enhanced one is under `fixed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `ctcp` over NewReno, as published.
    Ctcp,
    /// `ctcp` over our default.
    Auto,
    /// NewReno alone: the paper's TCP.
    NewReno,
    /// Both flows of all sessions behind one pump, in one channel under `ctcp` over our default.
    Pipe,
}

impl Method {
    pub(super) const ALL: [Self; 3] = [Self::Ctcp, Self::Auto, Self::NewReno];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ctcp => "ctcp",
            Self::Auto => "ctcp-auto",
            Self::NewReno => "newreno",
            Self::Pipe => "pipe",
        }
    }

    pub(super) fn is_ctcp(self) -> bool {
        self != Self::NewReno
    }

    pub(super) fn controller(self, target: Rate) -> Option<anabranch_session::Controller> {
        let bps = target.as_bps();
        let text = match self {
            Self::Ctcp => format!("ctcp:{bps} bit/s,newreno"),
            Self::Auto | Self::Pipe => format!("ctcp:{bps} bit/s"),
            Self::NewReno => "newreno".to_owned(),
        };
        text.parse().ok()
    }
}

/// Plan of a video session.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    /// Time at which it starts.
    pub(super) start: Instant,
    /// Segments of the film that it plays.
    pub(super) segments: std::ops::Range<usize>,
    /// True if the essential flow is one segment ahead; otherwise each segment is sent while it plays, to measure the part of
    /// it that must be at the proxy beforehand.
    pub(super) is_staggered: bool,
}
