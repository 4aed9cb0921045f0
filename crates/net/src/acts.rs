//! Changes by the user of a node in sessions by their numbers: paths in use, parameters and guarantees of streams.

use std::time::Duration;

use anabranch_base::{ChannelId, SessionId, StreamId};
use anabranch_session::{Grant, Guarantee, PathError, StreamError, StreamParameters, TakenOut};

use crate::host::Host;

impl Host {
    /// Takes a path of a session out of use, for a time or until [`Self::take_in`]; see
    /// [`SessionMut::take_out`](anabranch_session::SessionMut::take_out).
    ///
    /// # Errors
    /// There is no such session or channel; or it is the last one in use, and `is_forced` is false.
    pub fn take_out(
        &self,
        session: SessionId,
        (channel, is_forced): (ChannelId, bool),
        by: &str,
        time: Option<Duration>,
    ) -> Result<(), PathError> {
        self.inner.shared.command(|state, now| {
            let order = TakenOut {
                by: by.into(),
                until: time.map(|time| now + time),
            };
            let mut session =
                (state.engine.session(session)).map_err(|_| PathError::Unknown(channel))?;
            session.take_out(now, channel, order, is_forced)
        })
    }

    /// Uses a path of a session again.
    ///
    /// # Errors
    /// There is no such session or channel, or it is in use.
    pub fn take_in(&self, session: SessionId, channel: ChannelId) -> Result<(), PathError> {
        self.inner.shared.command(|state, _| {
            let mut session =
                (state.engine.session(session)).map_err(|_| PathError::Unknown(channel))?;
            session.take_in(channel)
        })
    }

    /// [`Stream::adjust`](crate::Stream::adjust) for a stream by its number.
    ///
    /// # Errors
    /// As there; there is no such stream.
    pub fn adjust(
        &self,
        session: SessionId,
        stream: StreamId,
        parameters: StreamParameters,
    ) -> Result<(), StreamError> {
        self.inner.shared.command(|state, _| {
            let session = state.engine.session(session)?;
            session.stream(stream).adjust(parameters)
        })
    }

    /// [`Stream::change_guarantee`](crate::Stream::change_guarantee) for a stream by its number.
    ///
    /// # Errors
    /// As there; there is no such stream.
    pub fn change_guarantee(
        &self,
        session: SessionId,
        stream: StreamId,
        guarantee: Option<Guarantee>,
    ) -> Result<(), StreamError> {
        self.inner.shared.command(|state, now| {
            let session = state.engine.session(session)?;
            session.stream(stream).change_guarantee(now, guarantee)
        })
    }

    /// Returns the promise that an open stream's demand, which may wait, would get if it were made now; nothing changes.
    ///
    /// # Errors
    /// A refusal, with what could be promised instead; there is no such session or stream.
    pub fn admit_again(&self, session: SessionId, stream: StreamId) -> Result<Grant, StreamError> {
        self.inner.shared.command(|state, now| {
            let session = state.engine.session(session)?;
            session.stream(stream).admit_again(now)
        })
    }
}
