//! The session with a peer that serves sets: of the running node, or of a node of this command's own.

use std::{future::Future, time::Duration};

use anabranch::{Session, local::client};
use anabranch_records::client::{Records, RecordsError};
use tokio::time::{Instant, sleep};

use crate::{
    attach,
    direct::{self, Direct},
    exit::{Failure, note},
};

/// Pause before another attempt.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// The node that has the session.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReachFlags {
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

/// Sets of a peer, over either kind of session.
pub(super) enum Reached {
    /// Of the running node.
    Attached(Records<client::Session>),
    /// Of this command.
    Own(Box<Direct>, Records<Session>),
}

impl Reached {
    /// `program`: the name of the command in the node's log.
    pub(super) async fn open(
        peer: &str,
        flags: &ReachFlags,
        program: &str,
    ) -> Result<Self, Failure> {
        let peer = peer.trim_end_matches(':');
        if direct::is_meant_by(peer) {
            let own = Direct::open(peer, &flags.direct).await?;
            let records = Records::new(own.session().clone());
            return Ok(Self::Own(Box::new(own), records));
        }
        let client = flags.place.attach(program).await.map_err(attach::failure)?;
        let session = client.connect(peer).await.map_err(attach::failure)?;
        Ok(Self::Attached(Records::new(session)))
    }

    pub(super) async fn close(self) {
        if let Self::Own(own, _) = self {
            own.close().await;
        }
    }
}

/// The same expression for either kind.
macro_rules! with {
    ($reached:expr, $records:ident => $result:expr) => {
        match $reached {
            Reached::Attached($records) => $result,
            Reached::Own(_, $records) => $result,
        }
    };
}

pub(super) use with;

/// Attempts at something for as long as it is interrupted, up to a time without success.
pub(super) struct Attempts {
    retry: Duration,
    until: Option<Instant>,
    pause: Duration,
}

impl Attempts {
    pub(super) fn new(retry: Duration) -> Self {
        Self {
            retry,
            until: None,
            pause: PAUSE,
        }
    }

    /// Something went well: the time begins anew.
    pub(super) fn went_well(&mut self) {
        (self.until, self.pause) = (None, PAUSE);
    }

    /// Waits before another attempt.
    ///
    /// # Errors
    /// The failure, if no time is left.
    pub(super) async fn again(&mut self, failure: Failure) -> Result<(), Failure> {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + self.retry);
        if now >= until {
            return Err(failure);
        }
        note(&format!(
            "interrupted: {}; trying again for {}",
            failure.message(),
            anabranch::base::duration::format(until - now)
        ));
        sleep(self.pause.min(until - now)).await;
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        Ok(())
    }
}

/// The outcome of a request, or that it was interrupted.
pub(super) async fn settled<T>(
    request: impl Future<Output = Result<T, RecordsError>>,
) -> Result<Result<T, Failure>, Failure> {
    match request.await {
        Ok(done) => Ok(Ok(done)),
        Err(error) if error.is_interruption() => Ok(Err(super::failure(error))),
        Err(error) => Err(super::failure(error)),
    }
}
