//! The same customers in the engine: sessions over simulated links that follow the recordings, each with a file transfer beside
//! them.

use std::time::Duration;

use anabranch_admission::Refusal;
use anabranch_base::{Instant, Rate, Seed, SessionId, StreamId};
use anabranch_session::{
    AllowList, Config, Event, Explanation, PromiseEvent, SendError, StreamError, StreamSpec,
};
use anabranch_sim::{
    World,
    app::{App, Context},
    apps::{Load, Receiver, Sender, StreamRecord, make_adu},
};

use super::{
    customers::Customer,
    records::{Asked, CustomerRecord, KEPT, Outcome, Rates},
    warnings::{self, Kind},
};
use crate::kit::streams::Scene;

/// Interval between two ADUs of a stream.
const FRAME: Duration = Duration::from_millis(40);
/// Age of an ADU at the end of a window from which on it has to be there.
const GRACE: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_secs(1);
/// Delay after the end of a window from which on a notification belongs to the next one.
const PHASE: Duration = Duration::from_millis(200);

/// State of a customer's stream.
#[derive(Debug)]
struct Active {
    customer: Customer,
    /// Index of its session.
    session: usize,
    label: String,
    stream: Option<StreamId>,
    /// Rate at which it finally sends.
    rate: Rate,
    sent: u64,
    is_blocked: bool,
    is_over: bool,
    /// Windows after which its owner was warned, or lost the promise.
    notices: Vec<(usize, Notice)>,
    record: CustomerRecord,
}

/// Notification to an owner about a promise.
#[derive(Clone, Copy, Debug)]
enum Notice {
    /// A warning, and whether the promise was judged with more than its probability.
    Warned {
        kind: Kind,
        is_own: bool,
    },
    Withdrawn,
}

/// Opens and feeds the streams of customers, next to a file in each session.
struct Clerk {
    files: Vec<Sender>,
    connected: Vec<SessionId>,
    active: Vec<Active>,
}

impl Active {
    fn new(index: usize, customer: &Customer, sessions: usize) -> Self {
        Self {
            customer: customer.clone(),
            session: index % sessions,
            label: format!("customer {index}"),
            stream: None,
            rate: customer.rate,
            sent: 0,
            is_blocked: false,
            is_over: false,
            notices: Vec::new(),
            record: CustomerRecord::new(customer.probability),
        }
    }

    fn at(window: usize) -> Instant {
        Instant::EPOCH + WINDOW * window as u32
    }

    fn start(&self) -> Instant {
        Self::at(self.customer.stay.start)
    }

    fn end(&self) -> Instant {
        Self::at(self.customer.stay.end)
    }

    /// Time at which ADU `number` is made.
    fn due(&self, number: u64) -> Instant {
        self.start() + FRAME * number as u32
    }

    fn adu_bytes(&self) -> usize {
        (self.rate.as_bytes_per_s() * FRAME.as_secs_f64()).ceil() as usize
    }

    /// Requests a promise, takes an offer or waits.
    fn open(&mut self, context: &mut Context<'_>, session: SessionId) {
        let wanted = self.customer.wanted(&self.label);
        let refusal = match context.open(session, wanted.clone()) {
            Ok(stream) => {
                self.stream = Some(stream);
                return;
            }
            Err(StreamError::Refused(refusal)) => refusal,
            Err(_) => {
                self.is_over = true;
                return;
            }
        };
        let Refusal { offer, .. } = *refusal;
        self.record.asked = Asked::Refused {
            had_offer: offer.rate.is_some() || offer.probability.is_some(),
        };
        if let Some(taken) = self.customer.accepts(&offer, &self.label) {
            let guarantee = taken.guarantee.clone();
            self.stream = context.open(session, taken).ok();
            let is_promised = self.stream.is_some();
            self.record.asked = Asked::Took { is_promised };
            if let Some(guarantee) = guarantee.filter(|_| is_promised) {
                self.rate = guarantee.required();
                self.record.probability =
                    guarantee.probability().unwrap_or(self.record.probability);
            }
        }
        if self.stream.is_none() {
            let waiting = StreamSpec {
                guarantee: wanted
                    .guarantee
                    .map(|guarantee| Box::new(guarantee.waiting())),
                ..wanted
            };
            self.stream = context.open(session, waiting).ok();
            self.is_over = self.stream.is_none();
        }
    }

