//! Promised streams in order of precedence, each up to what it was promised.

use anabranch_base::{Instant, StreamId};

use crate::view::{StreamView, View};
use anabranch_spec::Claim;

/// Windows of its claim that a stream may save up: what one window had not, the next may make up for.
const WINDOWS_SAVED: f64 = 2.0;

#[derive(Clone, Copy, Debug)]
struct Account {
    id: StreamId,
    /// Bytes that it may send with precedence.
    credit_bytes: f64,
    at: Instant,
}

/// Rest of the claims of promised streams: a token bucket each, filled at the claimed rate. What
/// a stream sends beyond it is elastic. One per session.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// By stream, ascending.
    accounts: Vec<Account>,
}

impl Claims {
    /// The stream of lowest rank that has something left of its claim and for which `accept` has an answer,
    /// with the answer. O(streams in the view · log of promised streams).
    pub(super) fn pick<T>(
        &mut self,
        view: &View<'_>,
        mut accept: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let mut best: Option<(usize, T, u32)> = None;
        for (index, stream) in view.streams.iter().enumerate() {
            let Some(claim) = stream.claim.filter(|_| stream.is_waiting()) else {
                continue;
            };
            let is_first = best.as_ref().is_none_or(|(.., rank)| claim.rank < *rank);
            if is_first
                && self.credit(view.now, stream.id, claim) > 0.0
                && let Some(answer) = accept(index)
            {
                best = Some((index, answer, claim.rank));
            }
        }
        best.map(|(index, answer, _)| (index, answer))
    }

    /// The stream has been given `bytes`. Whether they were within its claim, to the last packet.
    pub(super) fn charge(&mut self, now: Instant, stream: &StreamView, bytes: usize) -> bool {
        let Some(claim) = stream.claim else {
            return false;
        };
        if self.credit(now, stream.id, claim) <= 0.0 {
            return false;
        }
        let place = self.place(now, stream.id, claim);
        self.accounts[place].credit_bytes -= bytes as f64;
        true
    }

    /// The stream is closed.
    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Ok(place) = self.accounts.binary_search_by_key(&stream, |a| a.id) {
            self.accounts.remove(place);
        }
    }

    fn credit(&mut self, now: Instant, stream: StreamId, claim: Claim) -> f64 {
        let place = self.place(now, stream, claim);
        let account = &mut self.accounts[place];
        let earned = now.since(account.at).as_secs_f64() * claim.bytes_per_s;
        let most = WINDOWS_SAVED * window_bytes(claim);
        account.credit_bytes = (account.credit_bytes + earned).min(most);
        account.at = now;
        account.credit_bytes
    }

    fn place(&mut self, now: Instant, stream: StreamId, claim: Claim) -> usize {
        match self.accounts.binary_search_by_key(&stream, |a| a.id) {
            Ok(place) => place,
            Err(place) => {
                let account = Account {
                    id: stream,
                    credit_bytes: window_bytes(claim),
                    at: now,
                };
                self.accounts.insert(place, account);
                place
            }
        }
    }
}

fn window_bytes(claim: Claim) -> f64 {
    claim.bytes_per_s * claim.window.as_secs_f64()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pick::tests::stream;
    use anabranch_spec::Priority;

    pub(crate) fn promised(id: u64, rank: u32, mbps: f64) -> StreamView {
        StreamView {
            claim: Some(Claim {
                bytes_per_s: mbps * 1e6 / 8.0,
                window: Duration::from_secs(1),
                rank,
            }),
            ..stream(id, Priority::NORMAL, 100, 1 << 30)
        }
    }

    #[test]
    fn precedence_ends_with_the_claim() {
        // 0.8 Mbit/s: 100 packets of 1000 bytes a second.
        let streams = [
            stream(0, Priority::URGENT, 100, 1 << 30),
            promised(2, 1, 0.8),
            promised(4, 0, 0.8),
        ];
        let mut claims = Claims::default();
        let mut order = Vec::new();
        let mut serve = |now_ms: u64, order: &mut Vec<usize>| {
            let view = View {
                now: Instant::from_millis(now_ms),
                channels: &[],
                streams: &streams,
            };
            while let Some((index, ())) = claims.pick(&view, |_| Some(())) {
                assert!(claims.charge(view.now, &streams[index], 1000));
                order.push(index);
            }
        };
        serve(0, &mut order);
        assert_eq!(order, [[2; 100], [1; 100]].concat());
        order.clear();
        serve(500, &mut order);
        assert_eq!(order, [[2; 50], [1; 50]].concat());
        order.clear();
        // However long the silence, two windows at most.
        serve(60_000, &mut order);
        assert_eq!(order, [[2; 200], [1; 200]].concat());
        let now = Instant::from_millis(60_000);
        assert!(!claims.charge(now, &streams[1], 1000), "beyond the claim");
        assert!(!claims.charge(now, &streams[0], 1000), "elastic");
        claims.forget(StreamId(2));
        assert!(claims.charge(now, &streams[1], 1000), "as if it were new");
    }

    #[test]
    fn a_promised_stream_that_cannot_be_served_holds_up_nobody() {
        let streams = [promised(0, 0, 1.0), promised(2, 1, 1.0)];
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams: &streams,
        };
        let picked = Claims::default().pick(&view, |index| (index == 1).then_some(()));
        assert_eq!(picked, Some((1, ())));
    }
}
