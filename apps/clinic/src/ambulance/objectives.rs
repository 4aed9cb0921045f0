//! Tallies of the objectives by which the ambulance's node sends, for the hospital's page.

use std::time::Duration;

use anabranch::{
    AduSession, Failure, ObjectiveId,
    objective::{Entry, Tally},
};
use tokio::time::{MissedTickBehavior, interval};

use super::{Desk, streams};
use crate::{
    error::ClinicError,
    wire::{OBJECTIVES_MAX, Objective, Request},
};

/// Time between two messages.
const PERIOD: Duration = Duration::from_secs(1);

/// Sends the tallies once a second, and that there are none once; returns when the session is over.
pub(super) async fn send<S: AduSession>(
    session: &S,
    case: &S::Stream,
    desk: &Desk,
) -> Result<(), ClinicError> {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut entries, mut is_empty_known) = (Vec::new(), false);
    loop {
        ticks.tick().await;
        let read = tallies(session, &mut entries).await;
        let objectives = match read {
            Ok(objectives) => objectives,
            Err(error) if error.is_session_over() => return Err(ClinicError::of(&error)),
            // A table is no reason to end a case.
            Err(error) => {
                tracing::debug!(%error, "the tallies of objectives cannot be read");
                continue;
            }
        };
        let is_empty = objectives.is_empty();
        if is_empty && is_empty_known {
            continue;
        }
        let at_us = desk.now_us();
        let message = Request::Objectives { at_us, objectives };
        streams::send::<S>(case, &message).await?;
        is_empty_known = is_empty;
    }
}

/// Tallies now; `entries`, the objectives in force, is read again when they have changed.
async fn tallies<S: AduSession>(
    session: &S,
    entries: &mut Vec<Entry>,
) -> Result<Vec<Objective>, S::Error> {
    let mut tallies = session.tallies().await?;
    tallies.truncate(OBJECTIVES_MAX);
    let is_known = |&(id, _): &(ObjectiveId, Tally)| entries.iter().any(|entry| entry.id == id);
    if !tallies.iter().all(is_known) {
        *entries = session.objectives().await?;
    }
    let named = |(id, tally): (ObjectiveId, Tally)| {
        let entry = entries.iter().find(|entry| entry.id == id);
        Objective {
            objective: id.0,
            name: entry.and_then(|entry| entry.name.clone()),
            contexts: tally.contexts,
            contexts_met: tally.contexts_met,
            utility: tally.utility,
            contexts_faulty: tally.contexts_faulty,
        }
    };
    Ok(tallies.into_iter().map(named).collect())
}
