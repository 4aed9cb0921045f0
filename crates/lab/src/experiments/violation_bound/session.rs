//! A violation bound in the engine: the promise of a session from its own measurements, and the late packets.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, Queue, RateSource, Trace, duplex::Configs, source::Playback,
};
use anabranch_session::{AllowList, Config, Demand, Guarantee, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use super::measure::{PACKET_BYTES, rate_seen, scale};
use crate::kit::recording::Recording;

/// Virtual time of a run.
const RUN: Duration = Duration::from_secs(120);
/// Mean of the link.
const LINK: Rate = Rate::from_mbps(10);
const RTT: Duration = Duration::from_millis(40);
/// Bound z, as a share of the link's average capacity in a window.
const BOUND: f64 = 0.05;
/// Share of the rate by Lemma 2 on the whole recording that the stream sends: headers take their part, and the session has only
/// a minute of history.
const CAUTION: f64 = 0.8;
const WINDOW: Duration = Guarantee::WINDOW;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnSession {
    pub(super) rate_bps: f64,
    pub(super) promised: f64,
    /// Seconds in which a promise was in force, of all seconds judged.
    pub(super) in_force: usize,
    pub(super) seconds: usize,
    /// Mean late packets a second while a promise was in force; `None`: never.
    pub(super) measured: Option<f64>,
    /// The same over all seconds judged.
    pub(super) measured_all: f64,
}

/// Runs a stream with a bound, and a file transfer, over one link that follows the recording; `None` if that carries nothing.
pub(super) fn run(seed: Seed, recording: &Recording) -> Option<OnSession> {
    let step_s = recording.step_s()?;
    let bps = recording.bandwidths_bps();
    let rates: Vec<Rate> = bps.iter().map(|&bps| Rate::from_bps(bps as u64)).collect();
    let trace = Trace::from_rates(&recording.name, Duration::from_secs_f64(step_s), &rates);
    let mean = trace.rate_mean().as_bps() as f64;
    if mean <= 0.0 {
        return None;
    }
    let factor = LINK.as_bps() as f64 / mean;
    let late = BOUND * scale(WINDOW.as_secs_f64()).packets(LINK.as_bps() as f64);
    let scaled: Vec<f64> = bps.iter().map(|bps| bps * factor).collect();
    let rate_bps = (CAUTION * rate_seen(&scaled, late, WINDOW.as_secs_f64())?).floor();
    let link = LinkConfig {
        rate: RateSource::Trace(Playback {
            trace: Arc::new(trace),
            scale: factor,
            start: Duration::ZERO,
        }),
        delay: RTT / 2,
        queue: Queue::bdp(LINK, RTT * 2),
        ..LinkConfig::default()
    };
    let backward = LinkConfig {
        rate: RateSource::Constant(LINK),
        ..link.clone()
    };
    let guarantee = Guarantee::new(Demand::Late {
        rate: Rate::from_bps(rate_bps as u64),
        packet_bytes: PACKET_BYTES,
        late_packets: late,
    });
    let every = Duration::from_secs_f64(f64::from(PACKET_BYTES) * 8.0 / rate_bps);
    let live = Load {
        spec: StreamSpec {
            lifetime: Some(WINDOW),
            guarantee: Some(Box::new(guarantee.waiting())),
            ..StreamSpec::live("live", WINDOW)
        },
        ..Load::messages(PACKET_BYTES as usize, every, u64::MAX)
    };
    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), vec![live, Load::bulk(1 << 40)]);
    let config = Config {
        policy: "pgos".parse().unwrap_or_default(),
        ..Config::default()
    };
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    let both = Configs {
        forward: link,
        backward,
    };
    let wire = world.add_wire(a, b, both).ok()?;
    let links = vec![world.link(a, wire)];
    world.app::<Sender>(a).dial(Instant::EPOCH, links);
    world.with_node(a, |_| ());
    // By second: true if a promise was in force at its end.
    let mut in_force = Vec::new();
    while world.now() < Instant::EPOCH + RUN {
        world.run_for(WINDOW);
        let session = world.app::<Sender>(a).session()?;
        let streams = world
            .engine(a)
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let live = streams.iter().find(|stream| stream.spec.label == "live");
        let term = live.and_then(|live| {
            world
                .engine(a)
                .session(session)
                .ok()
                .and_then(|session| session.stream(live.stream).explain())?
                .term
        });
        in_force.push(term.is_some());
    }
    let record = world.app::<Receiver>(b).record("live");
    let second_of = |number: u64| (number as f64 * every.as_secs_f64()) as usize;
    let mut in_time = vec![0.0; in_force.len()];
    for (&number, &delay) in record.numbers.iter().zip(&record.delays) {
        if delay <= WINDOW
            && let Some(count) = in_time.get_mut(second_of(number))
        {
            *count += 1.0;
        }
    }
    let mut sent = vec![0.0; in_force.len()];
    for number in 0..(RUN.as_secs_f64() / every.as_secs_f64()) as u64 {
        if let Some(count) = sent.get_mut(second_of(number)) {
            *count += 1.0;
        }
    }
    // Data of the last two seconds may still be in flight; in the first half the session learns.
    let judged: Vec<usize> = (in_force.len() / 2..in_force.len().saturating_sub(2)).collect();
    let late_in = |seconds: &[usize]| {
        let late: f64 = seconds.iter().map(|&at| sent[at] - in_time[at]).sum();
        (!seconds.is_empty()).then(|| late / seconds.len() as f64)
    };
    // In force at its beginning and at its end.
    let kept = |at: &usize| in_force[*at] && in_force[*at - 1];
    let promised: Vec<usize> = judged.iter().copied().filter(kept).collect();
    Some(OnSession {
        rate_bps,
        promised: late,
        in_force: promised.len(),
        seconds: judged.len(),
        measured: late_in(&promised),
        measured_all: late_in(&judged)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A steady link: the promise is made, and nothing is late.
    #[test]
    fn a_steady_link_keeps_its_bound() {
        let rows: String = (0..200).map(|t| format!("{t},1e6\n")).collect();
        let recording = Recording::parse("steady", &format!("t_s,bandwidth_bps\n{rows}")).unwrap();
        let run = run(Seed(1), &recording).unwrap();
        assert_eq!(run.in_force, run.seconds, "{run:?}");
        assert!(
            run.measured.is_some_and(|late| late <= 0.1 * run.promised),
            "{run:?}"
        );
    }
}
