//! Sending node in virtual time: two sessions, each with bulk data beside its promised streams.

use std::time::Duration;

use anabranch_base::{Instant, NodeId, SessionId, StreamId};
use anabranch_session::{Event, Link, StreamSpec};
use anabranch_sim::app::{App, Context};
use bytes::Bytes;

use super::{
    observed::{Notice, Observed},
    setting::{PromisedStream, START, bulk_adu},
};

/// Content of a stream.
#[derive(Debug)]
enum Content {
    /// As much as the session accepts.
    Bulk,
    Promised(PromisedStream),
}

/// A stream and its state.
#[derive(Debug)]
struct Feed {
    content: Content,
    peer: usize,
    stream: Option<StreamId>,
    sent: u64,
    is_blocked: bool,
    observed: Observed,
}

/// A session to be opened.
#[derive(Debug)]
struct Call {
    peer: NodeId,
    links: Vec<Link>,
    session: Option<SessionId>,
}

/// The application.
#[derive(Debug)]
pub(super) struct Origin {
    calls: Vec<Call>,
    feeds: Vec<Feed>,
    end: Duration,
}

impl Feed {
    fn new(content: Content, peer: usize) -> Self {
        Self {
            content,
            peer,
            stream: None,
            sent: 0,
            is_blocked: false,
            observed: Observed::default(),
        }
    }

    fn spec(&self) -> StreamSpec {
        match &self.content {
            Content::Bulk => StreamSpec::bulk("bulk"),
            Content::Promised(stream) => stream.spec(),
        }
    }

    /// Time at which the next ADU is made.
    fn due(&self) -> Duration {
        match &self.content {
            Content::Bulk => START,
            Content::Promised(stream) => stream.due(self.sent),
        }
    }

    fn adu(&self) -> Bytes {
        match &self.content {
            Content::Bulk => bulk_adu(),
            Content::Promised(stream) => stream.adu(self.sent),
        }
    }

    fn pump(&mut self, context: &mut Context<'_>, session: SessionId, until: Duration) {
        let now = context.now().since_epoch();
        if now < START {
            return;
        }
        if self.stream.is_none() {
            self.stream = context.open(session, self.spec()).ok();
        }
        let Some(stream) = self.stream else {
            self.is_blocked = true;
            return;
        };
        while !self.is_blocked && self.due() <= now && self.due() < until {
            match context.send(session, stream, self.adu()) {
                Ok(_) => self.sent += 1,
                // Full, or over.
                Err(_) => self.is_blocked = true,
            }
        }
    }
}

impl Origin {
    pub(super) fn new(streams: &[PromisedStream], peers: &[NodeId], end: Duration) -> Self {
        let promised = streams.iter();
        let promised = promised.map(|&stream| Feed::new(Content::Promised(stream), stream.peer));
        let bulk = (0..peers.len()).map(|peer| Feed::new(Content::Bulk, peer));
        let call = |&peer: &NodeId| Call {
            peer,
            links: Vec::new(),
            session: None,
        };
        Self {
            calls: peers.iter().map(call).collect(),
            feeds: promised.chain(bulk).collect(),
            end,
        }
    }

    /// Sets the links over which a session is opened at time zero.
    pub(super) fn set_links(&mut self, peer: usize, links: Vec<Link>) {
        self.calls[peer].links = links;
    }

    /// The session with a peer.
    pub(super) fn session(&self, peer: usize) -> Option<SessionId> {
        self.calls[peer].session
    }

    /// Session and stream of each promised stream, as far as they are open.
    pub(super) fn promised(&self) -> Vec<Option<(SessionId, StreamId)>> {
        let ids = |feed: &Feed| Some((self.calls[feed.peer].session?, feed.stream?));
        self.promised_feeds().map(ids).collect()
    }

    /// Events of each promised stream.
    pub(super) fn observed(&self) -> Vec<Observed> {
        let observed = self.promised_feeds().map(|feed| feed.observed.clone());
        observed.collect()
    }

    fn promised_feeds(&self) -> impl Iterator<Item = &Feed> {
        let feeds = self.feeds.iter();
        feeds.filter(|feed| matches!(feed.content, Content::Promised(_)))
    }

    fn feed(&mut self, session: SessionId, stream: StreamId) -> Option<&mut Feed> {
        let peer = self.calls.iter();
        let peer = peer
            .map(|call| call.session)
            .position(|own| own == Some(session))?;
        let mut feeds = self.feeds.iter_mut();
        feeds.find(|feed| feed.peer == peer && feed.stream == Some(stream))
    }

    fn pump(&mut self, context: &mut Context<'_>) {
        for feed in &mut self.feeds {
            if let Some(session) = self.calls[feed.peer].session {
                feed.pump(context, session, self.end);
            }
        }
    }
}

impl App for Origin {
    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let now = context.now().since_epoch();
        match event {
            Event::Writable { session, stream } => {
                if let Some(feed) = self.feed(session, stream) {
                    feed.is_blocked = false;
                }
            }
            Event::Promise {
                session,
                stream,
                event,
            } => {
                let notice = Notice::of(&event).map(|notice| (now, notice));
                if let Some(feed) = self.feed(session, stream) {
                    feed.observed.notices.extend(notice);
                }
            }
            _ => {}
        }
        self.pump(context);
    }

    fn on_wake(&mut self, context: &mut Context<'_>) {
        for call in &mut self.calls {
            if call.session.is_none() {
                call.session = Some(context.connect(call.peer, call.links.clone()));
            }
        }
        self.pump(context);
    }

    fn next_wake(&self) -> Option<Instant> {
        if self.calls.iter().any(|call| call.session.is_none()) {
            return Some(Instant::EPOCH);
        }
        let waiting = self.feeds.iter().filter(|feed| !feed.is_blocked);
        let due = waiting.map(Feed::due).filter(|&due| due < self.end).min();
        due.map(|due| Instant::EPOCH + due)
    }
}
