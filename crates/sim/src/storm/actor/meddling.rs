//! Deliberate faults that an actor commits by itself.

use anabranch_base::Instant;

use super::Actor;
use crate::{app::Context, storm::tamper::Tamper};

/// Time at which they happen.
const AT: Instant = Instant::from_millis(1_500);

impl Actor {
    pub(super) fn meddle(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        let Some(session) = self.session.filter(|_| now >= AT && self.side == 0) else {
            return;
        };
        if self.tampering.once(Tamper::CloseSession)
            && let Ok(session) = context.engine().session(session)
        {
            session.close(now, 3, "a deliberate fault");
        }
        if self.tampering.once(Tamper::ConnectAgain) {
            context.connect(self.peer, self.links.clone());
        }
        if self.tampering.once(Tamper::Leak) {
            self.tampering.leak();
        }
    }
}
