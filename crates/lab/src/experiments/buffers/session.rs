//! Buffers of a promised stream in the engine, policy by policy.

use std::{sync::Arc, time::Duration};

use anabranch_admission::guarantee::{
    Scale,
    buffers::{ServiceTime, mean_waiting, prebuffer},
};
use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config as LinkConfig, Queue, RateSource, Trace, duplex::Configs, source::Playback,
};
use anabranch_session::{AllowList, Config, Controller, Guarantee, Policy, StreamSpec};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender},
};

use super::PACKET_BYTES;
use crate::kit::{future::foresee, recording::Recording};

/// Virtual time of a run, and the time from which on it is measured.
pub(super) const RUN: Duration = Duration::from_secs(60);
const FROM: Duration = Duration::from_secs(20);
/// Rate of the promised stream.
const STREAM_BPS: f64 = 8e6;
/// Its share of the mean of both links, by weight.
const SHARE: f64 = 0.25;
/// Mean of each link.
const LINK: Rate = Rate::from_mbps(20);
const RTT: Duration = Duration::from_millis(40);
/// Interval at which the buffer is sampled.
const LOOK: Duration = Duration::from_millis(20);
/// The optimum, which is not a policy with a name.
pub(super) const OPT: &str = "opt";
/// Policies compared.
pub(super) const POLICIES: [&str; 5] = ["pgos", "priority_mean", "msfq", "wfq", OPT];

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnSession {
    pub(super) policy: &'static str,
    pub(super) measured: f64,
    pub(super) measured_max: f64,
    pub(super) formula: f64,
    pub(super) prebuffer: f64,
    /// Share of seconds in which the receiver got the stream's rate, to 1 %.
    pub(super) kept: f64,
    pub(super) total_mbps: f64,
}

/// A link that follows the recording, scaled to the mean of [`LINK`].
fn link(recording: &Recording) -> Option<LinkConfig> {
    let step_s = recording.step_s()?;
    let rates: Vec<Rate> = recording
        .bandwidths_bps()
        .iter()
        .map(|&bps| Rate::from_bps(bps as u64))
        .collect();
    let trace = Trace::from_rates(&recording.name, Duration::from_secs_f64(step_s), &rates);
    let mean = trace.rate_mean().as_bps() as f64;
    (mean > 0.0).then(|| LinkConfig {
        rate: RateSource::Trace(Playback {
            trace: Arc::new(trace),
            scale: LINK.as_bps() as f64 / mean,
            start: Duration::ZERO,
        }),
        delay: RTT / 2,
        queue: Queue::bdp(LINK, RTT * 4),
        ..LinkConfig::default()
    })
}

