//! Test harness for controllers: one sender, one link, virtual time, no QUIC.
//!
//! The sender always has data. Packets leave when the window has space and the pacing rate allows, wait in a drop-tail
//! queue, are lost at random, and are acknowledged one by one. A packet is lost when one sent three later is
//! acknowledged, or when nothing is acknowledged for three round trips.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use anabranch_base::{Rate, Seed};

use super::{Ack, Congestion, Control, Lost, QueueGoal, build, test_epoch};
use crate::{
    config::{Config, Controller},
    usual_rtt::UsualRtt,
};

const PACKET: u64 = 1_500;

/// A link and its traffic.
pub(super) struct Path {
    /// Rate over time, in bytes per second.
    pub rate: fn(f64) -> f64,
    pub rtt_s: f64,
    pub queue_bytes: f64,
    /// Delay of acknowledgements behind what the receiver sends, over time, in seconds; it falls no faster than time passes.
    pub returning_s: fn(f64) -> f64,
    /// The receiver reports the queue that packets met.
    pub reports: bool,
    pub loss: f64,
    /// Nothing is sent between these times.
    pub pause: (f64, f64),
    /// Everything sent between these times is lost.
    pub blackout: (f64, f64),
    /// Between the first two times the application sends at the third, in bytes per second, at most.
    pub limited: (f64, f64, f64),
    pub goal: QueueGoal,
    /// Time from which the controller is to hold this rate, for controllers that hold one.
    pub change: Option<(f64, Rate)>,
    /// Share of the flow; below 1, the other parts send as much for each packet and lose at random as much of it.
    pub share: f64,
}

impl Path {
    /// 40 Mbit/s, 50 ms, a queue of one bandwidth-delay product.
    pub(super) fn steady() -> Self {
        Self {
            rate: |_| 5e6,
            rtt_s: 0.05,
            queue_bytes: 250_000.0,
            returning_s: |_| 0.0,
            reports: false,
            loss: 0.0,
            pause: (0.0, 0.0),
            blackout: (0.0, 0.0),
            limited: (0.0, 0.0, 0.0),
            goal: QueueGoal::Full,
            change: None,
            share: 1.0,
        }
    }
}

/// Result of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    /// Bytes acknowledged in each tenth of a second.
    pub tenths: Vec<u64>,
    pub sent: u64,
    pub lost: u64,
    pub window_least: u64,
    pub window_most: u64,
    /// Round trip of each acknowledged packet.
    pub rtt_s: Vec<f64>,
}

impl Outcome {
    /// Mean rate between two times, in bytes per second.
    pub(super) fn rate(&self, from_s: f64, to_s: f64) -> f64 {
        let (from, to) = ((from_s * 10.0) as usize, (to_s * 10.0) as usize);
        self.tenths[from..to].iter().sum::<u64>() as f64 / (to - from) as f64 * 10.0
    }
}

struct Sent {
    number: u64,
    at_s: f64,
    delivered: u64,
    delivered_at_s: f64,
    first_sent_s: f64,
    in_flight: u64,
    lost: u64,
    /// Arrival time of its acknowledgement; `None` if the link dropped it.
    ack_s: Option<f64>,
    app_limited: bool,
}

struct Run<'a> {
    path: &'a Path,
    control: Box<dyn Control>,
    epoch: Instant,
    now_s: f64,
    flight: VecDeque<Sent>,
    in_flight: u64,
    delivered: u64,
    delivered_at_s: f64,
    first_sent_s: f64,
    lost: u64,
    rtt_smoothed_s: f64,
    usual: UsualRtt,
    outcome: Outcome,
}

