//! Service of a processing node in a simulated world: the protocol of `spec/processing.md` §5 between sessions and the state that
//! `anabranch process` has, too.

mod subscribing;

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_process::{
    Modules,
    serve::{Offered, Rules, Terms},
};
use anabranch_processing::wire::{
    Item, Label, Notice, Purpose, Request, decode, encode,
    message::{Offer, Pace, WAIT_MS_MAX},
};
use anabranch_session::Event;
use anabranch_sim::{App, Context};

use self::subscribing::Early;
use super::served::Subscriber;

/// Time between two acknowledgements.
const LOOK: Duration = Duration::from_millis(25);
/// Time between two marks.
const MARK: Duration = Duration::from_millis(100);
/// A stream of a session.
pub(super) type At = (SessionId, StreamId);

/// Purpose of a stream that a peer opened.
#[derive(Debug)]
enum Role {
    /// Its first message has not come.
    New(Label),
    OfferControl,
    OfferAdus(String),
    SubscriberControl(u64),
}

/// An offered stream.
#[derive(Debug)]
struct Entry {
    offered: Offered,
    source: NodeId,
    /// Streams with messages and with ADUs; none of a source at this node.
    control: Option<At>,
    adus: Option<At>,
    /// Number in the label of the stream with ADUs.
    opens: u64,
    told: Option<(u64, u32)>,
    /// Number and time of the ADUs that were taken.
    taken: Vec<(u64, Instant)>,
}

/// The service.
#[derive(Debug, Default)]
pub(super) struct Hub {
    entries: BTreeMap<String, Entry>,
    subscribers: BTreeMap<u64, Subscriber>,
    roles: BTreeMap<At, Role>,
    peers: BTreeMap<SessionId, NodeId>,
    number: u64,
    looked: Option<Instant>,
    marked: Option<Instant>,
    early: Vec<Early>,
    /// Streams with ADUs that nobody has yet.
    come: BTreeMap<(SessionId, Label), At>,
}

fn say(context: &mut Context<'_>, (session, stream): At, notice: &Notice) {
    // An error means that the session is over.
    let _ = context.send(session, stream, encode(notice));
}

impl Hub {
    /// The offered stream of a name.
    pub(super) fn offered(&self, name: &str) -> Option<&Offered> {
        Some(&self.entries.get(name)?.offered)
    }

    /// Number and time of the ADUs of a stream that were taken.
    pub(super) fn taken(&self, name: &str) -> &[(u64, Instant)] {
        self.entries
            .get(name)
            .map_or(&[], |entry| entry.taken.as_slice())
    }

    /// Streams of ADUs to a peer, by the name of what they are derived from.
    pub(super) fn streams_to(&self, peer: NodeId) -> BTreeMap<&str, At> {
        let own = self.subscribers.values().filter(|one| one.peer == peer);
        own.filter_map(|one| Some((one.name.as_str(), one.adus?)))
            .collect()
    }

