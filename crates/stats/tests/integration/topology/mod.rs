//! Random topologies with known bottlenecks: cross traffic through fluid FIFO queues, and the one-way
//! delays of two probe flows that do or do not share the congested one.
//!
//! A queue is stepped every millisecond: it takes what on-off and window-controlled cross flows send,
//! serves its rate, and drops what does not fit. On-off flows have Pareto bursts (shape 1.5) and
//! exponential pauses; window flows grow by a packet a round trip and halve when they lose. Probes are
//! too thin to matter to the queues.

use anabranch_base::{Random, Seed};

/// Seconds a step.
pub(crate) const STEP_S: f64 = 0.001;
const PACKET_BITS: f64 = 12_000.0;

struct OnOff {
    rate_bps: f64,
    on_s: f64,
    off_s: f64,
    is_on: bool,
    until_s: f64,
}

struct Window {
    packets: f64,
    rtt_s: f64,
    halved_s: f64,
}

/// A link with its cross traffic.
pub(crate) struct Hop {
    rate_bps: f64,
    limit_bits: f64,
    queue_bits: f64,
    /// Share of arrivals dropped in the last step.
    drop: f64,
    on_off: Vec<OnOff>,
    /// The next toggle of any on-off flow.
    next_s: f64,
    on_rate_bps: f64,
    windows: Vec<Window>,
    random: Random,
}

impl Hop {
    /// On-off flows with a mean load of `load` of the rate.
    fn on_off(rate_bps: f64, limit_s: f64, load: f64, flows: usize, mut random: Random) -> Self {
        let on_off = (0..flows)
            .map(|_| {
                let duty = random.uniform(0.2, 0.6);
                let on_s = random.uniform(0.05, 1.0);
                OnOff {
                    rate_bps: load * rate_bps / flows as f64 / duty,
                    on_s,
                    off_s: on_s * (1.0 - duty) / duty,
                    is_on: random.chance(duty),
                    until_s: random.unit() * on_s,
                }
            })
            .collect();
        let mut hop = Self {
            rate_bps,
            limit_bits: limit_s * rate_bps,
            queue_bits: 0.0,
            drop: 0.0,
            on_off,
            next_s: 0.0,
            on_rate_bps: 0.0,
            windows: Vec::new(),
            random,
        };
        hop.toggle(0.0);
        hop
    }

    /// Adds `flows` window-controlled flows with round trips from 20 to 150 ms.
    fn with_windows(mut self, flows: usize) -> Self {
        for _ in 0..flows {
            let rtt_s = self.random.uniform(0.02, 0.15);
            let fair = self.rate_bps / flows as f64 * rtt_s / PACKET_BITS;
            self.windows.push(Window {
                packets: (fair * self.random.uniform(0.5, 1.2)).max(1.0),
                rtt_s,
                halved_s: 0.0,
            });
        }
        self
    }

    fn toggle(&mut self, now_s: f64) {
        self.next_s = f64::INFINITY;
        self.on_rate_bps = 0.0;
        for flow in &mut self.on_off {
            while flow.until_s <= now_s {
                flow.is_on = !flow.is_on;
                flow.until_s += if flow.is_on {
                    // Pareto with shape 1.5 has mean 3 times its least value; cut at 100 times.
                    let least = flow.on_s / 3.0;
                    least * (1.0 - self.random.unit()).powf(-1.0 / 1.5).min(100.0)
                } else {
                    self.random.exponential(flow.off_s)
                };
            }
            self.next_s = self.next_s.min(flow.until_s);
            self.on_rate_bps += if flow.is_on { flow.rate_bps } else { 0.0 };
        }
    }

    /// One step of time, with `extra_bps` of traffic that other hops see, too.
    fn step(&mut self, now_s: f64, extra_bps: f64) {
        if now_s >= self.next_s {
            self.toggle(now_s);
        }
        let wait_s = self.queue_bits / self.rate_bps;
        let window_bps: f64 = self
            .windows
            .iter()
            .map(|w| w.packets * PACKET_BITS / (w.rtt_s + wait_s))
            .sum();
        let arrivals = (self.on_rate_bps + window_bps + extra_bps) * STEP_S;
        self.queue_bits = (self.queue_bits + arrivals - self.rate_bps * STEP_S).max(0.0);
        let over = (self.queue_bits - self.limit_bits).max(0.0);
        self.queue_bits -= over;
        self.drop = if arrivals > 0.0 {
            (over / arrivals).min(1.0)
        } else {
            0.0
        };
        for window in &mut self.windows {
            let rtt_s = window.rtt_s + wait_s;
            window.packets += STEP_S / rtt_s;
            if self.drop > 0.0 && now_s - window.halved_s > rtt_s {
                // P(at least one of its packets of this step was dropped).
                let sent = window.packets / rtt_s * STEP_S;
                if self.random.chance(1.0 - (1.0 - self.drop).powf(sent)) {
                    window.packets = (window.packets / 2.0).max(1.0);
                    window.halved_s = now_s;
                }
            }
        }
    }

