//! Driver thread, which passes packets and time between the sockets and the engine.
//!
//! It sleeps in one place, in one of two modes. While traffic is light it *listens*: the first packet,
//! the engine's next deadline or a command wakes it. While traffic is heavy it *gathers*: it ignores
//! packets for a time that the engine permits ([`Engine::coalescing_delay`]), and then handles
//! everything together: received packets, and the pacing quanta to send.
//!
//! [`Engine::coalescing_delay`]: anabranch_session::Engine::coalescing_delay

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{Received, Transmit};

use crate::{
    inbox::Inbox,
    moderation::Moderation,
    socket::Socket,
    state::{Asleep, Shared, State},
    undeliverable::Report,
};

/// Batches taken from the engine under one hold of the lock.
const BATCHES_PER_TURN: usize = 16;
/// Packets in one batch at most; with full packets of 1472 bytes it stays below the 64 KiB that the
/// kernel accepts in one call.
const BATCH_PACKETS_MAX: usize = 40;
/// Packets received from one socket before the engine may send.
const RECEIVED_PER_TURN: usize = 512;
/// Time for which a closing host waits for its peers.
const CLOSING_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Upper bound of the engine's coalescing delay.
    coalesce: Duration,
    sockets: Vec<Socket>,
    inbox: Inbox,
    moderation: Moderation,
    /// Reports that packets could not be delivered, for the engine.
    reports: Vec<(SocketId, Report)>,
    /// Time at which the engine wants to be called.
    timeout: Option<Instant>,
    /// Time for which the engine lets packets gather.
    delay_max: Duration,
    /// Free batch buffers.
    buffers: Vec<Vec<u8>>,
    outgoing: Vec<(Transmit, Vec<u8>)>,
    closing_until: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, coalesce: Duration) -> Self {
        Self {
            shared,
            coalesce,
            sockets: Vec::new(),
            inbox: Inbox::default(),
            moderation: Moderation::default(),
            reports: Vec::new(),
            timeout: None,
            delay_max: Duration::ZERO,
            buffers: Vec::new(),
            outgoing: Vec::with_capacity(BATCHES_PER_TURN),
            closing_until: None,
        }
    }

    /// Runs until the host is closed, and its peers have been notified or cannot be.
    pub(crate) fn run(mut self) {
        let mut packets = Vec::new();
        loop {
            let received = self.receive(&mut packets);
            let sent = self.turn(&mut packets);
            if self.is_done() {
                break;
            }
            let now = self.shared.clock.now();
            let hold_off = self.moderation.served(now, received + sent, self.delay_max);
            self.sleep(now, hold_off);
        }
        // Whoever waits for the end may bind the same addresses next.
        self.sockets.clear();
        let mut state = self.shared.lock();
        state.is_over = true;
        state.ending.wake();
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self, now: Instant, hold_off: Duration) {
        if self.sockets.iter().any(Socket::has_reports) {
            return;
        }
        let due = self.timeout.into_iter().chain(self.closing_until).min();
        let is_gathering = !hold_off.is_zero();
        let until = if is_gathering {
            let gathered = now + hold_off;
            // Waits for a pacing quantum that is due soon after.
            Some(due.map_or(gathered, |due| due.clamp(gathered, gathered + hold_off / 4)))
        } else {
            due
        };
        {
            let mut state = self.shared.lock();
            if state.is_urgent || (state.has_work && !is_gathering) {
                return;
            }
            state.asleep = if is_gathering {
                Asleep::Gathering
            } else {
                Asleep::Listening
            };
        }
        let watched = self
            .sockets
            .iter()
            .map(|socket| socket.watch(!is_gathering));
        let most = until.map(|until| until.since(self.shared.clock.now()));
        self.shared.waker.sleep(watched, most);
        self.shared.lock().asleep = Asleep::No;
    }

    /// Adopts opened sockets, drops closed ones, and receives from the others.
    fn receive(&mut self, packets: &mut Vec<Received>) -> usize {
        {
            let mut state = self.shared.lock();
            state.has_work = false;
            state.is_urgent = false;
            for id in state.sockets_dead.drain(..) {
                self.sockets.retain(|socket| socket.id != id);
            }
            for socket in state.sockets_new.drain(..) {
                self.sockets.retain(|old| old.id != socket.id);
                self.sockets.push(socket);
            }
        }
        for socket in &mut self.sockets {
            socket.take_reports(&mut self.reports);
            socket.flush();
            self.inbox.receive(socket, RECEIVED_PER_TURN, packets);
        }
        packets.len()
    }

    /// Runs one round: packets and time in, packets and events out. Returns the number of packets sent.
    fn turn(&mut self, packets: &mut Vec<Received>) -> usize {
        let shared = self.shared.clone();
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let mut sent = 0;
        loop {
            let is_drained = {
                let mut state = shared.lock();
                let now = shared.clock.now();
                for packet in packets.drain(..) {
                    state.engine.handle_packet(now, packet);
                }
                for (socket, report) in self.reports.drain(..) {
                    let Report { remote, cause } = report;
                    (state.engine).note_undeliverable(now, socket, remote, cause);
                }
                state.follow_calendar(now);
                shared.look_at_retired(&mut state, now);
                if state.engine.poll_timeout().is_some_and(|at| at <= now) {
                    state.engine.handle_timeout(now);
                }
                let is_drained = self.drain_transmits(&mut state, now, &mut outgoing);
                state.dispatch_events(now);
                let due = state.engine.poll_timeout().into_iter();
                let due = due.chain(state.calendar_due);
                self.timeout = due.chain(state.binding.look_due).min();
                self.delay_max = state.engine.coalescing_delay(now).min(self.coalesce);
                self.publish_stats(&mut state);
                self.begin_closing(&state, now);
                is_drained
            };
            for (transmit, batch) in outgoing.drain(..) {
                sent += transmit.packets();
                self.send(transmit, batch);
            }
            if is_drained {
                break;
            }
        }
        self.outgoing = outgoing;
        sent
    }

    /// Takes packets from the engine. Returns false if there may be more.
    fn drain_transmits(
        &mut self,
        state: &mut State,
        now: Instant,
        outgoing: &mut Vec<(Transmit, Vec<u8>)>,
    ) -> bool {
        let most = self.batch_packets_max();
        for _ in 0..BATCHES_PER_TURN {
            let mut batch = self.buffers.pop().unwrap_or_default();
            batch.clear();
            match state.engine.poll_transmit(now, most, &mut batch) {
                Some(transmit) => outgoing.push((transmit, batch)),
                None => {
                    self.buffers.push(batch);
                    return true;
                }
            }
        }
        false
    }

    fn batch_packets_max(&self) -> NonZeroUsize {
        let kernel = self.sockets.iter().map(Socket::batch_packets_max).min();
        let limit = NonZeroUsize::new(BATCH_PACKETS_MAX).expect("not zero");
        kernel.map_or(limit, |kernel| kernel.min(limit))
    }

    fn send(&mut self, transmit: Transmit, batch: Vec<u8>) {
        let freed = match self.socket(transmit.socket) {
            Some(socket) => socket.send(transmit, batch),
            // The interface disappeared while the packet was being built.
            None => Some(batch),
        };
        if let Some(buffer) = freed
            && self.buffers.len() < 2 * BATCHES_PER_TURN
        {
            self.buffers.push(buffer);
        }
    }

    fn socket(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.sockets.iter_mut().find(|socket| socket.id == id)
    }

    fn publish_stats(&self, state: &mut State) {
        for entry in &mut state.sockets {
            if let Some(socket) = self.sockets.iter().find(|socket| socket.id == entry.id) {
                entry.stats = socket.stats();
            }
        }
    }

    fn begin_closing(&mut self, state: &State, now: Instant) {
        if state.is_closing && self.closing_until.is_none() {
            self.closing_until = Some(now + CLOSING_MAX);
        }
    }

    fn is_done(&self) -> bool {
        let Some(until) = self.closing_until else {
            return false;
        };
        let is_flushed = self.sockets.iter().all(|socket| !socket.is_blocked());
        let is_empty = self.shared.lock().engine.session_ids().is_empty();
        (is_empty && is_flushed) || self.shared.clock.now() >= until
    }
}
