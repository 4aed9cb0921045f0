//! Traffic over the paths that agents choose.
//!
//! A node that carries traffic keeps it on the routes that its agent gives, as a host with one circuit per path would:
//! the loss of a path's relay is noticed after three round trips, and the rates of the paths are reported to the agent
//! every second.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, Rate};
use anabranch_overlay::{Fault, Routes, Sample, UnknownMember};

use super::{Agents, What};

/// Interval at which a host checks its loads.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between reports of the paths' rates.
const REPORT: Duration = Duration::from_secs(1);

/// Sample of the rate of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// Time.
    pub at: Instant,
    /// Rate over all paths, as the links have it.
    pub rate: Rate,
    /// Paths in use, as their nodes without the ends.
    pub paths: Vec<Vec<usize>>,
}

/// Traffic from one node to another, at the full rate of its paths.
pub(super) struct Load {
    from: usize,
    to: usize,
    /// Paths, each with the time since which it is dead, if it is.
    paths: Vec<(Vec<usize>, Option<Instant>)>,
    reported_at: Instant,
    history: Vec<Carried>,
}

impl Agents {
    /// Makes node `from` send to node `to` from now on, in messages of about `bytes`. Returns the number of the load.
    ///
    /// # Errors
    /// If both are the same.
    ///
    /// # Panics
    /// If node `from` does not run.
    pub fn carry(&mut self, from: usize, to: usize, bytes: u64) -> Result<usize, UnknownMember> {
        let (id, now) = (self.id(to), self.now());
        let (agent, _) = self.agent_mut(from).expect("the source runs");
        agent.want(id, bytes, now)?;
        self.drain(from);
        self.loads.push(Load {
            from,
            to,
            paths: Vec::new(),
            reported_at: now,
            history: Vec::new(),
        });
        let load = self.loads.len() - 1;
        self.schedule(now, What::Carry { load });
        Ok(load)
    }

    /// Samples of the rate of a load, every 50 ms.
    pub fn carried(&self, load: usize) -> &[Carried] {
        &self.loads[load].history
    }

    pub(super) fn look_at_load(&mut self, number: usize) {
        let (from, to) = (self.loads[number].from, self.loads[number].to);
        let now = self.now;
        self.schedule(now + LOOK, What::Carry { load: number });
        let to_id = self.id(to);
        let Some(agent) = self.nodes[from].agent.as_mut() else {
            return;
        };
        let routes = agent.routes(&to_id, now);
        self.follow(number, routes.as_ref());
        let paths = self.loads[number].paths.clone();
        let is_report = now.since(self.loads[number].reported_at) >= REPORT;
        let mut total = Rate::ZERO;
        for (index, (path, dead_since)) in paths.iter().enumerate() {
            let nodes: Vec<usize> = [from].iter().chain(path).chain([&to]).copied().collect();
            let is_dead = nodes.windows(2).any(|pair| {
                self.nodes[pair[1]].agent.is_none() || !self.can_reach(pair[0], pair[1])
            });
            let relays: Vec<NodeId> = path.iter().map(|&n| self.id(n)).collect();
            if is_dead {
                let since = dead_since.unwrap_or(now);
                self.loads[number].paths[index].1 = Some(since);
                let round_trip: Duration = nodes
                    .windows(2)
                    .map(|pair| self.delay(pair[0], pair[1]) * 2)
                    .sum();
                if now.since(since) >= round_trip * 3 {
                    self.with_agent(from, |agent| {
                        agent.handle_path_failed(&to_id, &relays, Fault::Somewhere, now);
                    });
                }
                continue;
            }
            self.loads[number].paths[index].1 = None;
            let links = nodes.windows(2).map(|pair| self.rate(pair[0], pair[1]));
            let rate = links.min().unwrap_or(Rate::ZERO);
            total = total + rate;
            if is_report {
                let seen = self.noisy(rate);
                let round_trip = self.delay(from, to) * 2;
                self.with_agent(from, |agent| {
                    if relays.is_empty() {
                        let sample = Sample {
                            rate: seen,
                            window: REPORT,
                            is_limited: true,
                            round_trip_min: Some(round_trip),
                        };
                        agent.handle_sample(&to_id, sample, now);
                    } else {
                        agent.handle_path_rate(&to_id, &relays, (seen, true), now);
                    }
                });
            }
        }
        let load = &mut self.loads[number];
        if is_report {
            load.reported_at = now;
        }
        let paths = paths.into_iter().map(|(path, _)| path).collect();
        load.history.push(Carried {
            at: now,
            rate: total,
            paths,
        });
    }

    /// Keeps the state of paths that stay.
    fn follow(&mut self, number: usize, routes: Option<&Routes>) {
        let Some(routes) = routes else {
            return;
        };
        let wanted: Vec<Vec<usize>> = routes
            .paths
            .iter()
            .map(|path| path.relays.iter().map(|id| self.index(id)).collect())
            .collect();
        let load = &mut self.loads[number];
        load.paths = wanted
            .into_iter()
            .map(|path| {
                let known = load.paths.iter().find(|(known, _)| *known == path);
                let dead_since = known.and_then(|(_, since)| *since);
                (path, dead_since)
            })
            .collect();
    }

    fn with_agent(&mut self, n: usize, act: impl FnOnce(&mut anabranch_overlay::Agent)) {
        if let Some(agent) = &mut self.nodes[n].agent {
            act(agent);
        }
        self.drain(n);
    }
}
