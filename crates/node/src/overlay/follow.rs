//! Follower of the overlay's paths: adds them to a session, and removes them, as they come and go.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_net::Session;
use anabranch_session::{ChannelStatus, Link};
use tokio::time::Instant;

use super::usage::{PathUse, Usage};

/// Time after which a relayed link that has not answered is of no use.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// Time without an answer after which a relay is asked to learn anew where this node sends from. Longer than a round trip over
/// any two relays.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Interval at which channels are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Interval at which paths are requested again if nothing happens.
const ASK: Duration = Duration::from_secs(2);
/// Traffic over less time than this is not reported.
const USE_MIN: Duration = Duration::from_secs(1);

/// Feedback that a session gives to the overlay when it requests paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFeedback {
    /// Addresses provided before that are of no use.
    pub failed: Vec<SocketAddr>,
    /// Addresses provided before from which nothing has come back yet: their relay may have taken another node's packet for the
    /// session's.
    pub unanswered: Vec<SocketAddr>,
    /// Traffic on its paths since the last request.
    pub used: Vec<PathUse>,
}

impl PathFeedback {
    /// True if it reports an error that `before` does not contain.
    fn has_more_than(&self, before: &Self) -> bool {
        let is_new = |now: &[SocketAddr], before: &[SocketAddr]| {
            now.iter().any(|remote| !before.contains(remote))
        };
        is_new(&self.failed, &before.failed) || is_new(&self.unanswered, &before.unanswered)
    }
}

/// The relayed links of a session.
#[derive(Debug)]
pub struct Follower {
    session: Session,
    links: BTreeMap<SocketAddr, (Vec<Link>, Instant)>,
    /// Errors last reported to the overlay.
    reported: PathFeedback,
    usage: Usage,
    asked_at: Option<Instant>,
}

impl Follower {
    /// No relayed links yet.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            links: BTreeMap::new(),
            reported: PathFeedback::default(),
            usage: Usage::default(),
            asked_at: None,
        }
    }

    /// Adds links to these addresses, and removes the links to all others that were added before.
    pub fn set(&mut self, near: &[SocketAddr]) {
        let session = &self.session;
        self.links.retain(|remote, (links, _)| {
            let stays = near.contains(remote);
            if !stays {
                links.iter().for_each(|link| session.remove_link(link));
            }
            stays
        });
        for &remote in near {
            if !self.links.contains_key(&remote) {
                let links = self.session.add_remote(remote);
                self.links.insert(remote, (links, Instant::now()));
            }
        }
    }

    /// Errors of the links: addresses whose channels fell silent or never came up, and those whose channels should have come up
    /// by now.
    fn wrong(&self) -> PathFeedback {
        let channels = self.session.channels();
        let mut feedback = PathFeedback::default();
        for (&remote, (_, since)) in &self.links {
            let of = channels.iter().filter(|channel| channel.remote == remote);
            let states: Vec<ChannelStatus> = of.map(|channel| channel.state).collect();
            let waited = since.elapsed();
            if states.contains(&ChannelStatus::Active) {
                continue;
            }
            if states.contains(&ChannelStatus::Suspected) || waited > JOIN_MAX {
                feedback.failed.push(remote);
            } else if waited > ANSWER_MAX {
                feedback.unanswered.push(remote);
            }
        }
        feedback
    }

    /// Waits until paths should be requested: there is a new error, or the interval is over. `None` once the session is over.
    pub async fn next(&mut self) -> Option<PathFeedback> {
        while self.session.close_reason().is_none() {
            let feedback = self.wrong();
            if feedback.has_more_than(&self.reported)
                || self.asked_at.is_none_or(|at| at.elapsed() >= ASK)
            {
                self.reported.clone_from(&feedback);
                let used = self.used();
                return Some(PathFeedback { used, ..feedback });
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    fn used(&mut self) -> Vec<PathUse> {
        let elapsed =
            (self.asked_at.replace(Instant::now())).map_or(Duration::ZERO, |at| at.elapsed());
        let channels = self.session.channels();
        let links = &self.links;
        let used = self
            .usage
            .look(&channels, elapsed, |near| links.contains_key(near));
        // After a failure the next request comes early: so short a time is not conclusive.
        if elapsed < USE_MIN { Vec::new() } else { used }
    }
}
