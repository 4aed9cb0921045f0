//! A session that uses the overlay's ways to its peer as they come and go.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch_net::Session;
use anabranch_session::{ChannelState, Link};
use tokio::time::Instant;

use super::usage::{Usage, WayUse};

/// A relayed link that did not answer for so long is of no use.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// How often channels are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How often ways are asked for again when nothing happens.
const ASK: Duration = Duration::from_secs(2);
/// Traffic of a shorter time than this is not spoken of.
const USE_MIN: Duration = Duration::from_secs(1);

/// What a session has to tell the overlay when it asks for ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Addresses given before that are of no use.
    pub failed: Vec<SocketAddr>,
    /// What its ways carried since it asked last.
    pub used: Vec<WayUse>,
}

/// The relayed links of a session.
#[derive(Debug)]
pub struct Follower {
    session: Session,
    links: BTreeMap<SocketAddr, (Vec<Link>, Instant)>,
    /// What the overlay has been told of.
    told: Vec<SocketAddr>,
    usage: Usage,
    asked_at: Option<Instant>,
}

impl Follower {
    /// No relayed links yet.
    pub fn new(session: Session) -> Self {
        Self {
            session,
            links: BTreeMap::new(),
            told: Vec::new(),
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

    /// Addresses whose channels fell silent or never came up.
    pub fn failed(&self) -> Vec<SocketAddr> {
        let channels = self.session.channels();
        let is_failed = |(&remote, (_, since)): (&SocketAddr, &(Vec<Link>, Instant))| {
            let of = channels.iter().filter(|channel| channel.remote == remote);
            let states: Vec<ChannelState> = of.map(|channel| channel.state).collect();
            let failed = if states.contains(&ChannelState::Active) {
                false
            } else {
                states.contains(&ChannelState::Suspected) || since.elapsed() > JOIN_MAX
            };
            failed.then_some(remote)
        };
        self.links.iter().filter_map(is_failed).collect()
    }

    /// Waits until ways should be asked for: something failed, or it is time. `None` when the session is over.
    pub async fn next(&mut self) -> Option<News> {
        while self.session.close_reason().is_none() {
            let failed = self.failed();
            let is_news = failed.iter().any(|remote| !self.told.contains(remote));
            if is_news || self.asked_at.is_none_or(|at| at.elapsed() >= ASK) {
                self.told.clone_from(&failed);
                let used = self.used();
                return Some(News { failed, used });
            }
            tokio::time::sleep(LOOK).await;
        }
        None
    }

    fn used(&mut self) -> Vec<WayUse> {
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
