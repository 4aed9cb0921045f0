//! Ends of a flow: its schedule of sending, and the outcomes.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, NodeId, Rate, SessionId, StreamId};
use anabranch_session::{Event, Link, StreamEvent, StreamSpec};
use anabranch_sim::{App, Context};
use anabranch_twoflow::thinning::{Candidate, Thinning};
use bytes::Bytes;

/// Interval at which a flow with a feeding rate is fed.
const FEEDING: Duration = Duration::from_millis(100);
/// Time by which it is fed ahead: the packer needs data to fill packets with.
const AHEAD: Duration = Duration::from_millis(250);

/// Data that a flow sends in one step, from a given time on.
#[derive(Clone, Debug)]
pub(super) struct Dose {
    pub(super) from: Instant,
    /// Application bytes per second at which it is fed; `None`: all at once.
    pub(super) feed: Option<f64>,
    /// Rate that the channel is to hold from then on, in bytes of UDP payload.
    pub(super) rate: Option<Rate>,
    /// Number of ADUs of the flow up to which it sends.
    pub(super) end: usize,
}

/// A part of a frame, or a whole one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) bytes: u32,
    pub(super) frame: u32,
}

/// Data from which parts are cut.
pub(super) fn filler(bytes: usize) -> Bytes {
    let filler: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    filler.into()
}

/// Opens a session with one stream, and sends doses.
#[derive(Debug)]
pub(super) struct Feeder {
    peer: NodeId,
    link: Option<Link>,
    dial_at: Instant,
    spec: StreamSpec,
    parts: Arc<[Part]>,
    doses: Vec<Dose>,
    filler: Bytes,
    session: Option<SessionId>,
    stream: Option<StreamId>,
    is_connected: bool,
    is_blocked: bool,
    /// Number of doses begun; the last of them is running.
    begun: usize,
    /// Start of the running dose, in time and position, and bytes it has fed.
    fed: f64,
    next: usize,
    thinner: Thinner,
    /// Number of the part in each ADU.
    numbers: Vec<u32>,
    /// Parts that were lost, by number.
    pub(super) lost: Vec<u32>,
}

impl Feeder {
    pub(super) fn new(
        peer: NodeId,
        dial_at: Instant,
        spec: StreamSpec,
        parts: Arc<[Part]>,
        doses: Vec<Dose>,
    ) -> Self {
        let largest = parts.iter().map(|part| part.bytes as usize).max();
        Self {
            peer,
            link: None,
            dial_at,
            spec,
            parts,
            doses,
            filler: filler(largest.unwrap_or(0)),
            session: None,
            stream: None,
            is_connected: false,
            is_blocked: false,
            begun: 0,
            fed: 0.0,
            next: 0,
            thinner: Thinner::default(),
            numbers: Vec::new(),
            lost: Vec::new(),
        }
    }

