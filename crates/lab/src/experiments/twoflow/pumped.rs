//! All flows of all videos behind one pump, in one channel.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{Instant, NodeId, Rate, SessionId, StreamId};
use anabranch_session::{Event, Link, StreamEvent, StreamSpec};
use anabranch_sim::{App, Context};
use anabranch_twoflow::{FlowId, Pump};
use bytes::Bytes;

use super::{
    flow::{Part, filler},
    packets::UDP_BYTES,
    parts::Flow,
};

/// Timer of the pump, as in an origin on sockets.
const TICK: Duration = Duration::from_millis(5);
/// Number of parts of a flow that wait in the pump.
const QUEUED: usize = 2;
/// Ratio of the channel's target to the sum of its flows' rates: a delay of a tick must not persist.
const HEADROOM: f64 = 1.01;

/// One flow, and its position.
struct FlowSender {
    plan: Flow,
    /// Parts of the flow; essential frames are cut as enhanced ones are.
    parts: Vec<Part>,
    /// Number of parts up to the end of each dose.
    ends: Vec<usize>,
    stream: Option<StreamId>,
    begun: usize,
    /// Number of parts handed to the pump, and number that left it.
    given: usize,
    left: usize,
    /// Parts that left the pump when the stream was full.
    held: VecDeque<usize>,
    lost: Vec<u32>,
}

impl FlowSender {
    fn new(plan: Flow, part_bytes_max: u32) -> Self {
        let (mut parts, mut ends) = (Vec::new(), Vec::new());
        let mut from = 0;
        for dose in &plan.doses {
            for part in &plan.parts[from..dose.end] {
                let mut left = part.bytes;
                while left > 0 {
                    let bytes = left.min(part_bytes_max);
                    left -= bytes;
                    parts.push(Part { bytes, ..*part });
                }
            }
            from = dose.end;
            ends.push(parts.len());
        }
        Self {
            plan,
            parts,
            ends,
            stream: None,
            begun: 0,
            given: 0,
            left: 0,
            held: VecDeque::new(),
            lost: Vec::new(),
        }
    }

    /// Rate that its channel has to carry now.
    fn rate(&self) -> Rate {
        let dose = self.begun.checked_sub(1);
        let dose = dose.and_then(|index| self.plan.doses.get(index));
        let is_over = self.left == self.parts.len();
        dose.filter(|_| !is_over)
            .and_then(|dose| dose.rate)
            .unwrap_or_default()
    }
}

/// Opens a session and two streams for each video, and sends the parts that the pump releases.
pub(super) struct Pumped {
    peer: NodeId,
    link: Option<Link>,
    dial_at: Instant,
    flows: Vec<FlowSender>,
    pump: Pump<usize>,
    filler: Bytes,
    session: Option<SessionId>,
    is_connected: bool,
    target: Rate,
}

impl Pumped {
    pub(super) fn new(
        peer: NodeId,
        dial_at: Instant,
        flows: Vec<Flow>,
        part_bytes_max: u32,
    ) -> Self {
        let flows = flows
            .into_iter()
            .map(|flow| FlowSender::new(flow, part_bytes_max))
            .collect();
        Self {
            peer,
            link: None,
            dial_at,
            flows,
            pump: Pump::new(TICK),
            filler: filler(part_bytes_max as usize),
            session: None,
            is_connected: false,
            target: Rate::ZERO,
        }
    }

