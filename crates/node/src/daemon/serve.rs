//! One session of a node, limited to the rights of its peer.

use std::{pin::pin, sync::Arc, time::Instant};

use anabranch_base::NodeId;
use anabranch_net::{Session, Stream, limited};
use tokio::task::JoinSet;

use super::{Core, calling::Attempt, peers::Call, reach::Reached};
use crate::{
    outcome::{self, Outcome, Outcomes},
    overlay::LABELS,
    rights::{CODE_NO_RIGHT, Right, Table, Terms},
    transfer::{Progress, Receiver, is_transfer},
};

/// Application code of streams beyond what a session may have served at a time.
pub const CODE_BUSY: u32 = 0x10;
/// Streams of one session that services serve at a time; further ones are refused.
const SERVED_MAX: usize = 16_384;

/// Sessions that a node may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    may_call: bool,
    is_member: bool,
}

impl Access {
    fn of(table: &Table, peer: &NodeId) -> Self {
        Self {
            may_call: table.may(peer, Right::Call),
            is_member: table.may(peer, Right::Member),
        }
    }

    fn has_lost(self, now: Self) -> bool {
        (self.may_call && !now.may_call) || (!now.may_call && self.is_member && !now.is_member)
    }

    /// True if a session that is served with these rights is served in the same way with those of `now`: streams in progress go
    /// on when a right is added that they do not depend on.
    fn goes_on_with(self, now: Self) -> bool {
        self.may_call == now.may_call && !self.has_lost(now)
    }
}

impl Core {
    /// Serves a session that a peer opened, until it is over or the peer may no longer have it.
    pub(super) async fn attend(self: Arc<Self>, session: Session) {
        let peer = session.peer();
        let access = Access::of(&self.rights.table(), &peer);
        if let Some(rendezvous) = self.rendezvous.server()
            && !access.may_call
            && !access.is_member
            && rendezvous.serves(&peer)
        {
            rendezvous.attend(&session).await;
            return;
        }
        // In this order: others see a session once it is known that it may be for the overlay, and a reload that makes the peer a member hands
        // over the sessions that it finds added.
        if let Some(overlay) = self.overlay_with(&peer) {
            overlay.expect(session.id());
        }
        self.sessions.add(&session);
        if let Some(overlay) = self.overlay_with(&peer) {
            overlay.accepted(session.clone()).await;
        }
        loop {
            let before = Access::of(&self.rights.table(), &peer);
            if !before.may_call && !before.is_member {
                // It was open before the right was withdrawn, or its handshake was under way at that time.
                self.rights.note_refused(Right::Call);
                session.close(CODE_NO_RIGHT, "this node is not listed any more");
                return;
            }
            let changed = self
                .rights
                .until_not(|table| before.goes_on_with(Access::of(table, &peer)));
            let serving = async {
                if before.may_call {
                    self.serve(&session).await;
                } else {
                    let is_refused = |label: &str| !label.starts_with(LABELS);
                    self.refuse_streams(&session, is_refused, Right::Call).await;
                }
            };
            tokio::select! {
                () = serving => return,
                () = changed => {
                    if before.has_lost(Access::of(&self.rights.table(), &peer)) {
                        self.rights.note_refused(Right::Call);
                        session.close(CODE_NO_RIGHT, "the right to this session was taken away");
                        return;
                    }
                }
            }
        }
    }

    /// Accepts what the peer may send until the session ends.
    pub(super) async fn serve(&self, session: &Session) {
        let (began, events) = (Instant::now(), session.events());
        tokio::select! {
            () = self.receive_files(session) => {}
            () = self.serve_streams(session) => {}
            () = self.note_paths(&events, session.peer()) => {}
        }
        self.note_disconnected(session, began);
    }

    /// Stops every stream with such a label, for want of a right, until the session is over.
    async fn refuse_streams(
        &self,
        session: &Session,
        is_refused: impl Fn(&str) -> bool,
        right: Right,
    ) {
        while let Ok(stream) = session
            .accept_stream_where(|spec| is_refused(&spec.label))
            .await
        {
            self.rights.note_refused(right);
            refuse(&stream, CODE_NO_RIGHT);
        }
    }