    pub(super) fn dial(&mut self, link: Link) {
        self.link = Some(link);
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Number of parts handed over so far.
    pub(super) fn sent(&self) -> usize {
        self.next
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// From now on this flow sends the share `part` of its data, leaving out the least important frames first, and the rate of
    /// its channel falls accordingly.
    pub(super) fn yields(&mut self, context: &mut Context<'_>, part: f64) {
        self.thinner.part = part;
        let dose = self
            .begun
            .checked_sub(1)
            .and_then(|index| self.doses.get(index));
        if let Some((session, rate)) = self.session.zip(dose.and_then(|dose| dose.rate)) {
            let _ = context
                .engine()
                .session(session)
                .map(|mut session| session.set_channel_rate(self.thinner.of(rate)));
        }
    }

    /// Sets the rate of its channel from now on.
    pub(super) fn hold(&mut self, context: &mut Context<'_>, rate: Rate) {
        if let Some(session) = self.session {
            let _ = context
                .engine()
                .session(session)
                .map(|mut session| session.set_channel_rate(rate));
        }
    }

    /// Frames that were left out.
    pub(super) fn left_out(&self) -> &[u32] {
        &self.thinner.left_out
    }

    /// Makes the flow drop less important frames of these groups when it has to yield.
    pub(super) fn thinning(mut self, groups: Arc<[u32]>, ranks: Arc<[u8]>) -> Self {
        self.thinner = Thinner {
            groups,
            ranks,
            part: 1.0,
            ..Thinner::default()
        };
        self
    }

    fn feed(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some((session, stream)) = self.session.zip(self.stream) else {
            return;
        };
        while let Some(dose) = self.doses.get(self.begun).filter(|dose| dose.from <= now) {
            if let Some(rate) = dose.rate {
                // The session exists as long as the scenario runs.
                let _ = context
                    .engine()
                    .session(session)
                    .map(|mut session| session.set_channel_rate(self.thinner.of(rate)));
            }
            self.begun += 1;
            self.fed = 0.0;
        }
        let Some(dose) = self
            .begun
            .checked_sub(1)
            .and_then(|index| self.doses.get(index))
        else {
            return;
        };
        let allowed = dose.feed.map_or(f64::INFINITY, |rate| {
            rate * (now.since(dose.from) + AHEAD).as_secs_f64()
        });
        while self.next < dose.end && self.fed < allowed && !self.is_blocked {
            let Part { bytes, frame } = self.parts[self.next];
            if !self.thinner.keeps(&self.parts, self.next, frame) {
                // The time of the part passes all the same.
                self.fed += f64::from(bytes);
                self.next += 1;
                continue;
            }
            let data = self.filler.slice(..bytes as usize);
            match context.send(session, stream, data) {
                Ok(_) => {
                    self.numbers.push(self.next as u32);
                    self.fed += f64::from(bytes);
                    self.next += 1;
                }
                Err(_) => self.is_blocked = true,
            }
        }
    }
}

/// Filter that leaves frames of a group out, the least important first.
#[derive(Debug, Default)]
struct Thinner {
    /// Group and rank of each frame; empty if no frame is ever left out.
    groups: Arc<[u32]>,
    ranks: Arc<[u8]>,
    part: f64,
    thinning: Thinning,
    /// Last group that was decided, and its frames that are left out.
    group: Option<u32>,
    frames: Vec<u32>,
    keep: Vec<bool>,
    left_out: Vec<u32>,
}

impl Thinner {
    /// Rate kept of a flow of this rate; a flow that leaves nothing out keeps all.
    fn of(&self, rate: Rate) -> Rate {
        if self.groups.is_empty() {
            return rate;
        }
        Rate::from_bps((rate.as_bps() as f64 * self.part) as u64)
    }

    /// True if the part at `at`, of `frame`, is sent. Parts are asked for in order.
    fn keeps(&mut self, parts: &[Part], at: usize, frame: u32) -> bool {
        let Some(&group) = self.groups.get(frame as usize) else {
            return true;
        };
        if self.group != Some(group) {
            self.group = Some(group);
            self.decide(&parts[at..], group);
        }
        let place = self.frames.iter().position(|&known| known == frame);
        place.is_none_or(|place| self.keep[place])
    }

    fn decide(&mut self, parts: &[Part], group: u32) {
        self.frames.clear();
        let mut candidates: Vec<Candidate> = Vec::new();
        let of_group = parts
            .iter()
            .take_while(|part| self.groups[part.frame as usize] == group);
        for part in of_group {
            match candidates
                .last_mut()
                .filter(|_| self.frames.last() == Some(&part.frame))
            {
                Some(candidate) => candidate.bytes += part.bytes,
                None => {
                    self.frames.push(part.frame);
                    let rank = self.ranks[part.frame as usize];
                    candidates.push(Candidate {
                        bytes: part.bytes,
                        rank,
                    });
                }
            }
        }
        let all: u64 = candidates
            .iter()
            .map(|candidate| u64::from(candidate.bytes))
            .sum();
        let budget = (all as f64 * self.part) as u64;
        self.thinning.choose(&candidates, budget, &mut self.keep);
        let out = self
            .frames
            .iter()
            .zip(&self.keep)
            .filter(|(_, keep)| !**keep);
        self.left_out.extend(out.map(|(frame, _)| *frame));
    }
}

impl App for Feeder {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Connected { session, .. } if Some(session) == self.session => {
                self.is_connected = true;
                self.stream = context.open(session, self.spec.clone()).ok();
            }
            Event::Writable { .. } => self.is_blocked = false,
            Event::Stream {
                event: StreamEvent::Lost { adu, .. },
                ..
            } => self.lost.extend(self.numbers.get(adu as usize)),
            _ => return,
        }
        self.feed(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.session.is_none()
            && self.dial_at <= context.now()
            && let Some(link) = self.link
        {
            self.session = Some(context.connect(self.peer, vec![link]));
        }
        self.feed(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.session.is_none() {
            return self.link.map(|_| self.dial_at);
        }
        self.stream?;
        let begins = self.doses.get(self.begun).map(|dose| dose.from);
        let running = self
            .begun
            .checked_sub(1)
            .and_then(|index| self.doses.get(index));
        let feeds = running
            .filter(|dose| self.next < dose.end && !self.is_blocked)
            .and_then(|dose| {
                let wait_s = self.fed / dose.feed?;
                let due = dose.from + Duration::from_secs_f64(wait_s) + FEEDING;
                Some(Instant::from_nanos(
                    due.as_nanos().saturating_sub(AHEAD.as_nanos() as u64),
                ))
            });
        [begins, feeds].into_iter().flatten().min()
    }
}