    fn pump(&mut self, context: &mut Context<'_>, session: SessionId) {
        let now = context.now();
        if self.is_over || now < self.start() {
            return;
        }
        if self.stream.is_none() {
            self.open(context, session);
        }
        let Some(stream) = self.stream else { return };
        while !self.is_blocked && self.due(self.sent) <= now.min(self.end()) {
            let adu = make_adu(self.due(self.sent), self.sent, self.adu_bytes());
            match context.send(session, stream, adu) {
                Ok(_) => self.sent += 1,
                Err(SendError::Full(_)) => self.is_blocked = true,
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
        if now >= self.end() {
            context.finish(session, stream);
            self.is_over = true;
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let next = if self.stream.is_none() {
            self.start()
        } else if self.is_blocked {
            self.end()
        } else {
            self.due(self.sent).min(self.end())
        };
        (!self.is_over).then_some(next)
    }

    /// True if the second `at` got what it needs: that many bytes arrived in it, or all ADUs made so far arrived by its end,
    /// except the last ones made.
    fn is_kept(&self, record: &StreamRecord, at: usize, delay: Duration) -> bool {
        let begin = Self::at(at) + delay + FRAME / 2;
        let end = begin + WINDOW;
        let (mut arrived, mut in_time) = (0, 0);
        for (&number, &after) in record.numbers.iter().zip(&record.delays) {
            let made = self.due(number);
            let came = made + after;
            arrived += u64::from(begin <= came && came < end);
            in_time += u64::from(came < end && made + GRACE < end);
        }
        let due = end - GRACE;
        let made = due
            .since(self.start())
            .as_nanos()
            .div_ceil(FRAME.as_nanos()) as u64;
        let bytes = (arrived * self.adu_bytes() as u64) as f64;
        bytes >= KEPT * self.rate.as_bytes_per_s() || in_time >= made
    }
}

impl Clerk {
    fn find(&mut self, session: SessionId, stream: StreamId) -> Option<&mut Active> {
        let of = self
            .files
            .iter()
            .position(|file| file.session() == Some(session))?;
        let own = |active: &&mut Active| active.session == of && active.stream == Some(stream);
        self.active.iter_mut().find(own)
    }

    fn notify(&mut self, (session, stream): (SessionId, StreamId), at: usize, what: Notice) {
        if let Some(active) = self.find(session, stream) {
            active.notices.push((at, what));
        }
    }

    /// The session of a customer, once it is connected.
    fn session_of(&self, active: &Active) -> Option<SessionId> {
        let session = self.files[active.session].session();
        session.filter(|session| self.connected.contains(session))
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        for index in 0..self.active.len() {
            if let Some(session) = self.session_of(&self.active[index]) {
                self.active[index].pump(context, session);
            }
        }
    }
}

impl App for Clerk {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let now = context.now().since(Instant::EPOCH);
        let window = (now.as_secs() as usize).saturating_sub(1);
        // A session's windows begin a little later than ours.
        let is_during = Duration::from_nanos(u64::from(now.subsec_nanos())) >= PHASE;
        match &event {
            Event::Connected { session, .. } => self.connected.push(*session),
            Event::Closed { session, .. } => self.connected.retain(|one| one != session),
            Event::Writable { session, stream } => {
                if let Some(active) = self.find(*session, *stream) {
                    active.is_blocked = false;
                }
            }
            Event::Promise {
                session,
                stream,
                event: PromiseEvent::Warned(refusal),
            } => {
                let at = context.now();
                let explained = context.engine().session(*session);
                let explained = explained.ok().and_then(|one| one.stream(*stream).explain());
                let kind = match explained {
                    Some(explained) if !is_during => warnings::kind(&explained, at),
                    _ => Kind::During,
                };
                if let Some(active) = self.find(*session, *stream) {
                    let is_own = warnings::is_own(refusal, active.record.probability);
                    active
                        .notices
                        .push((window, Notice::Warned { kind, is_own }));
                }
            }
            Event::Promise {
                session,
                stream,
                event: PromiseEvent::Withdrawn(_),
            } => self.notify((*session, *stream), window, Notice::Withdrawn),
            _ => {}
        }
        let session = session_of(&event);
        let mut files = self.files.iter_mut();
        if let Some(file) = files.find(|file| file.session() == session) {
            file.on_event(context, event);
        }
        self.pump(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        for file in &mut self.files {
            file.on_wake(context);
        }
        self.pump(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        let connected = self
            .active
            .iter()
            .filter(|active| self.session_of(active).is_some());
        let own = connected.filter_map(Active::next_wake).min();
        let files = self.files.iter().filter_map(Sender::next_wake).min();
        [files, own].into_iter().flatten().min()
    }
}

/// The session of an event that a file is interested in.
fn session_of(event: &Event) -> Option<SessionId> {
    match event {
        Event::Connected { session, .. }
        | Event::Closed { session, .. }
        | Event::Writable { session, .. }
        | Event::Delivered { session, .. }
        | Event::Stream { session, .. } => Some(*session),
        _ => None,
    }
}

/// Sessions of a run, and the peers that they lead to, in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sessions {
    pub(super) count: usize,
    pub(super) peers: usize,
}

impl Sessions {
    /// One.
    pub(super) const ONE: Self = Self { count: 1, peers: 1 };
    /// Several that share their paths.
    pub(super) const SEVERAL: Self = Self {
        count: 10,
        peers: 3,
    };
}

/// Runs the customers for `seconds` over the scene, which all sessions share; `None` if the scene cannot be set up.
pub(super) fn run(
    seed: Seed,
    scene: &Scene,
    customers: &[Customer],
    (sessions, seconds): (Sessions, usize),
) -> Option<Outcome> {
    let mut world = World::new(seed);
    let config = Config {
        policy: "pgos".parse().ok()?,
        ..Config::default()
    };
    let file = |session: usize| {
        let peer = World::node_id(1 + session % sessions.peers);
        Sender::new(peer, vec![Load::bulk(1 << 40)])
    };
    let customers = customers.iter().enumerate();
    let clerk = Clerk {
        files: (0..sessions.count).map(file).collect(),
        connected: Vec::new(),
        active: customers
            .map(|(index, customer)| Active::new(index, customer, sessions.count))
            .collect(),
    };
    let a = world.add_node(config.clone(), AllowList::default(), clerk);
    let peers: Vec<usize> = (0..sessions.peers)
        .map(|_| {
            let allowed = AllowList::of([World::node_id(0)]);
            world.add_node(config.clone(), allowed, Receiver::new())
        })
        .collect();
    let links = match peers[..] {
        [peer] => vec![scene.lay(&mut world, [a, peer]).ok()?],
        _ => scene.lay_shared(&mut world, a, &peers)?.ok()?,
    };
    for (session, file) in world.app::<Clerk>(a).files.iter_mut().enumerate() {
        file.dial(Instant::EPOCH, links[session % sessions.peers].clone());
    }
    world.with_node(a, |_| ());
    // By second, then by customer: promises in force at its end.
    let mut in_force: Vec<Vec<Option<Explanation>>> = Vec::with_capacity(seconds);
    for _ in 0..seconds {
        world.run_for(WINDOW);
        in_force.push(explanations(&mut world, a));
    }
    // Lets packets in flight arrive.
    world.run_for(WINDOW * 2);
    let delay = scene.delay_max();
    let mut active = std::mem::take(&mut world.app::<Clerk>(a).active);
    let mut rates = Rates::default();
    for (index, active) in active.iter_mut().enumerate() {
        let peer = peers[active.session % sessions.peers];
        let record = world.app::<Receiver>(peer).record(&active.label);
        let stay = active.customer.stay.clone();
        active.record.ends_at = stay.end.min(seconds);
        for at in stay.start + 1..stay.end.min(seconds) {
            // Notifications at the end of the window before.
            for &(_, what) in active.notices.iter().filter(|(window, _)| window + 1 == at) {
                match what {
                    Notice::Withdrawn => active.record.withdraw(at - 1),
                    Notice::Warned { kind, is_own } => active.record.warn(at - 1, kind, is_own),
                }
            }
            let [before, after] = [at - 1, at].map(|at| in_force[at][index].as_ref());
            rates.asked += active.rate.as_bps() as f64;
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            active.record.account = (after.account.kept, after.account.broken);
            // In force at its beginning and at its end.
            if let (Some(_), Some(term)) = (before.term, after.term) {
                rates.in_force += active.rate.as_bps() as f64;
                active.record.is_warned(before.is_warned);
                let is_kept = active.is_kept(&record, at, delay);
                active.record.judge(at, term, is_kept, false);
            }
        }
    }
    rates.moments = seconds as u64;
    Some(Outcome {
        records: active
            .into_iter()
            .filter(|active| active.stream.is_some())
            .map(|active| active.record)
            .collect(),
        rates,
        ..Outcome::default()
    })
}

fn explanations(world: &mut World, a: usize) -> Vec<Option<Explanation>> {
    let clerk = world.app::<Clerk>(a);
    let streams: Vec<Option<(SessionId, StreamId)>> = (clerk.active.iter())
        .map(|active| Some((clerk.session_of(active)?, active.stream?)))
        .collect();
    let explain = |stream: Option<(SessionId, StreamId)>| {
        let (session, stream) = stream?;
        let session = world.engine(a).session(session).ok()?;
        session.stream(stream).explain()
    };
    streams.into_iter().map(explain).collect()
}

#[cfg(test)]
mod tests {
    use anabranch_session::Grade;

    use super::*;
    use crate::kit::recording::Recording;

    #[test]
    fn on_steady_paths_the_engine_keeps_its_promises() {
        let path = |mbps: f64| Recording {
            name: format!("{mbps}"),
            times_s: vec![0.0, 1.0],
            bandwidth_bps: Some(vec![Some(mbps * 1e6); 2]),
            ..Recording::default()
        };
        let scene = Scene::of_recordings(&[&path(4.0), &path(2.0)], Rate::from_mbps(12)).unwrap();
        let customer = |stay, kbps| Customer {
            stay,
            rate: Rate::from_kbps(kbps),
            probability: 0.9,
            is_divisible: true,
            grade: Grade::Renewable,
            takes_offers: true,
        };
        let customers = [customer(40..80, 2_000), customer(45..80, 2_500)];
        for seed in 1..=8 {
            let outcome = run(Seed(seed), &scene, &customers, (Sessions::ONE, 80)).unwrap();
            let [first, second] = &outcome.records[..] else {
                panic!("{outcome:?}")
            };
            for record in [first, second] {
                assert_eq!(record.asked, Asked::Admitted);
                assert!(record.renewable.windows >= 30, "{record:?}");
                assert!(record.renewable.broken() <= 1, "{record:?}");
                assert!(record.account.1 <= 1, "{record:?}");
            }
        }
    }
}
