//! Streams of clients' classes: the service of what the server sends on them.

use std::{sync::Arc, time::Duration};

use anabranch::{
    Order, Session, Share, Stream, Tenant, daemon::PromiseState, net::Clock, pace::Pace,
};
use tokio::time::timeout;

use super::{
    Server,
    member::Member,
    service::{REQUEST_TIMEOUT, abort},
};
use crate::{
    class::{Class, Ended, Limit},
    wire::{Ask, CODE_BUSY, CODE_ENDED, CODE_PROTOCOL, ServiceMessage},
};

/// The tenant to which the streams of all clients' classes belong, after those of users and rules.
const TENANT: Tenant = Tenant::new(1 << 40);

/// Longest wait for what is on its way when a class ends.
const LINGER: Duration = Duration::from_secs(2);

/// A class of a client, until this is dropped.
struct Place<'m> {
    member: &'m Member,
    class: Arc<Class>,
    clock: Clock,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let replies = &self.member.replies;
        replies.classes.remove(&self.class, &self.member.outlet);
        replies.forget(self.clock.now(), &self.class);
    }
}

impl Server {
    /// Changes the share of what can be promised that the classes of all clients have together; `None`: they get no promises. What is
    /// promised already stays.
    pub fn set_promised_share(&self, share: Option<Share>) {
        *self.promised_share() = share;
        if share.is_some() {
            self.host.set_promised_share(TENANT, share);
        }
    }

    pub(super) async fn class(&self, session: &Session, stream: &Stream) {
        let member = self.lock().of_session(&session.id()).cloned();
        let spec = stream.spec();
        let is_fit = spec.lifetime.is_some() && spec.duplex && spec.order == Order::Unordered;
        let Some(member) = member.filter(|member| is_fit && member.is_ready()) else {
            abort(stream, CODE_PROTOCOL);
            return;
        };
        let first = match timeout(REQUEST_TIMEOUT, stream.recv()).await {
            Ok(Ok(Some(adu))) => ServiceMessage::decode(&adu.data).ok(),
            _ => None,
        };
        let Some(ServiceMessage::Ask(ask)) = first else {
            abort(stream, CODE_PROTOCOL);
            return;
        };
        let code = self.carry_class((session, stream), &member, ask).await;
        abort(stream, code);
    }

    /// Carries the packets of a class until it is over; returns the code.
    async fn carry_class(
        &self,
        (session, stream): (&Session, &Stream),
        member: &Member,
        ask: Ask,
    ) -> u32 {
        let limit = match ask.rate_max {
            Some(rate) => Limit::Rate(Pace::default(), rate),
            None => Limit::None,
        };
        let (classes, now) = (&member.replies.classes, self.clock.now());
        let Some(class) = classes.add(&member.outlet, limit, now) else {
            return CODE_BUSY;
        };
        let place = Place {
            member,
            class,
            clock: self.clock,
        };
        let class = &place.class.clone();
        class.set_promise(self.promise(stream, &ask));
        classes.open(class, stream.clone());
        let carrying = class.carry((session, stream), self.clock, || Duration::MAX);
        tokio::select! {
            code = member.over() => code,
            () = class.ended() => {
                drop(place);
                // What is on its way arrives; one that is over needs no end.
                if stream.finish().is_ok() {
                    let _ = timeout(LINGER, stream.delivered()).await;
                }
                CODE_ENDED
            }
            ended = carrying => {
                if let Ended::Failed(failure) = ended {
                    tracing::debug!(node = %member.node, %failure, "a class of packets ended");
                }
                CODE_ENDED
            }
            () = answer(class, stream) => CODE_PROTOCOL,
        }
    }

    /// Asks for the promise of a class; returns its state.
    fn promise(&self, stream: &Stream, ask: &Ask) -> Option<PromiseState> {
        let guarantee = ask.guarantee?;
        if self.promised_share().is_none() {
            return Some(PromiseState::OverLimit);
        }
        let asked = stream.set_tenant(Some(TENANT));
        let asked = asked.and_then(|()| stream.change_guarantee(Some(guarantee.waiting())));
        Some(match asked {
            Ok(()) => PromiseState::Waiting,
            Err(_) => PromiseState::OverLimit,
        })
    }
}

/// Answers each question with the state of the promise, and reports its changes; returns when the client breaks the rules.
async fn answer(class: &Class, stream: &Stream) {
    let asked = class.promise();
    let is_asked = matches!(asked, Some(PromiseState::Waiting));
    loop {
        if is_asked && let Some(explained) = stream.explain() {
            class.set_promise(Some(PromiseState::of(&explained)));
        }
        // One that there is no space for is sent with the next turn.
        let _ = stream.try_send(ServiceMessage::Answer(class.promise()).encode());
        tokio::select! {
            message = class.next_message() => {
                if !matches!(ServiceMessage::decode(&message), Ok(ServiceMessage::Ask(_))) {
                    return;
                }
            }
            event = stream.next_promise(), if is_asked => if event.is_err() {
                // The end of the stream ends the class.
                std::future::pending::<()>().await;
            },
        }
    }
}