    fn wait_s(&self) -> f64 {
        self.queue_bits / self.rate_bps
    }
}

/// Kind of world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    /// One congested link on both paths.
    Shared,
    /// The same, and each path crosses a half-loaded link of its own behind it.
    SharedNoisy,
    /// A congested link on each path.
    Separate,
    /// A congested link on each path, of equal rate, queue and flows.
    SeparateAlike,
    /// A congested link on each path, and a lightly loaded link on both.
    SeparateCommonHop,
    /// A congested link on each path, and cross flows that pass both.
    SeparateCommonTraffic,
    /// A congested link on one path only.
    OneCongested,
    /// Both paths cross one lightly loaded link; nothing is congested.
    NoneCongested,
}

impl Case {
    /// All of them, shared and not in turn.
    pub(crate) const ALL: [Self; 8] = [
        Self::Shared,
        Self::Separate,
        Self::SharedNoisy,
        Self::SeparateAlike,
        Self::SeparateCommonHop,
        Self::SeparateCommonTraffic,
        Self::OneCongested,
        Self::NoneCongested,
    ];

    /// True if the right answer is that the bottleneck is shared.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedNoisy)
    }
}

/// A probe packet as the sender comes to know it: channel, time of sending, relative one-way delay; no
/// delay: lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) channel: usize,
    pub(crate) sent_s: f64,
    pub(crate) delay_s: Option<f64>,
}

/// The hops, which of them each path crosses and when after sending, and the probes.
pub(crate) struct World {
    hops: Vec<Hop>,
    common: Option<Hop>,
    paths: [Path; 2],
    waits: Vec<Vec<f32>>,
    drops: Vec<Vec<f32>>,
}

struct Path {
    /// Hop and propagation delay before it.
    crossing: Vec<(usize, f64)>,
    interval_s: f64,
    jitter_s: f64,
    clock_offset_s: f64,
    clock_drift: f64,
    random: Random,
}

impl World {
    /// The world of `case` with this seed.
    pub(crate) fn new(case: Case, seed: u64) -> Self {
        Self::with_common(case, seed, 0.1)
    }

    /// A world of [`Case::Shared`] whose link carries the sender's own bursts on both paths, of `share`
    /// of its rate.
    pub(crate) fn shared_with_own(seed: u64, share: f64) -> Self {
        let mut world = Self::new(Case::Shared, seed);
        let rate_bps = world.hops[0].rate_bps;
        let stream = Seed(seed).stream("own bursts");
        world.common = Some(Hop::on_off(rate_bps, 1.0, share, 10, stream));
        world
    }

    /// Replaces the jitter of both paths (mean of an exponential) and the spacing of their probes.
    pub(crate) fn with_probes(mut self, jitter_s: f64, interval_s: f64) -> Self {
        for path in &mut self.paths {
            (path.jitter_s, path.interval_s) = (jitter_s, interval_s);
        }
        self
    }

