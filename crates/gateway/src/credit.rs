//! Receive windows of connections: how much a peer may send before it is read by the program here.
//!
//! All streams of a session share one window of the engine. A program that does not read must not use it up for all others, so
//! each connection has a window of its own: [`INITIAL_CREDIT`] at first, grown fourfold, later doubled, while the network and not the
//! program is the limit, halved while the program is. What connections have beyond the initial window is lent to them by the [`Pool`] of their session.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anabranch::base::SessionId;

use crate::wire::INITIAL_CREDIT;

/// Bytes beyond their initial windows that the connections of one session may be sent and not have read.
pub(crate) const POOL_BYTES: u64 = 24 << 20;
/// Time within which half of a window is read while the window is less than a round trip over long paths needs: it grows before the
/// sender has to wait.
const EARLY: Duration = Duration::from_millis(100);
/// Window up to which a connection's grows fourfold at a time.
const STEEP_BYTES: u64 = 1 << 20;
/// Largest window of a connection.
pub(crate) const WINDOW_BYTES_MAX: u64 = 16 << 20;

/// The bytes that the connections of a session have beyond their initial windows. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<AtomicU64>);

impl Pool {
    /// Lends bytes; false if there are not so many left.
    fn lend(&self, bytes: u64) -> bool {
        let lent = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |lent| {
                Some(lent + bytes).filter(|&lent| lent <= POOL_BYTES)
            });
        lent.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The pools of a host's sessions. Clones share them. Bounded by the sessions with connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools(Arc<Mutex<HashMap<SessionId, Pool>>>);

impl Pools {
    /// The pool of a session.
    pub(crate) fn of(&self, session: SessionId) -> Pool {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&session) {
            return pool.clone();
        }
        // Those that only the table holds belong to sessions without connections.
        pools.retain(|_, pool| Arc::strong_count(&pool.0) > 1);
        pools.entry(session).or_default().clone()
    }
}

/// The peer has sent more than its credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent more than it may")]
pub(crate) struct Overrun;

/// Window of one direction, at the side that receives.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    /// Bytes that the peer may have sent since the beginning.
    granted: u64,
    received: u64,
    read: u64,
    pool: Pool,
    /// Beginning of the time over which `held` and `since_bytes` were added up.
    since: Instant,
    /// Bytes that the program took in that time.
    since_bytes: u64,
    /// Time for which the program did not take what was there.
    held: Duration,
}

impl Window {
    pub(crate) fn new(pool: Pool, now: Instant) -> Self {
        Self {
            size: INITIAL_CREDIT,
            granted: INITIAL_CREDIT,
            received: 0,
            read: 0,
            pool,
            since: now,
            since_bytes: 0,
            held: Duration::ZERO,
        }
    }

    /// Notes bytes from the peer.
    pub(crate) fn receive(&mut self, bytes: usize) -> Result<(), Overrun> {
        self.received += bytes as u64;
        if self.received > self.granted {
            return Err(Overrun);
        }
        Ok(())
    }

    /// Notes bytes that the program took after `held`; `is_last` if the peer had no credit left behind them. Returns the new
    /// limit for the peer when it is worth a message.
    pub(crate) fn take(
        &mut self,
        bytes: usize,
        held: Duration,
        is_last: bool,
        now: Instant,
    ) -> Option<u64> {
        if self.read == 0 {
            // The time until the target answered is not the network's.
            self.since = now.checked_sub(held).unwrap_or(now);
        }
        self.read += bytes as u64;
        self.held += held;
        self.since_bytes += bytes as u64;
        let elapsed = now.saturating_duration_since(self.since);
        let is_fast = 2 * self.since_bytes >= self.size && elapsed <= EARLY;
        if is_last || is_fast && 2 * self.held <= elapsed {
            self.resize(now);
        }
        let limit = self.read + self.size;
        // After a reduction the limit may be below what was granted.
        if limit < self.granted + self.size / 2 {
            return None;
        }
        self.granted = limit;
        Some(limit)
    }

