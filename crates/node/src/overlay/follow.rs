//! A session that uses the overlay's ways to its peer as they come and go.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_net::Session;
use anabranch_session::{ChannelStatus, Link};
use tokio::time::Instant;

use super::usage::{PathUse, Usage};

/// A relayed link that did not answer for so long is of no use.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// After so long without an answer, a relay is asked to learn anew where this node sends from. More than a packet's way
/// there and back over any two relays.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Interval at which channels are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Interval at which paths are asked for again when nothing happens.
const ASK: Duration = Duration::from_secs(2);
/// Traffic of a shorter time than this is not spoken of.
const USE_MIN: Duration = Duration::from_secs(1);

/// What a session has to tell the overlay when it asks for ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFeedback {
    /// Addresses given before that are of no use.
    pub failed: Vec<SocketAddr>,
    /// Addresses given before from which nothing has come back yet: their relay may have taken another's packet for the
    /// session's.
    pub unanswered: Vec<SocketAddr>,
    /// What its ways carried since it asked last.
    pub used: Vec<PathUse>,
}

impl PathFeedback {
    /// True if something is wrong that was not before.
    fn says_more_than(&self, before: &Self) -> bool {
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
    /// What the overlay was told last of what is wrong.
    told: PathFeedback,
    usage: Usage,
    asked_at: Option<Instant>,
}

impl Follower {
    /// No relayed links yet.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            links: BTreeMap::new(),
            told: PathFeedback::default(),
            usage: Usage::default(),
            asked_at: None,
        }
    }

    /// Adds links to these addresses, and takes out those to all others that were added before.
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

    /// The error with the links: whose channels fell silent or never came up, and whose should have come up by now.
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

    /// Waits until ways should be asked for: something is wrong with one, or it is time. `None` when the session is over.
    pub async fn next(&mut self) -> Option<PathFeedback> {
        while self.session.close_reason().is_none() {
            let feedback = self.wrong();
            if feedback.says_more_than(&self.told)
                || self.asked_at.is_none_or(|at| at.elapsed() >= ASK)
            {
                self.told.clone_from(&feedback);
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
        // After a failure the next question comes early: too short a time says nothing.
        if elapsed < USE_MIN { Vec::new() } else { used }
    }
}
