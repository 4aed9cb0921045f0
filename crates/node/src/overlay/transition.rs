//! Transitions of the runner: to other members and settings, and out of the overlay.

use std::time::Duration;

use anabranch_base::{Instant, NodeId};
use anabranch_overlay::Output;
use tokio::task::JoinSet;

use super::{runner::Runner, serving::Serving};

/// Time that the farewell and the ends of circuits may take.
const FAREWELL: Duration = Duration::from_millis(300);

impl Runner {
    /// Puts the members and settings that are wanted into force, if they are others.
    pub(super) fn follow_settings(&mut self, now: Instant) {
        if !self.wanted.has_changed().unwrap_or(false) {
            return;
        }
        let settings = self.wanted.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.sites, settings.sites.clone());
        let sites = self.sites.clone();
        let is_member = |node: &NodeId| sites.contains_key(node);
        for &node in before.keys().filter(|node| !is_member(node)) {
            self.remove_line(node, now);
            self.unneeded.remove(&node);
        }
        self.subscriptions.retain(|_, one| is_member(&one.to));
        for subscription in self.subscriptions.values_mut() {
            subscription.end_circuits_over(|relay| !is_member(relay));
        }
        self.agent.change(settings.setup.clone(), now);
        // Links that stand stay.
        for (node, site) in sites.iter() {
            if before.get(node).is_some_and(|known| {
                (&known.addresses, &known.hosts) != (&site.addresses, &site.hosts)
            }) {
                self.agent.redial(node, now);
            }
        }
        self.serve_with(settings.serving.clone());
        self.follow_rights(now);
        let headroom = self.serving.as_ref().map(Serving::headroom);
        self.agent.set_headroom(headroom, now);
        self.expire_subscriptions(now);
        for id in self.subscriptions.keys().copied().collect::<Vec<_>>() {
            self.open_circuits(id, now);
        }
    }

    /// Relays with this relay from now on, or not at all.
    fn serve_with(&mut self, serving: Option<Serving>) {
        let is_same = match (&self.serving, &serving) {
            (Some(before), Some(now)) => before.is(now),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        // The sources' streams are reset: each looks for another path at once.
        self.answering = JoinSet::new();
        self.serving = serving;
        if let Some(serving) = &self.serving {
            for (&peer, line) in &self.lines {
                serving.set_session(peer, Some(line.session.clone()));
                let attending = serving.clone().attend(line.session.clone());
                self.answering.spawn(attending);
            }
        }
    }

    /// Takes leave of the other members, and ends links and circuits.
    pub(super) async fn leave(mut self) {
        self.subscriptions.clear();
        self.serve_with(None);
        self.bid_farewell();
        tokio::time::sleep(FAREWELL).await;
        for line in self.lines.values() {
            line.close();
        }
    }

    /// Sends the farewell to every member with a session.
    fn bid_farewell(&mut self) {
        self.agent.leave(self.host.clock().now());
        while let Some(output) = self.agent.poll_output() {
            if let Output::Send { to, bytes } = output
                && let Some(line) = self.lines.get(&to)
            {
                line.send_gossip(bytes);
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.bid_farewell();
    }
}