    pub(super) fn dial(&mut self, link: Link) {
        self.link = Some(link);
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    pub(super) fn stream(&self, flow: usize) -> Option<StreamId> {
        self.flows.get(flow)?.stream
    }

    /// Frames of a flow with a lost part.
    pub(super) fn lost_frames(&self, flow: usize) -> Vec<u32> {
        let flow = &self.flows[flow];
        let frame = |&part: &u32| Some(flow.parts.get(part as usize)?.frame);
        flow.lost.iter().filter_map(frame).collect()
    }

    /// Begins the doses that are due.
    fn begin(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        for number in 0..self.flows.len() {
            let flow = &mut self.flows[number];
            let Some(dose) = flow.plan.doses.get(flow.begun) else {
                continue;
            };
            if dose.from > now {
                continue;
            }
            if flow.stream.is_none() {
                let spec = StreamSpec {
                    label: number.to_string(),
                    ..flow.plan.spec.clone()
                };
                // A session has capacity for that many streams.
                flow.stream = context.open(session, spec).ok();
            }
            flow.begun += 1;
            let rate = flow.rate().as_bps() as f64 * flow.plan.payload_bytes / UDP_BYTES;
            let rate = Rate::from_bps(rate as u64);
            self.pump.add(now, FlowId(number as u64), rate, u64::MAX);
        }
    }

    /// Hands parts to the pump, as far as it has space.
    fn fill(&mut self, now: Instant, number: usize) {
        let flow = &mut self.flows[number];
        let Some(&end) = flow
            .begun
            .checked_sub(1)
            .and_then(|dose| flow.ends.get(dose))
        else {
            return;
        };
        while flow.given < end && flow.given - flow.left < QUEUED && flow.held.is_empty() {
            let bytes = flow.parts[flow.given].bytes;
            let id = FlowId(number as u64);
            if self.pump.push(now, id, bytes, flow.given).is_err() {
                return;
            }
            flow.given += 1;
        }
    }

    fn send(&mut self, context: &mut Context<'_>, session: SessionId, number: usize) {
        let flow = &mut self.flows[number];
        let Some(stream) = flow.stream else {
            return;
        };
        while let Some(&part) = flow.held.front() {
            let data = self.filler.slice(..flow.parts[part].bytes as usize);
            if context.send(session, stream, data).is_err() {
                return;
            }
            flow.held.pop_front();
        }
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session.filter(|_| self.is_connected) else {
            return;
        };
        let now = context.now();
        self.begin(context, session);
        for number in 0..self.flows.len() {
            self.fill(now, number);
        }
        while let Some(release) = self.pump.poll(now) {
            let number = release.flow.0 as usize;
            let flow = &mut self.flows[number];
            flow.left += 1;
            flow.held.push_back(release.item);
            self.send(context, session, number);
            self.fill(now, number);
        }
        let sum: u64 = self.flows.iter().map(|flow| flow.rate().as_bps()).sum();
        let target = Rate::from_bps((sum as f64 * HEADROOM) as u64);
        if target != self.target && target > Rate::ZERO {
            self.target = target;
            // The session exists as long as the scenario runs.
            let _ = context
                .engine()
                .session(session)
                .map(|mut session| session.set_channel_rate(target));
        }
    }
}

impl App for Pumped {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let flow_of = |flows: &[FlowSender], stream| {
            flows.iter().position(|flow| flow.stream == Some(stream))
        };
        match event {
            Event::Connected { session, .. } if Some(session) == self.session => {
                self.is_connected = true;
                self.advance(context);
            }
            Event::Writable { session, stream } => {
                if let Some(number) = flow_of(&self.flows, stream) {
                    self.send(context, session, number);
                    self.fill(context.now(), number);
                }
            }
            Event::Stream {
                stream,
                event: StreamEvent::Lost { adu, .. },
                ..
            } => {
                if let Some(number) = flow_of(&self.flows, stream) {
                    self.flows[number].lost.push(adu as u32);
                }
            }
            _ => {}
        }
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        if self.session.is_none()
            && self.dial_at <= context.now()
            && let Some(link) = self.link
        {
            self.session = Some(context.connect(self.peer, vec![link]));
        }
        self.advance(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.session.is_none() {
            return self.link.map(|_| self.dial_at);
        }
        if !self.is_connected {
            return None;
        }
        let begins = self
            .flows
            .iter()
            .filter_map(|flow| Some(flow.plan.doses.get(flow.begun)?.from));
        begins.chain(self.pump.poll_timeout()).min()
    }
}