    /// All sessions.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.peers.keys().copied().collect()
    }

    /// Sessions with a peer.
    pub(super) fn sessions_with(&self, peer: NodeId) -> impl Iterator<Item = SessionId> {
        let own = self.peers.iter().filter(move |(_, known)| **known == peer);
        own.map(|(session, _)| *session)
    }

    /// Offers a stream of this node itself.
    pub(super) fn offer_own(&mut self, name: &str, node: NodeId, terms: Terms, now: Instant) {
        let entry = Entry {
            offered: Offered::new(terms, Rules::default(), Modules::default(), now),
            source: node,
            control: None,
            adus: None,
            opens: 0,
            told: None,
            taken: Vec::new(),
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Takes an ADU of a stream of this node itself.
    pub(super) fn push_own(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        adu: anabranch_process::Adu,
    ) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.push(adu, context.now());
        }
        self.pump(context);
    }

    /// Handles an event of a session.
    pub(super) fn event(&mut self, context: &mut Context<'_>, event: &Event) {
        match event {
            Event::Connected { session, peer, .. } => {
                self.peers.insert(*session, *peer);
            }
            Event::Closed { session, .. } => self.closed(*session, context.now()),
            Event::StreamOpened {
                session,
                stream,
                spec,
            } => {
                if let Ok(label) = spec.label.parse::<Label>() {
                    self.opened((*session, *stream), label);
                    self.attach(context);
                }
            }
            Event::Readable { session, stream } => self.readable(context, (*session, *stream)),
            Event::Writable { .. } => {}
            _ => return,
        }
        self.pump(context);
    }

    fn opened(&mut self, at: At, label: Label) {
        if label.number == 0 {
            self.roles.insert(at, Role::New(label));
        } else {
            self.come.insert((at.0, label), at);
        }
    }

    /// The stream with ADUs of this request, if it is there.
    fn come(&mut self, control: At, purpose: Purpose, name: &str, number: u64) -> Option<At> {
        let name = name.to_owned();
        let label = Label {
            purpose,
            name,
            number,
        };
        self.come.remove(&(control.0, label))
    }

    /// Gives sources and subscribers their streams with ADUs.
    fn attach(&mut self, context: &mut Context<'_>) {
        let missing = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.adus.is_none());
        let missing: Vec<_> = missing
            .filter_map(|(name, entry)| Some((name.clone(), entry.control?, entry.opens)))
            .collect();
        for (name, control, number) in missing {
            if let Some(at) = self.come(control, Purpose::Offer, &name, number)
                && let Some(entry) = self.entries.get_mut(&name)
            {
                entry.adus = Some(at);
                self.roles.insert(at, Role::OfferAdus(name.clone()));
                self.take(context, &name);
            }
        }
        self.attach_subscribers(context);
    }

    fn readable(&mut self, context: &mut Context<'_>, at: At) {
        match self.roles.get(&at) {
            Some(Role::OfferAdus(name)) => {
                let name = name.clone();
                self.take(context, &name);
                return;
            }
            Some(_) => {}
            // A stream with ADUs, which is read once its request has come, or has nothing but the mark that announces it.
            None => return,
        }
        while let Some(adu) = context.receive(at.0, at.1) {
            if let Ok(request) = decode::<Request>(&adu.data) {
                self.request(context, at, request);
            }
        }
    }

    fn request(&mut self, context: &mut Context<'_>, at: At, request: Request) {
        let now = context.now();
        match (self.roles.get(&at), request) {
            (Some(Role::New(label)), Request::Offer(offer)) => {
                let name = label.name.clone();
                self.offer(context, at, &name, &offer);
            }
            (Some(Role::New(label)), Request::Subscribe(asked)) => {
                let name = label.name.clone();
                let wait = asked.wait_ms.min(WAIT_MS_MAX);
                if wait > 0 && !self.entries.contains_key(&name) {
                    let until = now + Duration::from_millis(wait.into());
                    self.early.push(Early {
                        at,
                        name,
                        asked,
                        until,
                    });
                    return;
                }
                self.answer(context, at, &name, &asked);
            }
            (Some(Role::SubscriberControl(number)), Request::Held { next }) => {
                let Some(subscriber) = self.subscribers.get(number) else {
                    return;
                };
                if let Some(entry) = self.entries.get_mut(&subscriber.name) {
                    subscriber.subscription.held(&mut entry.offered, next, now);
                }
            }
            (Some(&Role::SubscriberControl(of)), Request::Change { number, pipeline }) => {
                if let Err(why) = self.change(context, of, number, &pipeline) {
                    let number = Some(number);
                    let may_retry = false;
                    let refused = Notice::Refused {
                        number,
                        may_retry,
                        why,
                    };
                    say(context, at, &refused);
                } else {
                    say(context, at, &Notice::Changed { number });
                }
            }
            _ => {}
        }
    }

    fn fresh(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn offer(&mut self, context: &mut Context<'_>, at: At, name: &str, offer: &Offer) {
        let terms = Terms {
            run: offer.run,
            is_reliable: offer.is_reliable,
            is_live: offer.pace == Pace::Live,
            first: offer.first,
            readers: offer.readers,
        };
        let Some(&source) = self.peers.get(&at.0) else {
            return;
        };
        self.offer_own(name, source, terms, context.now());
        let stream = offer.opens.unwrap_or_else(|| self.fresh());
        if let Some(entry) = self.entries.get_mut(name) {
            entry.control = Some(at);
            entry.opens = stream;
        }
        self.roles.insert(at, Role::OfferControl);
        let next = offer.first;
        say(context, at, &Notice::Offered { stream, next });
        self.attach(context);
    }

    /// Takes what has come of a source, as far as there is room.
    fn take(&mut self, context: &mut Context<'_>, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let Some((session, stream)) = entry.adus else {
            return;
        };
        while entry.offered.has_room()
            && let Some(adu) = context.receive(session, stream)
        {
            if let Ok(Item::Adu(carried)) = Item::read(adu.data) {
                entry.push(carried.adu, context.now());
            }
        }
    }

    /// Sends what is derived, as far as sessions have space.
    fn pump(&mut self, context: &mut Context<'_>) {
        self.answer_early(context);
        for subscriber in self.subscribers.values_mut() {
            if let Some(entry) = self.entries.get_mut(&subscriber.name) {
                subscriber.pump(context, &mut entry.offered, false);
            }
        }
    }

    /// Acknowledges, and sends marks.
    pub(super) fn look(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        if self.looked.is_some_and(|at| now < at + LOOK) {
            return;
        }
        self.looked = Some(now);
        self.answer_early(context);
        let names: Vec<String> = self.entries.keys().cloned().collect();
        for name in names {
            self.take(context, &name);
        }
        for entry in self.entries.values_mut() {
            entry.offered.trim(now);
            let acknowledged = entry.offered.acknowledged();
            if let Some(control) = entry.control
                && entry.told != Some(acknowledged)
            {
                entry.told = Some(acknowledged);
                let (next, readers) = acknowledged;
                say(context, control, &Notice::Acknowledged { next, readers });
            }
        }
        let is_mark_due = self.marked.is_none_or(|at| now >= at + MARK);
        if is_mark_due {
            self.marked = Some(now);
        }
        for subscriber in self.subscribers.values_mut() {
            if let Some(entry) = self.entries.get_mut(&subscriber.name) {
                subscriber.pump(context, &mut entry.offered, is_mark_due);
            }
        }
    }

    /// Time of the next look; `None` while nothing is offered or asked for.
    pub(super) fn next_look(&self) -> Option<Instant> {
        if self.entries.is_empty() && self.early.is_empty() {
            return None;
        }
        Some(self.looked.map_or(Instant::EPOCH, |at| at + LOOK))
    }

    fn closed(&mut self, session: SessionId, now: Instant) {
        self.peers.remove(&session);
        self.roles.retain(|at, _| at.0 != session);
        self.early.retain(|early| early.at.0 != session);
        self.come.retain(|(of, _), _| *of != session);
        let own = self.subscribers.iter();
        let own = own.filter(|(_, subscriber)| subscriber.control.0 == session);
        let gone: Vec<u64> = own.map(|(number, _)| *number).collect();
        for number in gone {
            let Some(mut subscriber) = self.subscribers.remove(&number) else {
                continue;
            };
            if let Some(entry) = self.entries.get_mut(&subscriber.name) {
                subscriber.subscription.end(&mut entry.offered);
                subscriber
                    .subscription
                    .leave(&mut entry.offered, false, now);
            }
        }
    }
}

impl Entry {
    fn push(&mut self, adu: anabranch_process::Adu, now: Instant) {
        self.taken.push((adu.sequence, now));
        // A gap would be a fault of the source, which the count of lost ADUs shows.
        let _ = self.offered.push(adu, now);
    }
}

/// A node that does nothing else.
#[derive(Debug, Default)]
pub(super) struct Node(pub(super) Hub);

impl App for Node {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        self.0.event(context, &event);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        self.0.look(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.0.next_look()
    }
}
