//! Machine of a node: an engine with an application on top, or another packet handler.

use std::{any::Any, num::NonZeroUsize};

use anabranch_base::Instant;
use anabranch_session::{Engine, Received, Transmit};

use crate::{
    app::{App, Context},
    hop::NodeIndex,
    log::PacketLog,
};

/// A node without an engine: a non-conforming peer, or a middlebox on a path. The world calls it as a host calls an
/// engine.
pub trait Raw {
    /// Handles a packet that arrived.
    fn handle_packet(&mut self, now: Instant, packet: Received);

    /// Called at the time returned by [`Raw::poll_timeout`].
    fn handle_timeout(&mut self, now: Instant);

    /// Time at which to call [`Raw::handle_timeout`]; asked after every call.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Writes the next batch of packets into `buffer`; `None` when there is nothing to send now.
    fn poll_transmit(
        &mut self,
        now: Instant,
        packets_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit>;
}

/// An [`App`] that can be inspected after the run.
pub(crate) trait AnyApp: App {
    fn as_any(&mut self) -> &mut dyn Any;
    fn as_app(&mut self) -> &mut dyn App;
}

impl<T: App + Any> AnyApp for T {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn as_app(&mut self) -> &mut dyn App {
        self
    }
}

/// A [`Raw`] that can be inspected after the run.
pub(crate) trait AnyRaw: Raw {
    fn as_any(&mut self) -> &mut dyn Any;
    fn as_raw(&mut self) -> &mut dyn Raw;
}

impl<T: Raw + Any> AnyRaw for T {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
    fn as_raw(&mut self) -> &mut dyn Raw {
        self
    }
}

pub(crate) enum Machine {
    Host {
        engine: Box<Engine>,
        app: Box<dyn AnyApp>,
    },
    Raw(Box<dyn AnyRaw>),
}

impl Machine {
    /// The engine and the application.
    ///
    /// # Panics
    /// If the node has none: a mistake of the scenario.
    pub(crate) fn host(&mut self) -> (&mut Engine, &mut dyn AnyApp) {
        match self {
            Self::Host { engine, app } => (engine, &mut **app),
            Self::Raw(_) => panic!("this node has no engine"),
        }
    }

    pub(crate) fn handle_packet(&mut self, now: Instant, packet: Received) {
        match self {
            Self::Host { engine, .. } => engine.handle_packet(now, packet),
            Self::Raw(raw) => raw.as_raw().handle_packet(now, packet),
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn wake(&mut self, now: Instant) {
        match self {
            Self::Host { engine, app } => {
                if engine.poll_timeout().is_some_and(|at| at <= now) {
                    engine.handle_timeout(now);
                }
                if app.next_wake().is_some_and(|at| at <= now) {
                    let mut context = Context {
                        now,
                        engine,
                        departed: None,
                    };
                    app.as_app().on_wake(&mut context);
                }
            }
            Self::Raw(raw) => raw.as_raw().handle_timeout(now),
        }
    }

    /// Time at which the next timer is due.
    pub(crate) fn next_wake(&mut self) -> Option<Instant> {
        match self {
            Self::Host { engine, app } => [engine.poll_timeout(), app.next_wake()]
                .into_iter()
                .flatten()
                .min(),
            Self::Raw(raw) => raw.as_raw().poll_timeout(),
        }
    }

    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        packets_max: NonZeroUsize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match self {
            Self::Host { engine, .. } => engine.poll_transmit(now, packets_max, buffer),
            Self::Raw(raw) => raw.as_raw().poll_transmit(now, packets_max, buffer),
        }
    }

    /// Hands every event to the application; true if there was one. `departed` is the time at which the packet that
    /// caused them was sent.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        departed: Option<Instant>,
        mut log: Option<(&mut PacketLog, NodeIndex)>,
    ) -> bool {
        let Self::Host { engine, app } = self else {
            return false;
        };
        let mut busy = false;
        while let Some(event) = engine.poll_event() {
            busy = true;
            if let Some((log, node)) = &mut log {
                log.note(now, *node, format_args!("{event:?}"));
            }
            let mut context = Context {
                now,
                engine,
                departed,
            };
            app.as_app().on_event(&mut context, event);
        }
        busy
    }
}
