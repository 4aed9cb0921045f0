//! Paths of a run.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_session::Link;
use anabranch_sim::{
    Hop, Topology, World,
    topology::{RoutePlan, TopologyError},
    world::NodeIndex,
};

use super::recorded::RecordedPath;
use crate::kit::recording::Recording;

/// Paths between two nodes.
#[derive(Clone, Debug)]
pub enum Scene {
    /// Routes of a network, with its cross-traffic.
    Network(Topology),
    /// Recorded paths, which share nothing.
    Recorded(Vec<RecordedPath>),
}

impl Scene {
    /// Recorded paths of all these recordings, with their rates multiplied by one factor if their sum would exceed `most` on
    /// average; `None` if one of them is no path.
    pub fn of_recordings(recordings: &[&Recording], most: Rate) -> Option<Self> {
        let paths: Option<Vec<RecordedPath>> = recordings
            .iter()
            .map(|recording| RecordedPath::new(recording))
            .collect();
        let mut paths = paths?;
        let sum: f64 = paths.iter().map(RecordedPath::mean_bps).sum();
        let scale = (most.as_bps() as f64 / sum).min(1.0);
        for path in &mut paths {
            path.scale = scale;
        }
        Some(Self::Recorded(paths))
    }

    /// Names of its paths.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Network(plan) => plan
                .routes
                .iter()
                .map(|route| route.name.as_str())
                .collect(),
            Self::Recorded(paths) => paths.iter().map(|path| path.name.as_str()).collect(),
        }
    }

    /// The same scene with only one of its paths, and all cross-traffic.
    #[must_use]
    pub fn only(&self, path: usize) -> Self {
        match self {
            Self::Network(plan) => {
                let mut plan = plan.clone();
                plan.routes = plan.routes.into_iter().skip(path).take(1).collect();
                Self::Network(plan)
            }
            Self::Recorded(paths) => {
                Self::Recorded(paths.iter().skip(path).take(1).cloned().collect())
            }
        }
    }

    /// Places the scene between two nodes of a world. Returns the links by which the first reaches the second, one for each
    /// path.
    ///
    /// # Errors
    /// The network's plan is inconsistent.
    pub fn lay(
        &self,
        world: &mut World,
        nodes: [NodeIndex; 2],
    ) -> Result<Vec<Link>, TopologyError> {
        match self {
            Self::Network(plan) => Ok(plan.lay(world)?.connect(world, nodes)),
            Self::Recorded(paths) => {
                let mut links = Vec::new();
                for path in paths {
                    let wire = world.add_wire(nodes[0], nodes[1], path.configs())?;
                    links.push(world.link(nodes[0], wire));
                }
                Ok(links)
            }
        }
    }

    /// Places recorded paths from one node to several peers, which share them, and describes the sockets so that all of a path are one
    /// interface. Returns the links to each peer; `None` if it is a network.
    ///
    /// # Errors
    /// A path cannot be a link.
    pub fn lay_shared(
        &self,
        world: &mut World,
        from: NodeIndex,
        peers: &[NodeIndex],
    ) -> Option<Result<Vec<Vec<Link>>, TopologyError>> {
        let Self::Recorded(paths) = self else {
            return None;
        };
        let mut links = vec![Vec::new(); peers.len()];
        for path in paths {
            let wire = match world.add_trunk(path.configs()) {
                Ok(wire) => wire,
                Err(error) => return Some(Err(error.into())),
            };
            for (peer, links) in peers.iter().zip(&mut links) {
                let [there, back] = [Hop::forward(wire), Hop::backward(wire)];
                let route = world.add_route([from, *peer], &[there], &[back]);
                let link = world.route_link(from, route);
                let engine = world.engine(from);
                engine.set_socket_name(link.socket, &path.name);
                links.push(link);
            }
        }
        Some(Ok(links))
    }

    /// Paths with the rates that cross-traffic leaves of this scene's, constant for a step each.
    ///
    /// # Errors
    /// The network's plan is inconsistent, or a path has no rate above 0; in words.
    pub fn left_over(
        &self,
        seed: Seed,
        (step, duration): (Duration, Duration),
    ) -> Result<Vec<RecordedPath>, String> {
        let count = duration.div_duration_f64(step) as usize;
        let rates = self.available_bps(seed, (step, count));
        let rates = rates.map_err(|error| error.to_string())?;
        let times_s: Vec<f64> = (0..count)
            .map(|number| number as f64 * step.as_secs_f64())
            .collect();
        let paths = self.paths().into_iter().zip(rates);
        let paths = paths.map(|(name, rates)| {
            RecordedPath::new(&Recording {
                name: name.to_owned(),
                times_s: times_s.clone(),
                bandwidth_bps: Some(rates.into_iter().map(Some).collect()),
                ..Recording::default()
            })
        });
        let paths: Option<Vec<RecordedPath>> = paths.collect();
        paths.ok_or_else(|| "a path of the network has no rate above 0".to_owned())
    }

    /// One-way delay of each path without queueing.
    pub fn delays(&self) -> Vec<Duration> {
        match self {
            Self::Network(plan) => {
                let delay = |route: &RoutePlan| -> Duration {
                    let hops = route.via.windows(2);
                    hops.filter_map(|hop| plan.config(&hop[0], &hop[1]))
                        .map(|config| config.delay)
                        .sum()
                };
                plan.routes.iter().map(delay).collect()
            }
            Self::Recorded(paths) => paths.iter().map(RecordedPath::delay).collect(),
        }
    }

    /// Longest of [`Self::delays`].
    pub fn delay_max(&self) -> Duration {
        self.delays().into_iter().max().unwrap_or_default()
    }

    /// Capacity that each path has for us in each of `count` windows of `width` from time zero on, in bits per second, in a
    /// world of this seed in which the scene is placed first: the minimum over its hops.
    ///
    /// # Errors
    /// The network's plan is inconsistent.
    pub fn available_bps(
        &self,
        seed: Seed,
        (width, count): (Duration, usize),
    ) -> Result<Vec<Vec<f64>>, TopologyError> {
        match self {
            Self::Recorded(paths) => Ok(paths
                .iter()
                .map(|path| path.windows_bps(width, count))
                .collect()),
            Self::Network(plan) => plan
                .routes
                .iter()
                .map(|route| {
                    let mut least = vec![f64::INFINITY; count];
                    for hop in route.via.windows(2) {
                        let between = [hop[0].as_str(), hop[1].as_str()];
                        let left = plan.available_bps(seed, between, (width, count))?;
                        for (least, left) in least.iter_mut().zip(left.into_iter().flatten()) {
                            *least = least.min(left.max(0.0));
                        }
                    }
                    Ok(least)
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_sim::topology::figure8;

    fn recording(rates: &[f64]) -> Recording {
        Recording {
            name: "r".to_owned(),
            times_s: (0..rates.len()).map(|index| index as f64).collect(),
            bandwidth_bps: Some(rates.iter().copied().map(Some).collect()),
            ..Recording::default()
        }
    }

    #[test]
    fn recordings_are_scaled_together() {
        let (one, other) = (recording(&[8e6, 4e6]), recording(&[0.0, 12e6]));
        let scene = Scene::of_recordings(&[&one, &other], Rate::from_mbps(6)).unwrap();
        let width = Duration::from_secs(1);
        let windows = scene.available_bps(Seed(1), (width, 3)).unwrap();
        assert_eq!(windows, [[4e6, 2e6, 4e6], [0.0, 6e6, 0.0]]);
        let longer = scene.available_bps(Seed(1), (Duration::from_millis(1_500), 2));
        for bps in &longer.unwrap()[0] {
            assert!((bps - 5e6 / 1.5).abs() < 1e-3, "{bps}");
        }
        assert_eq!(
            scene.only(1).available_bps(Seed(1), (width, 1)).unwrap(),
            [[0.0]]
        );
        let wide = Scene::of_recordings(&[&one], Rate::from_mbps(100)).unwrap();
        assert_eq!(wide.available_bps(Seed(1), (width, 1)).unwrap(), [[8e6]]);
        assert!(Scene::of_recordings(&[&recording(&[0.0, 0.0])], Rate::from_mbps(1)).is_none());
    }

    #[test]
    fn a_network_reports_its_delay_and_available_rate() {
        let scene = Scene::Network(figure8());
        assert_eq!(scene.paths(), ["path A", "path B"]);
        assert_eq!(scene.delay_max(), Duration::from_millis(12));
        let windows = scene.available_bps(Seed(1), (Duration::from_secs(1), 20));
        for path in windows.unwrap() {
            assert!(path.iter().all(|&left| (0.0..100e6).contains(&left)));
        }
    }
}