    /// Grows or halves the window, by what was the limit since the last time.
    fn resize(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.since);
        if 2 * self.held <= elapsed {
            // A window below the product of rate and delay costs a round trip at each size, so small ones grow faster.
            let factors = if self.size < STEEP_BYTES {
                [4, 2]
            } else {
                [2, 2]
            };
            for factor in factors {
                let more = (factor - 1) * self.size;
                if self.size + more <= WINDOW_BYTES_MAX && self.pool.lend(more) {
                    self.size += more;
                    break;
                }
            }
        } else if 4 * self.held > 3 * elapsed && self.size > INITIAL_CREDIT {
            self.size /= 2;
            self.pool.give_back(self.size);
        }
        self.since = now;
        self.since_bytes = 0;
        self.held = Duration::ZERO;
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.pool.give_back(self.size - INITIAL_CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECE: usize = 4096;

    /// Sends whole windows through, of which the program takes each piece after `held` of 20 ms that pass.
    fn rounds(window: &mut Window, count: usize, held_ms: u64, now: &mut Instant) {
        for _ in 0..count {
            let granted = window.granted;
            while window.received < granted {
                let bytes = PIECE.min((granted - window.received) as usize);
                window.receive(bytes).unwrap();
                *now += Duration::from_millis(20);
                let is_last = window.received == granted;
                window.take(bytes, Duration::from_millis(held_ms), is_last, *now);
            }
        }
    }

    #[test]
    fn a_window_grows_while_the_network_is_the_limit_and_shrinks_while_the_program_is() {
        let pool = Pool::default();
        let mut now = Instant::now();
        let mut window = Window::new(pool.clone(), now);
        rounds(&mut window, 3, 0, &mut now);
        assert_eq!(window.size, 32 * INITIAL_CREDIT);
        assert_eq!(pool.0.load(Ordering::Relaxed), 31 * INITIAL_CREDIT);
        // In between, it stays.
        rounds(&mut window, 4, 12, &mut now);
        assert_eq!(window.size, 32 * INITIAL_CREDIT);
        rounds(&mut window, 20, 20, &mut now);
        assert_eq!(window.size, INITIAL_CREDIT);
        assert_eq!(pool.0.load(Ordering::Relaxed), 0);
        rounds(&mut window, 40, 0, &mut now);
        assert_eq!(window.size, WINDOW_BYTES_MAX);
        drop(window);
        assert_eq!(pool.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_window_that_is_read_quickly_grows_before_the_sender_has_to_wait() {
        let mut now = Instant::now();
        let mut window = Window::new(Pool::default(), now);
        // The target takes its time to answer.
        now += Duration::from_secs(1);
        let send = |window: &mut Window, now: &mut Instant, rate_bps: u64, bytes: u64| {
            for _ in 0..bytes / PIECE as u64 {
                window.receive(PIECE).unwrap();
                *now += Duration::from_secs_f64(PIECE as f64 * 8.0 / rate_bps as f64);
                window.take(PIECE, Duration::ZERO, false, *now);
            }
        };
        // At 100 Mbit/s, up to what it needs for 200 ms.
        send(&mut window, &mut now, 100_000_000, 10 << 20);
        assert_eq!(window.size, 4 << 20);
        // A slow one needs no more.
        let mut window = Window::new(Pool::default(), now);
        send(&mut window, &mut now, 2_000_000, 10 << 20);
        assert_eq!(window.size, INITIAL_CREDIT);
    }

    #[test]
    fn connections_that_have_grown_leave_others_their_initial_window() {
        let pool = Pool::default();
        let mut now = Instant::now();
        let mut windows: Vec<Window> = (0..8).map(|_| Window::new(pool.clone(), now)).collect();
        for window in &mut windows {
            rounds(window, 12, 0, &mut now);
        }
        let sum: u64 = windows.iter().map(|window| window.size).sum();
        assert!(sum <= POOL_BYTES + 8 * INITIAL_CREDIT, "{sum}");
        assert!(windows.iter().all(|window| window.size >= INITIAL_CREDIT));
    }

    #[test]
    fn more_than_the_credit_is_refused() {
        let mut window = Window::new(Pool::default(), Instant::now());
        assert_eq!(window.receive(INITIAL_CREDIT as usize), Ok(()));
        assert_eq!(window.receive(1), Err(Overrun));
    }

    proptest! {
        /// A peer that keeps to its limit is never refused and never stuck.
        #[test]
        fn the_peer_can_always_go_on(steps in proptest::collection::vec((1usize..70_000, 0u64..20), 1..200)) {
            let pool = Pool::default();
            let mut now = Instant::now();
            let mut window = Window::new(pool.clone(), now);
            let mut limit = INITIAL_CREDIT;
            for (wanted, held) in steps {
                let bytes = wanted.min((limit - window.received) as usize);
                prop_assert!(bytes > 0, "no credit though all was read");
                let is_last = window.received + bytes as u64 == limit;
                prop_assert_eq!(window.receive(bytes), Ok(()));
                now += Duration::from_millis(10);
                if let Some(new) = window.take(bytes, Duration::from_millis(held), is_last, now) {
                    prop_assert!(new > limit);
                    limit = new;
                }
            }
            drop(window);
            prop_assert_eq!(pool.0.load(Ordering::Relaxed), 0);
        }
    }
}
