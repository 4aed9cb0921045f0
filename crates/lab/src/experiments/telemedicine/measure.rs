//! One run in virtual time.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Seed};
use anabranch_clinic::wire::Purpose;
use anabranch_session::{AllowList, Config, Policy, StreamSpec, promise::Account};
use anabranch_sim::World;

use super::{
    clinic::{Clinic, FEEDS, Side},
    ends::End,
    figures::Figures,
    lines::{self, Line},
};

/// Time at which the application begins: all channels are connected by then.
pub(super) const BEGIN: Instant = Instant::from_millis(2_500);
/// Time after the last ADU that counts, for those in flight: the record has the longest lifetime.
const GRACE: Duration = Duration::from_secs(31);

/// Part of a run that counts, since the application began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from which ADUs count.
    pub from: Duration,
    /// Time until which they count.
    pub to: Duration,
}

impl Timing {
    /// Half a minute to learn the paths, and ten minutes that count.
    pub const USUAL: Self = Self {
        from: Duration::from_secs(30),
        to: Duration::from_secs(630),
    };
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Figures of the arrivals.
    pub figures: Figures,
    /// Share of each path in the application bytes sent upwards.
    pub path_shares: Vec<f64>,
    /// Windows in which the rate of the EKG was promised, of the whole run.
    pub promise: Account,
}

/// Runs the application over these paths under a policy, in both directions.
///
/// # Errors
/// A message: a path that cannot be made, or an objective that was refused or could not be evaluated.
pub fn measure(
    seed: Seed,
    lines: &[Line],
    policy: Policy,
    (timing, is_repaired): (Timing, bool),
    clinic: &Arc<Clinic>,
) -> Result<Measured, String> {
    let mut world = World::new(seed);
    let config = || Config {
        policy,
        ..Config::default()
    };
    let end = |side, peer| {
        let start = (BEGIN, is_repaired);
        End::new(side, World::node_id(peer), Arc::clone(clinic), start)
    };
    let a = world.add_node(config(), AllowList::default(), end(Side::Ambulance, 1));
    let allowed = AllowList::of([World::node_id(a)]);
    let b = world.add_node(config(), allowed, end(Side::Hospital, a));
    let links = lines::lay(lines, &mut world, [a, b]).map_err(|error| error.to_string())?;
    world.app::<End>(a).dial(links.clone());
    world.with_node(a, |_| ());
    world.run_until(BEGIN + timing.to + GRACE);

    for node in [a, b] {
        let end = world.app::<End>(node);
        if let Some(words) = &end.refusal {
            return Err(words.clone());
        }
        if let Some(faults) = end.faults.first() {
            return Err(format!("objectives: {faults:?}"));
        }
    }
    let session = world.app::<End>(a).session().ok_or("no session")?;
    let mut handle = world.engine(a).session(session).ok();
    let stats = handle.as_mut().map(|session| session.channel_stats());
    let sent = stats.unwrap_or_default();
    let promises = handle.map(|mut session| session.promises());
    let is_ekg = |spec: &StreamSpec| spec.label == Purpose::Ekg.label();
    let mut promises = promises.into_iter().flatten();
    let promise = promises.find(|(spec, _)| is_ekg(spec));
    let sent_bytes = links.iter().map(|link| {
        let own = sent
            .iter()
            .filter(|of| of.socket == link.socket && of.remote == link.remote);
        own.map(|of| of.payload_sent_bytes).sum::<u64>() as f64
    });
    let sent_bytes: Vec<f64> = sent_bytes.collect();
    let all: f64 = sent_bytes.iter().sum::<f64>().max(1.0);
    let mut received = std::mem::take(&mut world.app::<End>(b).received);
    for (feed, arrivals) in std::mem::take(&mut world.app::<End>(a).received)
        .into_iter()
        .enumerate()
    {
        if FEEDS[feed].side == Side::Hospital {
            received[feed] = arrivals;
        }
    }
    Ok(Measured {
        figures: Figures::new(clinic, &received, (timing.from, timing.to)),
        path_shares: sent_bytes.iter().map(|bytes| bytes / all).collect(),
        promise: promise
            .map(|(_, explained)| explained.account)
            .unwrap_or_default(),
    })
}
