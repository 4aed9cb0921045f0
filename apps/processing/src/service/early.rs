//! Subscribers that come before the source: one may find out sooner than the other that a processing node is gone.

use std::time::Duration;

use tokio::time::timeout;

use super::Service;
use crate::wire::message::{Subscribe, WAIT_MS_MAX};

impl Service {
    /// Waits until a stream is offered, for as long as its subscriber wants.
    pub(super) async fn awaited(&self, name: &str, asked: &Subscribe) {
        let mut offers = self.offers.subscribe();
        let wait = Duration::from_millis(asked.wait_ms.min(WAIT_MS_MAX).into());
        let waiting = async {
            while !self.has(name, asked.position.is_some()) {
                // The sender is of this service.
                let _ = offers.changed().await;
            }
        };
        let _ = timeout(wait, waiting).await;
    }

    /// True if a subscriber need not wait for the stream; one that returns may need the last ADUs of a stream that has ended.
    fn has(&self, name: &str, is_return: bool) -> bool {
        let source = self.source(name);
        match source.map(|source| source.inner().offered.ended().cloned()) {
            None => false,
            Some(None) => true,
            // A source that went on elsewhere may be about to come back.
            Some(Some(end)) => is_return && !end.may_return,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::SecretKey;
    use anabranch_process::serve::End;
    use tokio::{
        sync::mpsc,
        time::{Instant, sleep},
    };

    use super::*;
    use crate::{
        service::Settings,
        wire::message::{Offer, Pace, Position},
    };

    const OFFERED_AFTER: Duration = Duration::from_millis(100);

    /// Time for which a subscriber waits whose source comes after 100 ms, if it has not ended before.
    async fn waited(ended: Option<End>, wait_ms: u32, is_return: bool) -> Duration {
        let peer = SecretKey::from_seed([1; 32]).node_id();
        let service = Service::new(Settings::default(), mpsc::channel(1).0);
        let enter = |run| {
            let offer = Offer {
                run,
                subscribers: vec!["*".to_owned()],
                is_reliable: true,
                pace: Pace::Slowest,
                first: 0,
                readers: 0,
                confirms: true,
                opens: None,
            };
            service.enter(peer, "x", offer).unwrap().0
        };
        let is_there = ended.is_some();
        if let Some(end) = ended {
            enter(1).end(end);
        }
        let asked = Subscribe {
            run: 3,
            source: None,
            pipeline: String::new(),
            is_reliable: true,
            change: 0,
            of: None,
            position: is_return.then_some(Position {
                next: 0,
                phases: None,
            }),
            demand: None,
            wait_ms,
            opens: None,
        };
        let begun = Instant::now();
        let offering = async {
            sleep(OFFERED_AFTER).await;
            enter(if is_there { 2 } else { 1 });
        };
        let waiting = async {
            service.awaited("x", &asked).await;
            begun.elapsed()
        };
        tokio::join!(offering, waiting).1
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_waits_until_the_source_comes_but_no_longer_than_it_wants() {
        let ms = |wait: Duration| wait.as_millis() as u64;
        assert_eq!(ms(waited(None, 250, false).await), 100);
        assert_eq!(ms(waited(None, 60, true).await), 60);
        assert_eq!(ms(waited(None, 0, true).await), 0);
        let gone = || Some(End::for_now("it goes on elsewhere"));
        assert_eq!(ms(waited(gone(), 250, true).await), 100);
        let over = || Some(End::lasting("everything was sent"));
        assert_eq!(ms(waited(over(), 250, false).await), 100);
        assert_eq!(ms(waited(over(), 250, true).await), 0);
    }
}
