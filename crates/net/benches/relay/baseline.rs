//! Baselines: loops that forward from one port to another and do nothing else.

use std::{
    io::IoSliceMut,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use noq_udp::{BATCH_SIZE, RecvMeta, Transmit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::load::{Ends, Lines, Socket};

/// System calls with which a loop forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `recv_from` and `send_to`, packet by packet.
    OneByOne,
    /// `recvmmsg` and `sendmmsg`.
    #[cfg(target_os = "linux")]
    Mmsg,
    /// `recvmmsg` with coalesced trains, each sent on at once, unchanged.
    Trains,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::OneByOne,
        #[cfg(target_os = "linux")]
        Self::Mmsg,
        Self::Trains,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "recv_from/send_to",
            #[cfg(target_os = "linux")]
            Self::Mmsg => "recvmmsg/sendmmsg",
            Self::Trains => "recvmmsg+GRO/sendmsg+GSO",
        }
    }
}

/// A running loop: all sources send to one port, all packets leave from another.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) ends: Lines,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Baseline {
    pub(crate) fn start(kind: Kind, sources: usize) -> Option<Self> {
        let sink = Socket::bind();
        let (near, far) = (Socket::bind(), Socket::bind());
        let entrance = near.address();
        let ends = |_| Ends {
            source: Socket::bind(),
            entrance,
        };
        let ends = Lines {
            ends: (0..sources).map(ends).collect(),
            sink,
        };
        let target = ends.sink.address();
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let forwarding = move || {
            let mut forwarder = Forwarder::new(near, far, target);
            while !until.load(Ordering::Relaxed) {
                if forwarder.turn(kind) == 0 {
                    forwarder.sleep();
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("baseline".to_owned())
            .spawn(forwarding)
            .ok();
        Some(Self { ends, over, thread })
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Forwarder {
    near: Socket,
    far: Socket,
    target: SocketAddr,
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl Forwarder {
    fn new(near: Socket, far: Socket, target: SocketAddr) -> Self {
        Self {
            near,
            far,
            target,
            buffers: vec![vec![0; 64 << 10]; BATCH_SIZE],
            metas: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    fn sleep(&self) {
        let most = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut watched = [PollFd::from_borrowed_fd(
            self.near.io.as_fd(),
            PollFlags::IN,
        )];
        if poll(&mut watched, Some(&most)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn turn(&mut self, kind: Kind) -> usize {
        match kind {
            Kind::OneByOne => self.one_by_one(),
            #[cfg(target_os = "linux")]
            Kind::Mmsg => self.mmsg(),
            Kind::Trains => self.trains(),
        }
    }

    fn receive(&mut self, most: usize) -> usize {
        let mut slices: Vec<_> = self.buffers[..most]
            .iter_mut()
            .map(|buffer| IoSliceMut::new(buffer))
            .collect();
        let near = &self.near;
        near.state
            .recv((&near.io).into(), &mut slices, &mut self.metas[..most])
            .unwrap_or(0)
    }

    fn one_by_one(&mut self) -> usize {
        let filled = self.receive(1);
        for (meta, buffer) in self.metas[..filled].iter().zip(&self.buffers) {
            for packet in buffer[..meta.len].chunks(meta.stride) {
                let _ = self.far.io.send_to(packet, self.target);
            }
        }
        filled
    }

    #[cfg(target_os = "linux")]
    fn mmsg(&mut self) -> usize {
        use std::io::IoSlice;

        use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

        let filled = self.receive(BATCH_SIZE);
        let target = SocketAddrAny::from(self.target);
        let packets: Vec<[IoSlice<'_>; 1]> = self.metas[..filled]
            .iter()
            .zip(&self.buffers)
            .flat_map(|(meta, buffer)| buffer[..meta.len].chunks(meta.stride))
            .map(|packet| [IoSlice::new(packet)])
            .collect();
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = packets
            .iter()
            .map(|_| SendAncillaryBuffer::default())
            .collect();
        let mut messages: Vec<MMsgHdr<'_>> = packets
            .iter()
            .zip(&mut controls)
            .map(|(packet, control)| MMsgHdr::new_with_addr(&target, packet, control))
            .collect();
        for part in messages.chunks_mut(64) {
            let _ = sendmmsg(&self.far.io, part, SendFlags::empty());
        }
        filled
    }

    fn trains(&mut self) -> usize {
        let filled = self.receive(BATCH_SIZE);
        for (meta, buffer) in self.metas[..filled].iter().zip(&self.buffers) {
            let transmit = Transmit {
                destination: self.target,
                ecn: meta.ecn,
                contents: &buffer[..meta.len],
                segment_size: Some(meta.stride),
                src_ip: None,
            };
            let far = &self.far;
            let _ = far.state.try_send((&far.io).into(), &transmit);
        }
        filled
    }
}
