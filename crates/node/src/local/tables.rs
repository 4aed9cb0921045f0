//! Handles of an application: its sessions, streams and services, by numbers that are never used again in a connection.

use std::{collections::HashMap, sync::Arc};

use anabranch_net::{Session, Stream};
use tokio::task::AbortHandle;

use super::{
    NARROW_CREDIT, SERVICES_MAX, SESSIONS_MAX, STREAM_CREDIT, STREAMS_MAX, WIDE_STREAMS,
    inbox::Local, message::ErrorBody,
};
use crate::service::Registration;

/// Task that reports the events of a session, until this is dropped.
#[derive(Debug)]
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Handles of a connection.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The last handle that was given.
    last: u32,
    /// Streams with [`STREAM_CREDIT`].
    wide: usize,
    sessions: HashMap<u32, (Session, Option<Watch>)>,
    streams: HashMap<u32, (Stream, Arc<Local>)>,
    services: HashMap<u32, Registration>,
    /// The connection has ended: nothing is added any more.
    is_over: bool,
}

/// An error of a kind.
#[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
pub(super) fn error(kind: &str, message: impl ToString) -> ErrorBody {
    ErrorBody {
        kind: kind.to_owned(),
        message: message.to_string(),
        ..ErrorBody::default()
    }
}

fn limit(what: &str, max: usize) -> ErrorBody {
    error(
        "limit",
        format!("this connection has {max} {what}, the most that it may; close some first"),
    )
}

fn unknown(what: &str, handle: u32) -> ErrorBody {
    error(
        "handle",
        format!("there is no {what} {handle} here, or it was closed"),
    )
}

impl Tables {
    fn next(&mut self) -> Result<u32, ErrorBody> {
        if self.is_over {
            return Err(error("limit", "the connection is over"));
        }
        let next = self.last.checked_add(1);
        self.last = next.ok_or_else(|| error("limit", "all handles are used up; attach again"))?;
        Ok(self.last)
    }

    /// True if this handle was given.
    pub(super) fn was_given(&self, handle: u32) -> bool {
        (1..=self.last).contains(&handle)
    }

    /// Adds a session.
    pub(super) fn add_session(&mut self, session: Session) -> Result<u32, ErrorBody> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(limit("sessions", SESSIONS_MAX));
        }
        let handle = self.next()?;
        self.sessions.insert(handle, (session, None));
        Ok(handle)
    }

    pub(super) fn session(&self, handle: u32) -> Result<&Session, ErrorBody> {
        let found = self.sessions.get(&handle).map(|(session, _)| session);
        found.ok_or_else(|| unknown("session", handle))
    }

    /// Sets the task that reports the events of a session.
    pub(super) fn set_watch(&mut self, handle: u32, watch: AbortHandle) {
        let watch = Watch(watch);
        if let Some((_, before)) = self.sessions.get_mut(&handle) {
            *before = Some(watch);
        }
    }

    pub(super) fn remove_session(&mut self, handle: u32) -> Result<(), ErrorBody> {
        let found = self.sessions.remove(&handle);
        found.map(drop).ok_or_else(|| unknown("session", handle))
    }

    /// Error if no further stream can be added.
    pub(super) fn may_add_stream(&self) -> Result<(), ErrorBody> {
        if self.streams.len() >= STREAMS_MAX {
            return Err(limit("streams", STREAMS_MAX));
        }
        Ok(())
    }

    /// Adds a stream, which `local` makes from its handle and its credit.
    pub(super) fn add_stream(
        &mut self,
        stream: Stream,
        local: impl FnOnce(u32, u32) -> Arc<Local>,
    ) -> Result<Arc<Local>, ErrorBody> {
        self.may_add_stream()?;
        let handle = self.next()?;
        let credit = if self.wide < WIDE_STREAMS {
            self.wide += 1;
            STREAM_CREDIT
        } else {
            NARROW_CREDIT
        };
        let local = local(handle, credit);
        self.streams.insert(handle, (stream, local.clone()));
        Ok(local)
    }

    pub(super) fn stream(&self, handle: u32) -> Result<&(Stream, Arc<Local>), ErrorBody> {
        let found = self.streams.get(&handle);
        found.ok_or_else(|| unknown("stream", handle))
    }

    pub(super) fn remove_stream(&mut self, handle: u32) {
        if let Some((_, local)) = self.streams.remove(&handle)
            && local.credit() == STREAM_CREDIT
        {
            self.wide -= 1;
        }
    }

    /// Handle for a service, which [`Tables::add_service`] adds.
    pub(super) fn next_service(&mut self) -> Result<u32, ErrorBody> {
        if self.services.len() >= SERVICES_MAX {
            return Err(limit("services", SERVICES_MAX));
        }
        self.next()
    }

    pub(super) fn add_service(&mut self, handle: u32, registration: Registration) {
        self.services.insert(handle, registration);
    }

    pub(super) fn has_services(&self) -> bool {
        !self.services.is_empty()
    }

    pub(super) fn remove_service(&mut self, handle: u32) -> Result<(), ErrorBody> {
        let found = self.services.remove(&handle);
        found.map(drop).ok_or_else(|| unknown("service", handle))
    }

    /// Empties the tables for good. Returns the streams, which are to be ended.
    pub(super) fn end(&mut self) -> Vec<Arc<Local>> {
        self.is_over = true;
        self.services.clear();
        self.sessions.clear();
        let streams = self.streams.drain();
        streams.map(|(_, (_, local))| local).collect()
    }
}
