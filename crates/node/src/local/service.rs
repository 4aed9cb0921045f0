//! A label that an application has registered: hands the streams of peers to its connection, if they have the right.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use anabranch_net::{Session, Stream};
use serde_json::json;

use super::{
    connection::Connection,
    frame::Frame,
    inbox::Local,
    message::{self, ErrorBody, Event, EventBody, Opened},
    request::RESERVED,
    tables::error,
};
use crate::{
    daemon::{CODE_BUSY, CODE_NO_RIGHT, refuse},
    outcome::Outcome,
    rights::{Right, Table},
    service::{Concluding, Service, Serving, label_matches},
    spec::SpecText,
};

/// A registered label.
#[derive(Debug)]
struct LocalService {
    label: String,
    handle: u32,
    backlog: u32,
    /// Streams that wait to be accepted.
    waiting: Arc<AtomicU32>,
    connection: Weak<Connection>,
}

impl Connection {
    /// Registers a label for the application.
    pub(super) fn register(
        self: &Arc<Self>,
        label: &str,
        backlog: u32,
    ) -> Result<serde_json::Value, ErrorBody> {
        if label.is_empty() || label.len() > anabranch_session::LABEL_BYTES_MAX + 1 {
            return Err(error("spec", "a label has 1 to 128 bytes"));
        }
        if label.starts_with(RESERVED) {
            let why = format!("labels that begin with {RESERVED} belong to the node itself");
            return Err(error("spec", why));
        }
        let mut tables = self.tables();
        let handle = tables.next_service()?;
        let service = LocalService {
            label: label.to_owned(),
            handle,
            backlog,
            waiting: Arc::default(),
            connection: Arc::downgrade(self),
        };
        let registered = self.node.services().register(Arc::new(service));
        let registration = registered.map_err(|why| error("limit", why))?;
        tables.add_service(handle, registration);
        Ok(json!({ "service": handle }))
    }

    /// Hands a stream of a peer to the application; the error is the code to refuse it with.
    fn adopt(
        self: &Arc<Self>,
        service: &LocalService,
        session: &Session,
        stream: &Stream,
    ) -> Result<Arc<Local>, u32> {
        let waiting = &service.waiting;
        let is_taken = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < service.backlog).then_some(count + 1)
        });
        is_taken.map_err(|_| CODE_BUSY)?;
        let reservation = self.account.accept().map_err(ErrorBody::from);
        let added = reservation.and_then(|reservation| {
            self.add_stream(stream.clone(), reservation, 0, Some(waiting.clone()))
        });
        let Ok(local) = added else {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(CODE_BUSY);
        };
        let peer = session.peer();
        let event = Event {
            stream: None,
            session: None,
            service: Some(service.handle),
            body: EventBody::Incoming {
                opened: Opened {
                    stream: local.handle,
                    id: stream.id().0,
                    credit: local.credit(),
                },
                peer: peer.to_string(),
                name: self.node.name(&peer),
                spec: Box::new(SpecText::of(stream.spec())),
            },
        };
        self.link.outbox.push(&Frame::Event(message::json(&event)));
        Ok(local)
    }
}

/// Revokes a stream when the node stops serving it.
struct Revoking(Arc<Local>);

impl Drop for Revoking {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

impl Service for LocalService {
    fn takes(&self, label: &str) -> bool {
        !label.starts_with(RESERVED) && label_matches(&self.label, label)
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        let concluding = self.conclude(session, stream);
        Box::pin(async move {
            concluding.await;
        })
    }

    fn conclude(self: Arc<Self>, session: Session, stream: Stream) -> Concluding {
        Box::pin(async move {
            let refused = |stream: &Stream, code: u32| {
                refuse(stream, code);
                Some(Outcome::Refused(code))
            };
            let label = stream.spec().label.clone();
            let peer = session.peer();
            let may = |table: &Table| {
                let terms = table.terms(&peer, Right::UseService);
                terms.is_some_and(|terms| terms.include_service(&label))
            };
            let Some(connection) = self.connection.upgrade() else {
                return refused(&stream, CODE_NO_RIGHT);
            };
            let rights = connection.node.rights().clone();
            if !may(&rights.table()) {
                rights.note_refused(Right::UseService);
                return refused(&stream, CODE_NO_RIGHT);
            }
            let local = match connection.adopt(&self, &session, &stream) {
                Ok(local) => local,
                Err(code) => return refused(&stream, code),
            };
            // Whatever this task holds keeps the session open, and the connection's tables.
            drop((stream, session, connection));
            let revoking = Revoking(local.clone());
            tokio::select! {
                () = local.over() => {}
                () = rights.until_not(may) => {}
            }
            // What is over already is not affected.
            drop(revoking);
            local.over().await;
            local.outcome().await
        })
    }
}
