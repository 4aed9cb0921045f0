//! ADUs that the receiver of an unreliable ordered stream must not wait for any longer: their lifetime ends.

use std::time::Duration;

use anabranch_base::Instant;
use anabranch_spec::{Order, StreamSpec};

use super::SendStream;

/// Part of the lifetime that the word about an ADU has for its way: those that wait for it are not late themselves then.
const WAY: u32 = 8;

impl SendStream {
    /// True if the receiver waits for an ADU that does not come, for a limited time: the stream is unreliable and ordered.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.spec.reliable && self.spec.order == Order::Ordered
    }

    /// Time at which the next ADU that is on its way counts as late. O(ADUs in flight).
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        let way = lifetime(&self.spec)? / WAY;
        let mut sent = self.sent_from(self.expiry.stated);
        let (_, deadline) = sent.next()?;
        Some(Instant::EPOCH + deadline.since(Instant::EPOCH).saturating_sub(way))
    }

    /// ADUs that are on their way and late: each once. Their outcome stays open.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<u64> {
        let Some(lifetime) = lifetime(&self.spec) else {
            return Vec::new();
        };
        let late = |&(_, deadline): &(u64, Instant)| deadline <= now + lifetime / WAY;
        let overdue = self.sent_from(self.expiry.stated).take_while(late);
        let overdue: Vec<u64> = overdue.map(|(sequence, _)| sequence).collect();
        if let Some(last) = overdue.last() {
            self.expiry.stated = last + 1;
        }
        overdue
    }

    /// Deadlines of the ADUs that were sent completely and whose outcome is open, from `from` on.
    fn sent_from(&self, from: u64) -> impl Iterator<Item = (u64, Instant)> {
        let from = from.max(self.base);
        let adus = (from..self.cursor).zip(self.span(from, u64::MAX - 1));
        let open = adus.filter(|(_, adu)| !adu.done);
        open.filter_map(|(sequence, adu)| Some((sequence, adu.deadline?)))
    }
}

/// Lifetime of a stream whose receiver waits for whole ADUs.
fn lifetime(spec: &StreamSpec) -> Option<Duration> {
    let is_concerned = !spec.reliable && spec.order == Order::Ordered && !spec.partial;
    spec.lifetime.filter(|_| is_concerned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_base::StreamId;
    use bytes::Bytes;

    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    /// Three ADUs, one every 40 ms, of which the first two were sent at 80 ms.
    fn two_of_three(spec: StreamSpec) -> SendStream {
        let mut s = SendStream::new(StreamId(0), Arc::new(spec), 0);
        for number in 0..3 {
            s.push(ms(40 * number), Bytes::from_static(&[0; 100]), 0);
        }
        for _ in 0..2 {
            s.take_piece(ms(80), 0, |_| 100).expect("it waits");
        }
        s
    }

    fn live(order: Order, partial: bool) -> StreamSpec {
        StreamSpec {
            reliable: false,
            order,
            partial,
            lifetime: Some(Duration::from_millis(800)),
            ..StreamSpec::default()
        }
    }

    #[test]
    fn what_is_late_on_its_way_is_stated_once_an_eighth_of_the_lifetime_early() {
        let mut s = two_of_three(live(Order::Ordered, false));
        assert!(s.is_waited_for());
        assert_eq!(s.deadline(), Some(ms(700)));
        assert!(s.take_overdue(ms(699)).is_empty());
        assert_eq!(s.take_overdue(ms(700)), [0]);
        assert!(s.take_overdue(ms(700)).is_empty());
        assert_eq!(s.deadline(), Some(ms(740)), "of the second");
        // The third was not sent: it expires at its own time.
        assert_eq!(s.take_overdue(ms(2_000)), [1]);
        assert_eq!(s.deadline(), Some(ms(880)));
        let mut settled = Vec::new();
        s.expire(ms(880), &mut settled);
        assert_eq!((settled.len(), s.deadline()), (1, None));
        assert!(!s.is_settled(), "the network decides about the others");
    }

    #[test]
    fn nothing_is_stated_where_nothing_waits() {
        let reliable = StreamSpec {
            reliable: true,
            ..live(Order::Ordered, false)
        };
        for spec in [
            live(Order::Unordered, false),
            live(Order::Ordered, true),
            reliable,
        ] {
            let mut s = match spec.reliable {
                false => two_of_three(spec),
                true => SendStream::new(StreamId(0), Arc::new(spec), 10_000),
            };
            assert!(s.take_overdue(ms(5_000)).is_empty());
            assert_eq!(s.overdue_at(), None);
        }
    }
}
