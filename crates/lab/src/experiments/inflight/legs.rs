//! Paths of the legs: from the source to the processing node, and from there to each viewer.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_session::Link;
use anabranch_sim::{
    World,
    topology::{TopologyError, figure8},
    world::NodeIndex,
};

use super::viewers::VIEWERS;
use crate::{
    Options,
    experiments::smartpointer::demand_of,
    kit::{
        recording::Recording,
        streams::{RecordedPath, Scene, Timing},
    },
};

/// Interval in which the rate of a path of the testbed is constant.
const STEP: Duration = Duration::from_millis(100);
/// Average rate of all paths of the first leg together, at most: a tenth of the testbed's.
const FIRST_MOST: Rate = Rate::from_kbps(8_442);

/// Paths, and the rates of the source's streams.
#[derive(Clone, Debug)]
pub(super) struct Legs {
    /// From the source to the processing node.
    pub(super) first: Vec<RecordedPath>,
    /// From there to each viewer.
    pub(super) last: Vec<Vec<RecordedPath>>,
    /// Atoms, bonds in view, bonds out of view: as demanding on the first leg as the paper's were on its paths.
    pub(super) rates: [Rate; 3],
}

impl Legs {
    /// The legs: what cross-traffic leaves of the testbed, of another seed for each leg; or recordings, of which each leg begins
    /// elsewhere.
    ///
    /// # Errors
    /// A recording is no path, or the paths hold too little; in words.
    pub(super) fn new(options: &Options<'_>, timing: Timing) -> Result<Self, String> {
        let recordings = &options.corpus.recordings;
        let count = VIEWERS.len() + 1;
        let paths = |leg: usize| -> Result<Vec<RecordedPath>, String> {
            if recordings.is_empty() {
                let seed = options.seed.child(&format!("leg {leg}"));
                let duration = timing.end() + Duration::from_secs(10);
                return Scene::Network(figure8()).left_over(seed, (STEP, duration));
            }
            let path = |recording| {
                let path = RecordedPath::new(&rotated(recording, leg as f64 / count as f64));
                path.ok_or_else(|| "a recording has no bandwidth above 0".to_owned())
            };
            recordings.iter().map(path).collect()
        };
        let mut first = paths(0)?;
        let sum: f64 = first.iter().map(RecordedPath::mean_bps).sum();
        let scale = (FIRST_MOST.as_bps() as f64 / sum).min(1.0);
        let scaled = |paths: &mut Vec<RecordedPath>, share: f64| {
            for path in paths {
                path.scale = scale * share;
            }
        };
        scaled(&mut first, 1.0);
        let mut last = Vec::new();
        for (index, viewer) in VIEWERS.iter().enumerate() {
            let mut paths = paths(index + 1)?;
            scaled(&mut paths, viewer.share);
            last.push(paths);
        }
        let demand = demand_of(&Scene::Recorded(first.clone()), options.seed, timing)?;
        Ok(Self {
            first,
            last,
            rates: demand.rates,
        })
    }
}

/// The recording with its values moved by a share of its length.
fn rotated(recording: &Recording, share: f64) -> Recording {
    let mut rotated = recording.clone();
    if let Some(values) = &mut rotated.bandwidth_bps {
        let count = values.len();
        values.rotate_left(((share * count as f64) as usize).min(count));
    }
    rotated
}

/// One-way delay of the paths of a leg without queueing.
pub(super) fn delay(leg: &[RecordedPath]) -> Duration {
    let delays = leg.iter().map(|path| path.configs().forward.delay);
    delays.max().unwrap_or_default()
}

/// Places a leg between two nodes, with its rates from the first to the second. Returns the links of the one that dials.
///
/// # Errors
/// A path cannot be a link.
pub(super) fn lay(
    world: &mut World,
    leg: &[RecordedPath],
    [from, to]: [NodeIndex; 2],
    dials: NodeIndex,
) -> Result<Vec<Link>, TopologyError> {
    let link = |path: &RecordedPath| {
        let wire = world.add_wire(from, to, path.configs())?;
        Ok(world.link(dials, wire))
    };
    leg.iter().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_of_one_recording_begin_elsewhere_in_it() {
        let recording = Recording {
            name: "r".to_owned(),
            times_s: vec![0.0, 1.0, 2.0, 3.0],
            bandwidth_bps: Some(vec![Some(1.0), Some(2.0), Some(3.0), Some(4.0)]),
            ..Recording::default()
        };
        let values = |share| rotated(&recording, share).bandwidth_bps.unwrap();
        assert_eq!(values(0.0), recording.bandwidth_bps.clone().unwrap());
        assert_eq!(values(0.5), [Some(3.0), Some(4.0), Some(1.0), Some(2.0)]);
    }
}
