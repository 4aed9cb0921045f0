//! Sessions that a member has opened lately: they may be for the overlay, or for everything else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::SessionId;
use tokio::time::Instant;

/// Time after which a session is not for the overlay if its stream has not come: the member opens it at once.
const DECIDED_AFTER: Duration = Duration::from_secs(2);

/// Sessions by the time at which they are decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Undecided(Arc<Mutex<BTreeMap<SessionId, Instant>>>);

impl Undecided {
    /// A member has opened a session.
    pub(super) fn add(&self, session: SessionId, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, until| *until > now);
        all.insert(session, now + DECIDED_AFTER);
    }

    /// Time at which a session is decided, unless its stream comes before; `None`: it is.
    pub(super) fn until(&self, session: SessionId, now: Instant) -> Option<Instant> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&session).copied().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_undecided_for_a_while() {
        let (undecided, now) = (Undecided::default(), Instant::now());
        let session = SessionId(7);
        assert_eq!(undecided.until(session, now), None);
        undecided.add(session, now);
        let until = now + DECIDED_AFTER;
        assert_eq!(undecided.until(session, now), Some(until));
        assert_eq!(undecided.until(session, until), None);
        undecided.add(SessionId(8), until);
        assert_eq!(undecided.0.lock().unwrap().len(), 1, "others are forgotten");
    }
}
