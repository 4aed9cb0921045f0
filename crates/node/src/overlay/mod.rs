//! The overlay, on a node: members found and watched, links measured, ways through relays
//! ([`anabranch_overlay`]).
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Overlay`], what others of the node ask of it |
//! | `runner` | hosts the agent |
//! | `line` | the session with one member, and the overlay's streams on it |
//! | `keys` | signatures |

mod keys;
mod line;
mod runner;

use std::{collections::BTreeMap, net::SocketAddr};

use anabranch_base::{NodeId, Seed};
use anabranch_net::{Host, Session};
use anabranch_overlay::{Agent, Member};
pub use anabranch_overlay::{Config, ConfigError, MemberView, State};
use anabranch_session::SecretKey;
use tokio::sync::{mpsc, oneshot};

use self::{keys::OwnKey, runner::Input};
pub(crate) use self::{line::LABELS, runner::Runner};
use crate::{config::OverlayConfig, keys::KeyError};

/// Inputs that may wait; who brings more waits.
const INPUTS_MAX: usize = 1_024;

/// A member, as the operator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// For people.
    pub name: String,
    /// Where it can be reached.
    pub addresses: Vec<SocketAddr>,
}

/// A node cannot take part in its overlay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// A setting is refused.
    #[error("overlay: {0}")]
    Config(#[from] ConfigError),
    /// There is no randomness.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A node's part in the overlay. Clones share it.
#[derive(Clone, Debug)]
pub struct Overlay {
    inputs: mpsc::Sender<Input>,
    members: std::sync::Arc<BTreeMap<NodeId, Site>>,
}

impl Overlay {
    /// Takes part with these members; the runner does the work.
    ///
    /// # Errors
    /// A setting is out of its range, or the system has no randomness.
    pub(crate) fn new(
        host: &Host,
        key: SecretKey,
        OverlayConfig { sites, agent, .. }: OverlayConfig,
    ) -> Result<(Self, Runner), OverlayError> {
        // Nodes that start together would otherwise do everything at the same moments.
        let id = host.node_id();
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| KeyError::Entropy(error.to_string()))?;
        let seed = Seed(u64::from_le_bytes(seed));
        let members: Vec<Member> = (sites.iter())
            .map(|(&node, site)| Member {
                node,
                addresses: site.addresses.clone(),
            })
            .collect();
        let keys = Box::new(OwnKey(key));
        let now = host.clock().now();
        let agent = Agent::new(agent, id, &members, keys, seed, now)?;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let overlay = Self {
            inputs: sender.clone(),
            members: std::sync::Arc::new(sites.clone()),
        };
        let runner = Runner::new(host.clone(), agent, sites, (sender, inputs));
        Ok((overlay, runner))
    }

    /// Whether a node is on the list.
    pub fn is_member(&self, node: &NodeId) -> bool {
        self.members.contains_key(node)
    }

    /// What a member is called; the beginning of its id when it is not on the list.
    pub fn name(&self, node: &NodeId) -> String {
        match self.members.get(node) {
            Some(site) => site.name.clone(),
            None => node.to_string().chars().take(8).collect(),
        }
    }

    /// A member opened a session: it may be one for the overlay.
    pub(crate) async fn accepted(&self, session: Session) {
        self.inputs.send(Input::Accepted(session)).await.ok();
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Runner, anabranch_base::Instant) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        let question = Box::new(move |runner: &mut Runner, now| {
            sender.send(question(runner, now)).ok();
        });
        self.inputs.send(Input::Ask(question)).await.ok()?;
        answer.await.ok()
    }

    /// All members, this node included; empty when the runner has ended.
    pub async fn members(&self) -> Vec<MemberView> {
        let views = self.ask(|runner, now| runner.agent.members(now).collect());
        views.await.unwrap_or_default()
    }
}
