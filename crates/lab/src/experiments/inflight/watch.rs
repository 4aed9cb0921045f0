//! Death of a peer: no channel of a session answers.

use std::{collections::BTreeSet, time::Duration};

use anabranch_base::{ChannelId, Instant};
use anabranch_session::SessionEvent;

/// Channels of a session, and the time since which none answers.
#[derive(Debug)]
pub(super) struct Watch {
    /// Silence of all channels after which the peer counts as dead.
    patience: Duration,
    answering: BTreeSet<ChannelId>,
    silent: Option<Instant>,
}

impl Watch {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            answering: BTreeSet::new(),
            silent: None,
        }
    }

    /// Takes note of an event of the session.
    pub(super) fn note(&mut self, event: &SessionEvent, now: Instant) {
        match event {
            SessionEvent::ChannelUp { channel, .. }
            | SessionEvent::ChannelRecovered { channel, .. } => {
                self.answering.insert(*channel);
                self.silent = None;
            }
            SessionEvent::ChannelSuspected { channel }
            | SessionEvent::ChannelClosed { channel, .. } => {
                let was_answering = self.answering.remove(channel);
                if was_answering && self.answering.is_empty() {
                    self.silent = Some(now);
                }
            }
            _ => {}
        }
    }

    /// Time from which on the peer counts as dead; `None` while a channel answers.
    pub(super) fn dead_at(&self) -> Option<Instant> {
        Some(self.silent? + self.patience)
    }

    /// True if the peer counts as dead.
    pub(super) fn is_dead(&self, now: Instant) -> bool {
        self.dead_at().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_dead_when_no_channel_has_answered_for_long_enough() {
        let mut watch = Watch::new(Duration::from_millis(100));
        let channel = |number| SessionEvent::ChannelSuspected {
            channel: ChannelId(number),
        };
        let up = |number| SessionEvent::ChannelRecovered {
            channel: ChannelId(number),
            silence: Duration::ZERO,
        };
        let at = Instant::from_millis;
        watch.note(&up(1), at(0));
        watch.note(&up(2), at(0));
        watch.note(&channel(1), at(10));
        assert_eq!(watch.dead_at(), None);
        watch.note(&channel(2), at(20));
        assert!(!watch.is_dead(at(119)) && watch.is_dead(at(120)));
        watch.note(&up(2), at(125));
        assert_eq!(watch.dead_at(), None);
    }
}
