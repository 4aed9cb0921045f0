//! Stream of this program itself: a source that serves its subscribers where it is, without a processing node.

use std::{sync::Arc, time::Duration};

use anabranch::base::NodeId;
use anabranch_process::serve::End;
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    REQUEST_TIME, Report, Service,
    source::{Came, Source},
};
use crate::{error::ProcessingError, offer};

/// Longest time between two looks at what subscribers hold.
const LOOK: Duration = Duration::from_millis(100);

/// A stream that is served here until this is dropped.
struct Here<'a> {
    service: &'a Service,
    source: Arc<Source>,
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let source = &self.source;
        let is_complete = source.inner().offered.ended().is_some();
        source.end(End::for_now("the stream goes on at a processing node"));
        source.knows(None);
        source.leave(source.returns());
        self.service.report(Report::OfferOver {
            peer: source.peer,
            name: source.name.clone(),
            is_complete,
        });
    }
}

impl Service {
    /// Serves a source of this program, whose node is `own`, until everything was sent and is not needed any more. When a processing node takes
    /// the offer meanwhile ([`offer::Source::run`]), subscribers are sent there, and the source goes on there with the first ADU that one of them lacks.
    ///
    /// # Errors
    /// The stream cannot be offered here, or goes on at a processing node: [`ProcessingError::Moved`].
    pub async fn host(&self, own: NodeId, source: &offer::Source) -> Result<(), ProcessingError> {
        let mut taken = source.taken();
        let _turn = source.turn().await;
        let asked = source.request();
        let (name, readers) = (source.name().to_owned(), asked.readers);
        let entered = self.enter(own, &name, asked);
        let (offered, next) =
            entered.map_err(|refusal| ProcessingError::refused(&refusal.why, refusal.may_retry))?;
        let here = Here {
            service: self,
            source: offered,
        };
        here.source.knows(Some(readers));
        source.resume(next)?;
        if let Some(why) = source.hosted() {
            here.source.chosen(&why);
        }
        self.report(Report::Offered {
            peer: own,
            name,
            next,
        });
        tokio::select! {
            served = here.feed(source) => served,
            () = here.tell(source) => {
                // They are told of the end.
                let gone = here.source.until(|| here.source.inner().offered.subscribers() == 0);
                let _ = timeout(REQUEST_TIME, gone).await;
                Ok(())
            }
            // The sender is of the source.
            _ = taken.changed() => Err(ProcessingError::Moved),
        }
    }
}

impl Here<'_> {
    /// Derives from the ADUs of the source; returns on failure only.
    async fn feed(&self, source: &offer::Source) -> Result<(), ProcessingError> {
        let offered = &self.source;
        while let Some(adu) = source.next().await {
            offered.until(|| offered.inner().offered.has_room()).await;
            let came = Came {
                at: offered.now(),
                was_held_up: false,
            };
            let (sequence, pushing) = (adu.sequence, offered.clone());
            // Operators may take their time.
            let pushed = spawn_blocking(move || pushing.push(adu, came)).await;
            pushed
                .expect("panics of operators are contained")
                .map_err(|gap| ProcessingError::Protocol(gap.to_string()))?;
            source.sent(sequence + 1);
        }
        offered.end(End::lasting("the source has sent everything"));
        std::future::pending().await
    }

    /// Tells the source what is not needed any more and how many subscribers there are, until everything is held.
    async fn tell(&self, source: &offer::Source) {
        let mut changes = self.source.changes();
        loop {
            changes.mark_unchanged();
            let (acknowledged, subscribers, is_done) = {
                let offered = &self.source.inner().offered;
                let acknowledged = offered.acknowledged();
                let is_held = acknowledged.0 == offered.next();
                let is_done = is_held && offered.ended().is_some();
                (acknowledged, offered.subscribers(), is_done)
            };
            let (next, readers) = acknowledged;
            source.acknowledged(next, readers);
            source.counted(subscribers);
            source.derived(&self.service.derived(&self.source));
            self.source.knows(Some(readers));
            if is_done {
                return;
            }
            sleep(LOOK).await;
            // What a question to a node has kept is forgotten later.
            let _ = timeout(10 * LOOK, changes.changed()).await;
        }
    }
}