/// Runs `controller` over `path` for so many seconds.
pub(super) fn run(controller: Controller, path: &Path, seconds: f64, seed: u64) -> Outcome {
    let config = Config {
        controller,
        ..Config::default()
    };
    let epoch = test_epoch();
    let mut run = Run {
        path,
        control: build(&config, Seed(seed), epoch, PACKET as u16),
        epoch,
        now_s: 0.0,
        flight: VecDeque::new(),
        in_flight: 0,
        delivered: 0,
        delivered_at_s: 0.0,
        first_sent_s: 0.0,
        lost: 0,
        rtt_smoothed_s: path.rtt_s,
        usual: UsualRtt::new(epoch),
        outcome: Outcome {
            tenths: vec![0; (seconds * 10.0).ceil() as usize],
            sent: 0,
            lost: 0,
            window_least: u64::MAX,
            window_most: 0,
            rtt_s: Vec::new(),
        },
    };
    run.control.set_queue_goal(path.goal);
    run.control.set_share(path.share);
    run.control.seed_rtt(Duration::from_secs_f64(path.rtt_s));
    run.go(seconds, Seed(seed));
    run.outcome
}

impl Run<'_> {
    fn at(&self, s: f64) -> Instant {
        self.epoch + Duration::from_secs_f64(s)
    }

    fn go(&mut self, seconds: f64, seed: Seed) {
        let mut random = seed.stream("loss");
        let (mut link_free_s, mut next_send_s, mut number) = (0.0_f64, 0.0_f64, 0);
        let (from, to) = self.path.pause;
        let mut change = self.path.change;
        let mut report_s = 0.0;
        loop {
            if let Some((_, rate)) = change.take_if(|(at_s, _)| *at_s <= self.now_s) {
                assert!(self.control.set_rate(rate), "holds no rate");
            }
            let window = self.control.window();
            self.outcome.window_least = self.outcome.window_least.min(window);
            self.outcome.window_most = self.outcome.window_most.max(window);
            let is_within_window = self.in_flight + PACKET <= window;
            if !is_within_window {
                self.control.on_window_limited();
            }
            if (from..to).contains(&next_send_s) {
                next_send_s = to;
            }
            let ack_s = self.flight.iter().find_map(|sent| sent.ack_s);
            let timeout_s = self
                .flight
                .back()
                .map(|sent| sent.at_s + 3.0 * self.rtt_smoothed_s + 0.1);
            let send_s = is_within_window.then_some(next_send_s.max(self.now_s));
            let event_s = ack_s.or(timeout_s);
            if send_s.is_none_or(|send| event_s.is_some_and(|event| event <= send)) {
                self.now_s = event_s.expect("a full window has packets in flight");
                if self.now_s >= seconds {
                    return;
                }
                if ack_s.is_some() {
                    self.acknowledge();
                } else {
                    self.time_out();
                }
                continue;
            }
            self.now_s = send_s.expect("checked");
            if self.now_s >= seconds {
                return;
            }
            let rate = (self.path.rate)(self.now_s);
            let backlog = (link_free_s - self.now_s).max(0.0) * rate;
            let ack_s = (backlog <= self.path.queue_bytes).then(|| {
                link_free_s = link_free_s.max(self.now_s) + PACKET as f64 / rate;
                link_free_s + self.path.rtt_s + (self.path.returning_s)(link_free_s)
            });
            if self.path.reports && self.now_s >= report_s {
                let queue_s = (link_free_s - self.now_s - PACKET as f64 / rate).max(0.0);
                self.control.note_queue(Duration::from_secs_f64(queue_s));
                report_s = self.now_s + 0.1;
            }
            let is_dark = (self.path.blackout.0..self.path.blackout.1).contains(&self.now_s);
            let ack_s = ack_s.filter(|_| !is_dark && !random.chance(self.path.loss));
            let mut pacing = self.control.pacing_rate(self.rtt_smoothed_s);
            assert!(pacing.is_finite() && pacing > 0.0, "pacing rate {pacing}");
            let (from, to, most) = self.path.limited;
            let app_limited = (from..to).contains(&self.now_s) && pacing > most;
            if app_limited {
                pacing = most;
            }
            self.send(number, ack_s, app_limited);
            if random.chance(self.path.loss * (1.0 / self.path.share - 1.0)) {
                self.partner_lost();
            }
            number += 1;
            next_send_s = next_send_s.max(self.now_s - 1e-3) + PACKET as f64 / pacing;
        }
    }

    fn send(&mut self, number: u64, ack_s: Option<f64>, app_limited: bool) {
        if self.in_flight == 0 {
            self.first_sent_s = self.now_s;
            self.delivered_at_s = self.now_s;
        }
        self.in_flight += PACKET;
        self.outcome.sent += PACKET;
        self.flight.push_back(Sent {
            number,
            at_s: self.now_s,
            delivered: self.delivered,
            delivered_at_s: self.delivered_at_s,
            first_sent_s: self.first_sent_s,
            in_flight: self.in_flight,
            lost: self.lost,
            ack_s,
            app_limited,
        });
        let now = self.at(self.now_s);
        self.control.on_backlog(!app_limited);
        self.control.on_sent(now, PACKET as u16, number);
    }

    fn partner_lost(&mut self) {
        self.control.on_partner_congestion(&Congestion {
            now: self.at(self.now_s),
            sent: self.at((self.now_s - self.rtt_smoothed_s).max(0.0)),
            is_persistent: false,
            is_ecn: false,
            lost_bytes: PACKET,
            lost_packet_max: 0,
        });
    }

    fn acknowledge(&mut self) {
        let index = self.flight.iter().position(|sent| sent.ack_s.is_some());
        let sent = self
            .flight
            .remove(index.expect("an acknowledgement is due"))
            .expect("found");
        let now = self.at(self.now_s);
        let rtt_s = self.now_s - sent.at_s;
        let marks = (sent.delivered, self.delivered + PACKET);
        self.usual.on_ack(now, (rtt_s, self.path.rtt_s, 0.0), marks);
        self.rtt_smoothed_s += (rtt_s - self.rtt_smoothed_s) / 8.0;
        self.outcome.rtt_s.push(rtt_s);
        self.outcome.tenths[(self.now_s * 10.0) as usize] += PACKET;
        self.in_flight -= PACKET;
        self.delivered += PACKET;
        self.delivered_at_s = self.now_s;
        self.first_sent_s = sent.at_s;
        let elapsed = (sent.at_s - sent.first_sent_s).max(self.now_s - sent.delivered_at_s);
        let rate = (self.delivered - sent.delivered) as f64 / elapsed;
        self.control.on_ack(&Ack {
            now,
            sent: self.at(sent.at_s),
            bytes: PACKET,
            packet: sent.number,
            app_limited: sent.app_limited,
            is_capped: false,
            rate_sample: (elapsed >= self.path.rtt_s).then_some(rate),
            delivered_at_sent: sent.delivered,
            delivered: self.delivered,
            in_flight_at_sent: sent.in_flight,
            lost_since_sent: self.lost - sent.lost,
            rtt_excess_s: self.usual.excess_s(),
            rtt: None,
        });
        self.control
            .on_end_acks(now, self.in_flight, false, Some(sent.number));
        let overtaken = |lost: &Sent| lost.number + 3 <= sent.number;
        self.declare_lost(overtaken, false);
    }

    fn time_out(&mut self) {
        self.declare_lost(|_| true, true);
    }

    fn declare_lost(&mut self, is_lost: impl Fn(&Sent) -> bool, is_persistent: bool) {
        let now = self.at(self.now_s);
        let mut last = None;
        while let Some(sent) = self.flight.pop_front_if(|sent| is_lost(sent)) {
            self.in_flight -= PACKET;
            self.lost += PACKET;
            self.outcome.lost += PACKET;
            self.control.on_lost(&Lost {
                now,
                bytes: PACKET,
                packet: sent.number,
                app_limited: sent.app_limited,
                in_flight_at_sent: sent.in_flight,
                lost_since_sent: self.lost - sent.lost,
                is_forgiven: false,
            });
            last = Some(sent);
        }
        if let Some(sent) = last {
            self.control.on_congestion(&Congestion {
                now,
                sent: self.at(sent.at_s),
                is_persistent,
                is_ecn: false,
                lost_bytes: PACKET,
                lost_packet_max: sent.number,
            });
        }
    }
}
