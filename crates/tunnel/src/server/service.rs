//! Streams of clients: the control stream of a membership, its streams of packets, and those of classes and connections.

use std::{sync::Arc, time::Duration};

use anabranch::{
    Order, Session, Stream,
    rights::{CODE_NO_RIGHT, Right},
    service::{Service, Serving},
};
use tokio::time::timeout;

use super::{Server, gate::prohibit, member::Member};
use crate::{
    counters::Dropped,
    entrance::Answers,
    exit::{End, deliver},
    notice::Notice,
    outlet::Lanes,
    wire::{
        CODE_ENDED, CODE_PROTOCOL, Code, LABEL_CONNECTIONS, LABEL_CONTROL, LABEL_PACKETS,
        LABEL_SERVICE, Message, WireError,
    },
};

/// Time in which the request must follow the opening of its stream.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A membership that is given up when this is dropped.
struct Place<'s> {
    server: &'s Server,
    member: Arc<Member>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.member.forget_stream();
        let was_last = self.server.lock().leave(&self.member);
        if was_last {
            let node = self.member.node;
            self.server.notices.show(&Notice::Left { node });
        }
    }
}

pub(super) fn abort(stream: &Stream, code: u32) {
    // A direction that is over has nothing to end.
    let _ = stream.stop(code);
    let _ = stream.reset(code);
}

impl Server {
    async fn control(&self, session: &Session, stream: &Stream) {
        let spec = stream.spec();
        let is_fit = spec.reliable && spec.duplex && spec.order == Order::Ordered;
        let Ok(Ok(Some(first))) = timeout(REQUEST_TIMEOUT, stream.recv()).await else {
            abort(stream, CODE_PROTOCOL);
            return;
        };
        let refusal = match Message::decode(&first.data) {
            Ok(Message::Request(wish)) if is_fit => {
                match self.rights.may(&session.peer(), Right::Tunnel) {
                    true => match self.join(session, &wish) {
                        Ok(place) => {
                            self.hold(stream, &place.member).await;
                            return;
                        }
                        Err(error) => (Code::NoAddress, error),
                    },
                    false => {
                        self.rights.note_refused(Right::Tunnel);
                        let node = session.peer();
                        let text = format!(
                            "the server gives the node {node} no right to its tunnel: there, it needs may = [\"call\", \"tunnel\"] in \
                             its [[peer]], or --allow {node}"
                        );
                        (Code::NotAllowed, text)
                    }
                }
            }
            Err(error @ WireError::Version(_)) => (Code::Unsupported, error.to_string()),
            _ => {
                abort(stream, CODE_PROTOCOL);
                return;
            }
        };
        self.notices.show(&Notice::Refused {
            node: session.peer(),
            cause: refusal.1.clone(),
        });
        // The peer may be gone, which ends the stream as well.
        let _ = stream
            .send(Message::Refuse(refusal.0, refusal.1).encode())
            .await;
        let _ = stream.finish();
        let _ = timeout(REQUEST_TIMEOUT, stream.delivered()).await;
    }