/// One policy over two recordings for `time`, above [`FROM`]; `None` if one of them carries nothing.
pub(super) fn run(
    seed: Seed,
    policy: &'static str,
    recordings: [&Recording; 2],
    time: Duration,
) -> Option<OnSession> {
    let configs: Vec<LinkConfig> = recordings.into_iter().map(link).collect::<Option<_>>()?;
    let mut config = Config {
        policy: policy.parse().unwrap_or(Policy::Default),
        ..Config::default()
    };
    config.channel.controller = Controller::Fixed(LINK);
    let packet_bits = f64::from(PACKET_BYTES) * 8.0;
    let adus = (time.as_secs_f64() * STREAM_BPS / packet_bits) as u64;
    let guarantee = Guarantee::rate(Rate::from_bps(STREAM_BPS as u64), 0.95);
    let live = Load {
        spec: StreamSpec {
            label: "live".to_owned(),
            weight: (SHARE * 1000.0) as u32,
            guarantee: Some(Box::new(guarantee.waiting())),
            ..StreamSpec::default()
        },
        ..Load::messages(
            PACKET_BYTES as usize,
            Duration::from_secs_f64(packet_bits / STREAM_BPS),
            adus,
        )
    };
    let mut file = Load::bulk(1 << 40);
    file.spec.weight = ((1.0 - SHARE) * 1000.0) as u32;
    file.spec.priority = live.spec.priority;
    let mut world = World::new(seed);
    let sender = Sender::new(World::node_id(1), vec![live, file]);
    let a = world.add_node(config.clone(), AllowList::default(), sender);
    let b = world.add_node(config, AllowList::of([World::node_id(0)]), Receiver::new());
    let mut links = Vec::new();
    for config in &configs {
        let backward = LinkConfig {
            rate: RateSource::Constant(LINK),
            ..config.clone()
        };
        let both = Configs {
            forward: config.clone(),
            backward,
        };
        let wire = world.add_wire(a, b, both).ok()?;
        links.push((world.link(a, wire), config.clone()));
    }
    let dialled = links.iter().map(|(link, _)| *link).collect();
    world.app::<Sender>(a).dial(Instant::EPOCH, dialled);
    world.with_node(a, |_| ());
    world.run_for(Duration::from_millis(500));
    let session = world.app::<Sender>(a).session()?;
    if policy == OPT && !foresee(&mut world, a, session, &links) {
        return None;
    }
    let (mut sum, mut most, mut looks) = (0.0, 0.0f64, 0.0);
    while world.now() < Instant::EPOCH + time {
        world.run_for(LOOK);
        if world.now() < Instant::EPOCH + FROM {
            continue;
        }
        let streams = world
            .engine(a)
            .session(session)
            .map(|mut session| session.stream_stats())
            .unwrap_or_default();
        let live = streams.iter().find(|stream| stream.spec.label == "live")?;
        let packets = live.backlog_bytes as f64 / f64::from(PACKET_BYTES);
        sum += packets;
        most = most.max(packets);
        looks += 1.0;
    }
    let receiver = world.app::<Receiver>(b);
    let (live, bulk) = (receiver.record("live"), receiver.record("bulk"));
    let tenth = |bytes: &[u64], at: usize| bytes.get(at).map_or(0.0, |&bytes| bytes as f64);
    let range = (FROM.as_millis() / 100) as usize..(time.as_millis() / 100) as usize;
    let played = STREAM_BPS / 10.0 / packet_bits;
    let received = range
        .clone()
        .map(|at| tenth(&live.per_100ms, at) / f64::from(PACKET_BYTES));
    let starts: Vec<usize> = range.clone().step_by(10).collect();
    let second = |from: usize| {
        (from..from + 10)
            .map(|at| tenth(&live.per_100ms, at))
            .sum::<f64>()
    };
    let need = 0.99 * STREAM_BPS / 8.0;
    let kept = starts.iter().filter(|&&from| second(from) >= need).count();
    let total: f64 = range
        .map(|at| tenth(&live.per_100ms, at) + tenth(&bulk.per_100ms, at))
        .sum();
    let is_first = matches!(policy, "pgos" | "priority_mean" | OPT);
    let share = if is_first { 1.0 } else { SHARE };
    Some(OnSession {
        policy,
        measured: sum / looks,
        measured_max: most,
        formula: formula(&mut world, time, configs.len(), share),
        prebuffer: prebuffer(received, played),
        kept: kept as f64 / starts.len() as f64,
        total_mbps: total * 8.0 / (time - FROM).as_secs_f64() / 1e6,
    })
}

/// Equation 4 for the capacity of the links in each 100 ms, and the share of it that the stream can have.
fn formula(world: &mut World, time: Duration, links: usize, share: f64) -> f64 {
    let second = Scale {
        packet_bytes: PACKET_BYTES,
        window: Duration::from_secs(1),
    };
    let steps = ((time - FROM).as_millis() / 100) as u32;
    let rates: Vec<f64> = (0..steps)
        .map(|step| {
            let at = Instant::EPOCH + FROM + Duration::from_millis(100) * step;
            let rate = |wire| world.wire(wire).duplex.forward.rate_at(at);
            let total: f64 = (0..links)
                .filter_map(rate)
                .map(|rate| rate.as_bps() as f64)
                .sum();
            second.packets(share * total)
        })
        .collect();
    let service = ServiceTime::of_packets(rates);
    service
        .and_then(|service| mean_waiting(second.packets(STREAM_BPS), service))
        .unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;

    /// The optimum that knows the future keeps less data waiting than fair shares do, and meets more seconds.
    #[test]
    fn the_optimum_and_fair_shares() {
        let corpus = Corpus::bundled();
        let find = |name: &str| {
            corpus
                .recordings
                .iter()
                .find(|r| r.name.ends_with(name))
                .unwrap()
        };
        let both = [find("hsdpa-bus"), find("starlink-down")];
        let time = Duration::from_secs(30);
        let opt = run(Seed(1), OPT, both, time).unwrap();
        let msfq = run(Seed(1), "msfq", both, time).unwrap();
        assert!(opt.measured <= msfq.measured, "{opt:?} {msfq:?}");
        assert!(opt.kept >= msfq.kept && opt.kept > 0.8, "{opt:?} {msfq:?}");
        assert!(
            opt.total_mbps > 5.0 && msfq.total_mbps > 5.0,
            "{opt:?} {msfq:?}"
        );
    }
}
