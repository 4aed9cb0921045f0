//! Ready list that the kernel keeps (epoll).

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use anabranch_overlay::relay::PortId;
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
};

use super::super::pool::Port;
use crate::waker::{Interest, Waker};

/// Ports listed at once; others follow in the next turn.
const LISTED_MAX: usize = 64;

/// The ports that are watched.
#[derive(Debug)]
pub(in super::super) struct Ready {
    list: OwnedFd,
}

impl Ready {
    /// # Errors
    /// The process has no file descriptors left.
    pub(in super::super) fn new() -> io::Result<Self> {
        let list = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { list })
    }

    /// Watches a port.
    ///
    /// # Errors
    /// The kernel has no memory left for it.
    pub(in super::super) fn add(&self, id: PortId, port: &Arc<Port>) -> io::Result<()> {
        let data = EventData::new_u64(id.to_bits());
        Ok(epoll::add(
            &self.list,
            port.socket.io(),
            data,
            EventFlags::IN,
        )?)
    }

    /// Stops watching a port.
    pub(in super::super) fn remove(&self, _: PortId, port: &Arc<Port>) {
        // It fails only if the port was never added.
        let _ = epoll::delete(&self.list, port.socket.io());
    }

    /// Appends ports that have packets.
    pub(in super::super) fn list(&self, named: &mut Vec<PortId>) {
        let mut events: Vec<Event> = Vec::with_capacity(LISTED_MAX);
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if epoll::wait(&self.list, spare_capacity(&mut events), Some(&now)).is_ok() {
            named.extend(
                events
                    .iter()
                    .map(|event| PortId::from_bits(event.data.u64())),
            );
        }
    }

    /// Sleeps until a port has packets, the waker rings, or `most` has passed.
    pub(in super::super) fn sleep(&self, waker: &Waker, most: Option<Duration>) {
        let interest = Interest {
            readable: true,
            writable: false,
        };
        waker.sleep(std::iter::once((self.list.as_fd(), interest)), most);
    }
}