    /// The world of `case`; in [`Case::SeparateCommonTraffic`], flows of `share` of the smaller rate
    /// cross both links.
    pub(crate) fn with_common(case: Case, seed: u64, share: f64) -> Self {
        let seed = Seed(seed).child("topology");
        let mut random = seed.stream("shape");
        let mut number = 0;
        let mut next = || {
            number += 1;
            seed.stream(&format!("hop {number}"))
        };
        let rate = |random: &mut Random| 1e6 * 2f64.powf(random.uniform(1.0, 7.6));
        let congested = |random: &mut Random, stream: Random| {
            let rate_bps = rate(random);
            let limit_s = random.uniform(0.03, 0.25);
            match random.below(3) {
                0 => Hop::on_off(
                    rate_bps,
                    limit_s,
                    random.uniform(0.85, 1.05),
                    random.between(3, 30) as usize,
                    stream,
                ),
                1 => Hop::on_off(
                    rate_bps,
                    limit_s,
                    random.uniform(0.05, 0.3),
                    random.between(3, 30) as usize,
                    stream,
                )
                .with_windows(random.between(1, 8) as usize),
                _ => Hop::on_off(
                    rate_bps,
                    limit_s,
                    random.uniform(0.4, 0.7),
                    random.between(3, 30) as usize,
                    stream,
                )
                .with_windows(random.between(1, 8) as usize),
            }
        };
        let light = |random: &mut Random, load: f64, stream: Random| {
            let rate_bps = rate(random);
            Hop::on_off(
                rate_bps,
                random.uniform(0.03, 0.25),
                load,
                random.between(10, 40) as usize,
                stream,
            )
        };
        let mut hops = Vec::new();
        let mut common = None;
        // Each path crosses hops[indices] in order.
        let indices: [Vec<usize>; 2] = match case {
            Case::Shared => {
                hops.push(congested(&mut random, next()));
                [vec![0], vec![0]]
            }
            Case::SharedNoisy => {
                hops.push(congested(&mut random, next()));
                for _ in 0..2 {
                    // Of about the same rate, so that its queue matters as much as its load lets it.
                    let rate_bps = hops[0].rate_bps * random.uniform(0.7, 1.5);
                    let load = random.uniform(0.4, 0.7);
                    let flows = random.between(10, 40) as usize;
                    let limit_s = random.uniform(0.03, 0.25);
                    hops.push(Hop::on_off(rate_bps, limit_s, load, flows, next()));
                }
                [vec![0, 1], vec![0, 2]]
            }
            Case::Separate => {
                hops.push(congested(&mut random, next()));
                hops.push(congested(&mut random, next()));
                [vec![0], vec![1]]
            }
            Case::SeparateAlike => {
                let mut same_shape = random.clone();
                hops.push(congested(&mut same_shape, next()));
                hops.push(congested(&mut random, next()));
                [vec![0], vec![1]]
            }
            Case::SeparateCommonHop => {
                hops.push(congested(&mut random, next()));
                hops.push(congested(&mut random, next()));
                let load = random.uniform(0.2, 0.4);
                hops.push(light(&mut random, load, next()));
                [vec![2, 0], vec![2, 1]]
            }
            Case::SeparateCommonTraffic => {
                hops.push(congested(&mut random, next()));
                hops.push(congested(&mut random, next()));
                // On top of what each has.
                let least = hops[0].rate_bps.min(hops[1].rate_bps);
                common = Some(Hop::on_off(least, 1.0, share, 10, next()));
                [vec![0], vec![1]]
            }
            Case::OneCongested => {
                hops.push(congested(&mut random, next()));
                let load = random.uniform(0.2, 0.5);
                hops.push(light(&mut random, load, next()));
                [vec![0], vec![1]]
            }
            Case::NoneCongested => {
                let load = random.uniform(0.2, 0.5);
                hops.push(light(&mut random, load, next()));
                [vec![0], vec![0]]
            }
        };
        let paths = indices.map(|hops| {
            let name = format!("path {}", random.bits());
            Path {
                crossing: hops
                    .into_iter()
                    .map(|hop| (hop, random.uniform(0.001, 0.08)))
                    .collect(),
                interval_s: 1.0 / random.uniform(20.0, 300.0),
                jitter_s: 1e-4 * 100f64.powf(random.unit()),
                clock_offset_s: random.uniform(-100.0, 100.0),
                clock_drift: random.uniform(-50e-6, 50e-6),
                random: seed.stream(&name),
            }
        });
        let count = hops.len();
        Self {
            hops,
            common,
            paths,
            waits: vec![Vec::new(); count],
            drops: vec![Vec::new(); count],
        }
    }

    /// Runs for `seconds` and returns the probes of both channels by time of sending.
    pub(crate) fn run(self, seconds: f64) -> Vec<Probe> {
        self.run_loaded(seconds).0
    }

    /// The same, and what the traffic through both links sends in each step of time if it is the
    /// sender's own: channel, time of sending, bytes.
    pub(crate) fn run_loaded(mut self, seconds: f64) -> (Vec<Probe>, Vec<(usize, f64, u32)>) {
        let mut own = Vec::new();
        // Probes sent at the end still travel.
        let steps = ((seconds + 3.0) / STEP_S) as usize;
        for step in 0..steps {
            let now_s = step as f64 * STEP_S;
            let extra_bps = self.common.as_mut().map_or(0.0, |common| {
                common.step(now_s, 0.0);
                common.on_rate_bps
            });
            if extra_bps > 0.0 {
                for (channel, path) in self.paths.iter().enumerate() {
                    // It reaches the link as a probe sent then does.
                    let sent_s = now_s - path.crossing[0].1;
                    own.push((channel, sent_s, (extra_bps * STEP_S / 8.0) as u32));
                }
            }
            for (at, hop) in self.hops.iter_mut().enumerate() {
                hop.step(now_s, extra_bps);
                self.waits[at].push(hop.wait_s() as f32);
                self.drops[at].push(hop.drop as f32);
            }
        }
        let mut probes = Vec::new();
        for channel in 0..2 {
            let mut sent_s = 0.0;
            while sent_s < seconds {
                let delay_s = self.travel(channel, sent_s);
                probes.push(Probe {
                    channel,
                    sent_s,
                    delay_s,
                });
                let path = &mut self.paths[channel];
                sent_s += path.interval_s * path.random.uniform(0.7, 1.3);
            }
        }
        probes.sort_by(|a, b| a.sent_s.total_cmp(&b.sent_s));
        (probes, own)
    }

    fn travel(&mut self, channel: usize, sent_s: f64) -> Option<f64> {
        let path = &mut self.paths[channel];
        let mut now_s = sent_s;
        for &(hop, ahead_s) in &path.crossing {
            now_s += ahead_s;
            let step = ((now_s / STEP_S) as usize).min(self.waits[hop].len() - 1);
            if path.random.chance(f64::from(self.drops[hop][step])) {
                return None;
            }
            now_s += f64::from(self.waits[hop][step]);
        }
        now_s += path.random.exponential(path.jitter_s);
        Some(now_s - sent_s + path.clock_offset_s + path.clock_drift * sent_s)
    }
}