    fn join(&self, session: &Session, wish: &crate::wire::Wish) -> Result<Place<'_>, String> {
        let (node, id) = (session.peer(), session.id());
        let joined = self.lock().join(node, id, wish);
        let member = joined.map_err(|error| error.to_string())?;
        self.note_changed();
        if let Some(terms) = member.terms() {
            self.notices.show(&Notice::Joined { node, terms });
        }
        let server = self;
        Ok(Place { server, member })
    }

    /// Holds a membership for as long as its control stream, its right and its addresses last.
    async fn hold(&self, stream: &Stream, member: &Member) {
        let mut states = member.states();
        states.mark_changed();
        let telling = async {
            let (mut told, mut is_ready) = (None, false);
            loop {
                let state = match states.changed().await {
                    Ok(()) => *states.borrow_and_update(),
                    Err(_) => return CODE_ENDED,
                };
                if let Some(code) = state.over {
                    return code;
                }
                let mut messages = Vec::new();
                if told.replace(state.terms) != Some(state.terms) {
                    messages.push(Message::Lease(state.terms));
                }
                if state.has_packets == [true; 2] && !std::mem::replace(&mut is_ready, true) {
                    messages.push(Message::Ready);
                }
                for message in messages {
                    if stream.send(message.encode()).await.is_err() {
                        return CODE_ENDED;
                    }
                }
            }
        };
        let withdrawn = self
            .rights
            .until_not(|table| table.may(&member.node, Right::Tunnel));
        let code = tokio::select! {
            code = telling => code,
            () = withdrawn => CODE_NO_RIGHT,
            // No message follows the request.
            message = stream.recv() => match message {
                Ok(Some(_)) => CODE_PROTOCOL,
                _ => CODE_ENDED,
            },
        };
        member.end(code);
        abort(stream, code);
    }

    async fn packets(&self, session: &Session, stream: &Stream) {
        let member = self.lock().of_session(&session.id()).cloned();
        let spec = stream.spec();
        let is_fit = spec.lifetime.is_some() && spec.duplex && spec.order == Order::Unordered;
        let is_urgent = spec.is_urgent();
        let Some(member) = member.filter(|member| is_fit && member.take_packets(is_urgent)) else {
            abort(stream, CODE_PROTOCOL);
            return;
        };
        let code = match member.pair(stream.clone(), is_urgent) {
            // Whoever has the other one carries the packets of both.
            None => {
                let code = member.over().await;
                member.forget_stream();
                code
            }
            // In memory of its own: the other stream does not need it.
            Some(lanes) => Box::pin(self.carry(session, &member, &lanes)).await,
        };
        member.end(code);
        abort(stream, code);
    }

    /// Carries the packets of a member until it is over; returns the code.
    async fn carry(&self, session: &Session, member: &Member, lanes: &Lanes) -> u32 {
        let (ends, counters) = (
            (&self.device, self.clock),
            [&self.counters, &member.counters],
        );
        let mut answers = Answers::new();
        let lanes_and_classes = (lanes, &member.replies.classes);
        let delivering = deliver(lanes_and_classes, ends, &counters, |packet| {
            let (ip, header) = (packet.ip, packet.header);
            if !member.has(header.source) {
                return Err(Dropped::Source);
            }
            if !self.gate.is_open(header.destination) {
                let now = self.clock.now();
                if answers.admit(now) {
                    prohibit(now, member, &self.counters, (ip, header));
                }
                return Err(Dropped::Prohibited);
            }
            member
                .replies
                .note(self.clock.now(), &packet, &member.outlet);
            Ok(())
        });
        tokio::select! {
            code = member.over() => code,
            failure = member.outlet.carry(session, lanes, self.clock) => {
                tracing::debug!(node = %member.node, %failure, "no packets are sent any more");
                CODE_ENDED
            }
            end = delivering => match end {
                End::Protocol => CODE_PROTOCOL,
                End::Finished => CODE_ENDED,
                End::Failed(failure) => {
                    tracing::debug!(node = %member.node, %failure, "no packets arrive any more");
                    CODE_ENDED
                }
            },
        }
    }
}

impl Service for Server {
    fn takes(&self, label: &str) -> bool {
        let is_connection = label == LABEL_CONNECTIONS && self.making.is_some();
        matches!(label, LABEL_CONTROL | LABEL_PACKETS | LABEL_SERVICE) || is_connection
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        // Each in memory of its size: there are three for each client, for as long as it is in.
        let is_connection = stream.spec().label == LABEL_CONNECTIONS && self.making.is_some();
        match stream.spec().label.as_str() {
            LABEL_CONTROL => Box::pin(async move { self.control(&session, &stream).await }),
            LABEL_SERVICE => Box::pin(async move { self.class(&session, &stream).await }),
            _ if is_connection => Box::pin(async move {
                if let Some(making) = &self.making {
                    making.serve(&session, &stream).await;
                }
            }),
            _ => Box::pin(async move { self.packets(&session, &stream).await }),
        }
    }
}