    /// Receives files, one transfer after the other, for as long as the peer may send them. A transfer goes to the receiver that is in
    /// force when its sender arrives; whoever arrives while receivers are replaced comes to the new one.
    async fn receive_files(&self, session: &Session) {
        let peer = session.peer();
        while session.close_reason().is_none() {
            let terms = self.rights.terms(&peer, Right::SendFiles);
            let receiver = self.receiver(terms.as_ref());
            let is_same = |table: &Table| table.terms(&peer, Right::SendFiles) == terms.as_ref();
            let changed = async {
                tokio::select! {
                    () = self.rights.until_not(is_same) => {}
                    () = self.until_other_receiver(receiver.as_ref(), terms.as_ref()) => {}
                }
            };
            let Some(receiver) = receiver.clone() else {
                tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.refuse_files(session) => {}
                }
                continue;
            };
            let progress = Progress::default();
            let offered = tokio::select! {
                biased;
                () = changed => continue,
                offered = Receiver::offered(session) => offered,
            };
            let result = match offered {
                Err(error) => Err(error),
                Ok(control) => {
                    let mut receiving = pin!(receiver.receive_on(session, control, &progress));
                    tokio::select! {
                        result = &mut receiving => result,
                        () = self.rights.until_not(is_same) => match begun(&progress, terms.as_ref()) {
                            Begun::Nothing => continue,
                            Begun::ByTicket => receiving.await,
                            Begun::ByRight => {
                                self.rights.note_refused(Right::SendFiles);
                                session.close(CODE_NO_RIGHT, "the right to send files here was taken away");
                                break;
                            }
                        },
                    }
                }
            };
            self.note_transfer(&peer, &progress, result);
        }
    }

    /// Stops every transfer, as a node that accepts no files. While rights and receivers are being replaced, it waits.
    async fn refuse_files(&self, session: &Session) {
        if self.resources.receivers.borrow().is_empty() {
            self.refuse_streams(session, is_transfer, Right::SendFiles)
                .await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Hands each stream that is neither a transfer's nor the overlay's to the service that takes its label, and stops it if
    /// there is none.
    async fn serve_streams(&self, session: &Session) {
        let is_ours = |label: &str| !label.starts_with(LABELS) && !is_transfer(label);
        let outcomes = Arc::new(Outcomes::default());
        let mut serving = JoinSet::new();
        while let Ok(stream) = session
            .accept_stream_where(|spec| is_ours(&spec.label))
            .await
        {
            while serving.try_join_next().is_some() {}
            let (id, session, outcomes) = (stream.id(), session.clone(), outcomes.clone());
            let refused = |code: u32| {
                refuse(&stream, code);
                outcomes.end(id, Some(Outcome::Refused(code)));
            };
            let is_asking = stream.spec().label == outcome::LABEL;
            match self.services.find(&stream.spec().label) {
                _ if serving.len() >= SERVED_MAX => refused(CODE_BUSY),
                _ if is_asking => {
                    serving.spawn(async move { outcomes.answer(session, stream).await });
                }
                Some(service) => {
                    outcomes.begin(id);
                    let concluding = service.conclude(session, stream);
                    serving.spawn(async move { outcomes.end(id, concluding.await) });
                }
                None => refused(CODE_NO_RIGHT),
            }
        }
    }

    /// Adds the overlay's paths to a session, whenever there is an overlay that its peer is a member of, until the session is over.
    async fn follow_overlay(&self, session: &Session) {
        let mut changes = self.membership.changes();
        while session.close_reason().is_none() {
            changes.mark_unchanged();
            if let Some(overlay) = self.overlay_with(&session.peer()) {
                overlay.follow(session.clone()).await;
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = session.closed() => {}
            }
        }
    }

    /// Keeps a session with a peer open, with a first `attempt` that has begun; does not return.
    pub(super) async fn keep(self: Arc<Self>, call: Call, attempt: Attempt) {
        let Call { peer, objectives } = call;
        let mut pause = super::RETRY_MIN;
        let mut attempt = Some(attempt);
        loop {
            let attempt = attempt.take();
            let attempt = attempt.unwrap_or_else(|| self.calling.begin(peer.node));
            let reached = self.reach(&peer).await;
            if let Ok(Reached {
                session,
                is_ours: true,
                ..
            }) = &reached
            {
                self.sessions.add(session);
            }
            drop(attempt);
            match reached {
                Ok(Reached {
                    session,
                    is_ours: false,
                    _circuit,
                }) => {
                    pause = super::RETRY_MIN;
                    // It is served where it was accepted.
                    session.closed().await;
                }
                Ok(Reached {
                    session, _circuit, ..
                }) => {
                    let began = Instant::now();
                    self.note_connected(&session, "which was called");
                    pause = super::RETRY_MIN;
                    if let Some(text) = &objectives
                        && let Err(error) = session.inject_objectives(text)
                    {
                        limited!(warn, peer = peer.name, %error, "objectives not injected");
                    }
                    let mut changes = self.membership.changes();
                    let mut serving = pin!(async {
                        tokio::join!(self.serve(&session), self.follow_overlay(&session));
                    });
                    loop {
                        changes.mark_unchanged();
                        // Objectives and the overlay are of the session on which they were begun.
                        let is_needed =
                            objectives.is_some() || self.overlay_with(&peer.node).is_some();
                        tokio::select! {
                            () = &mut serving => break,
                            // This node keeps the sender, so the channel is not closed.
                            _ = changes.changed() => {}
                            twin = self.twin(&session), if !is_needed => {
                                session.close(0, "another session with this node is open");
                                self.note_disconnected(&session, began);
                                twin.closed().await;
                                break;
                            }
                        }
                    }
                }
                Err(error) => limited!(warn, "not connected with {}: {error}", peer.name),
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(super::RETRY_MAX);
        }
    }
}

/// State of a transfer when the right to send files changes.
enum Begun {
    /// No offer yet.
    Nothing,
    /// A transfer that began without the right, and so with a ticket: the right does not affect it.
    ByTicket,
    /// A transfer that depends on the right as it was.
    ByRight,
}

fn begun(progress: &Progress, terms: Option<&Terms>) -> Begun {
    match (progress.snapshot().name.is_empty(), terms) {
        (true, _) => Begun::Nothing,
        (false, None) => Begun::ByTicket,
        (false, Some(_)) => Begun::ByRight,
    }
}

/// Stops a stream, and resets the direction of this node.
pub(crate) fn refuse(stream: &Stream, code: u32) {
    // A direction that is already over has nothing to stop.
    let _ = stream.stop(code);
    if stream.can_send() {
        let _ = stream.reset(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_added_interrupts_nothing() {
        let access = |may_call, is_member| Access {
            may_call,
            is_member,
        };
        assert!(access(true, false).goes_on_with(access(true, true)));
        // The overlay ends its own sessions.
        assert!(access(true, true).goes_on_with(access(true, false)));
        assert!(!access(false, true).goes_on_with(access(false, false)));
        assert!(!access(true, true).goes_on_with(access(false, true)));
        // What was refused is served from now on.
        assert!(!access(false, true).goes_on_with(access(true, true)));
    }
}
