//! The thread that carries packets and time between the sockets and the engine.
//!
//! It is a thread of its own, with a runtime of its own, because under load it sleeps outside the
//! reactor: the kernel wakes a reactor for every packet, whether or not anybody wants it now.

use std::{
    future::poll_fn,
    num::NonZeroUsize,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anabranch_base::{Instant, SocketId};
use anabranch_session::{Received, Transmit};

use crate::{
    inbox::Inbox,
    moderation::Moderation,
    socket::Socket,
    state::{Shared, State},
    timer::Timer,
};

/// Batches taken from the engine under one hold of the lock.
const BATCHES_PER_TURN: usize = 16;
/// Packets in one batch at most; with a full packet of 1472 bytes it stays below the 64 KiB that the
/// kernel takes at once.
const BATCH_PACKETS_MAX: usize = 40;
/// After this long a host that closes does not wait for its peers any more.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Shorter naps cost more than they save.
const NAP_MIN: Duration = Duration::from_micros(30);

/// Why the task woke up.
#[derive(Debug, Default)]
struct Cause {
    is_timeout: bool,
    has_work: bool,
}

#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    coalesce: Duration,
    sockets: Vec<Socket>,
    inbox: Inbox,
    timer: Timer,
    moderation: Moderation,
    /// When the engine wants to be called.
    timeout: Option<Instant>,
    /// Batch buffers that are free.
    buffers: Vec<Vec<u8>>,
    closing_until: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, coalesce: Duration) -> std::io::Result<Self> {
        let clock = shared.clock;
        Ok(Self {
            shared,
            coalesce,
            sockets: Vec::new(),
            inbox: Inbox::default(),
            timer: Timer::new(clock)?,
            moderation: Moderation::new(coalesce),
            timeout: None,
            buffers: Vec::new(),
            closing_until: None,
        })
    }

    /// Runs until the host is closed and its peers know, or cannot be told.
    pub(crate) async fn run(mut self) {
        let mut packets = Vec::new();
        loop {
            // Under a flood the task would never pause by itself.
            tokio::task::coop::consume_budget().await;
            let cause = poll_fn(|cx| self.poll_cause(cx)).await;
            self.receive(&mut packets);
            if packets.is_empty() && !cause.is_timeout && !cause.has_work {
                continue;
            }
            self.turn(&mut packets);
            if self.is_done() {
                break;
            }
            self.nap();
        }
        let mut state = self.shared.lock();
        state.is_over = true;
        state.ending.wake();
    }

    /// Lets packets gather while traffic is dense; a command from the application ends it.
    fn nap(&self) {
        let now = self.shared.clock.now();
        let soon = now + self.coalesce;
        // While data leaves at the pacer's pace, acknowledgements can wait for its next quantum.
        let quantum = self
            .timeout
            .filter(|&at| at < soon && self.moderation.is_moderate());
        let until = quantum.map_or(self.moderation.resume_at(), |at| {
            at.max(self.moderation.resume_at())
        });
        let length = until.since(now);
        if length < NAP_MIN {
            return;
        }
        {
            let mut state = self.shared.lock();
            if state.has_work {
                return;
            }
            state.napping = Some(std::thread::current());
        }
        std::thread::park_timeout(length);
        self.shared.lock().napping = None;
    }

    fn poll_cause(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        let mut cause = Cause {
            has_work: self.take_work(cx),
            is_timeout: false,
        };
        let now = self.shared.clock.now();
        let is_listening = self.moderation.may_receive(now);
        let mut is_readable = false;
        for socket in &mut self.sockets {
            if socket.is_blocked() {
                // When there is room again the rest follows by itself.
                let _ = socket.poll_flush(cx);
            }
            is_readable |= is_listening && socket.poll_receive_ready(cx).is_ready();
        }
        if cause.has_work || is_readable {
            return Poll::Ready(cause);
        }
        let resume = (!is_listening).then(|| self.moderation.resume_at());
        let wake = [self.timeout, resume, self.closing_until]
            .into_iter()
            .flatten()
            .min();
        if let Err(error) = self.timer.arm(wake) {
            tracing::error!(%error, "the timer cannot be armed");
        }
        if self.timer.poll(cx).is_ready() {
            let now = self.shared.clock.now();
            cause.is_timeout = self.timeout.is_some_and(|at| at <= now)
                || self.closing_until.is_some_and(|at| at <= now);
            return Poll::Ready(cause);
        }
        Poll::Pending
    }

    /// Whether something was asked of the engine; otherwise the task is woken when it is.
    fn take_work(&mut self, cx: &Context<'_>) -> bool {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        state.driver = Some(cx.waker().clone());
        for id in state.sockets_dead.drain(..) {
            self.sockets.retain(|socket| socket.id != id);
        }
        for socket in state.sockets_new.drain(..) {
            self.sockets.retain(|old| old.id != socket.id);
            self.sockets.push(socket);
        }
        std::mem::take(&mut state.has_work)
    }

    fn receive(&mut self, packets: &mut Vec<Received>) {
        if !self.moderation.may_receive(self.shared.clock.now()) {
            return;
        }
        for socket in &self.sockets {
            self.inbox.receive(socket, packets);
        }
        if !packets.is_empty() {
            self.moderation
                .received(self.shared.clock.now(), packets.len());
        }
    }

    /// One round: packets and time in, packets and events out.
    fn turn(&mut self, packets: &mut Vec<Received>) {
        let shared = self.shared.clone();
        let mut outgoing = Vec::with_capacity(BATCHES_PER_TURN);
        loop {
            let is_drained = {
                let mut state = shared.lock();
                let now = shared.clock.now();
                for packet in packets.drain(..) {
                    state.engine.handle_packet(now, packet);
                }
                if state.engine.poll_timeout().is_some_and(|at| at <= now) {
                    state.engine.handle_timeout(now);
                }
                let is_drained = self.drain_transmits(&mut state, now, &mut outgoing);
                state.dispatch_events(now);
                self.timeout = state.engine.poll_timeout();
                self.publish_stats(&mut state);
                self.begin_closing(&state, now);
                is_drained
            };
            for (transmit, batch) in outgoing.drain(..) {
                self.send(transmit, batch);
            }
            if is_drained {
                break;
            }
        }
    }

    /// False: there may be more.
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
            // The interface went while the packet was being made.
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
