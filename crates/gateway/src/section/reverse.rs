//! Reverse forwards of a node: each keeps its listener at the peer.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::setting::ForwardSetting;
use crate::{
    endpoint::Endpoint,
    error::Refusal,
    limits::SESSION_WAIT,
    notice::{Notice, Notices},
    reverse::{Expected, ask, end_of},
    service::Service,
    uplink::Uplink,
};

/// First pause before a listener is asked for again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A listener at a peer.
pub(super) struct Asking<U> {
    pub(super) setting: ForwardSetting,
    pub(super) target: watch::Receiver<Endpoint>,
    pub(super) uplink: U,
    pub(super) expected: Expected,
    pub(super) notices: Notices,
}

impl<U: Uplink> Asking<U> {
    /// Has the peer listen, again whenever it does not; does not return.
    pub(super) async fn keep(self) {
        let mut pause = PAUSE_MIN;
        let mut last = String::new();
        loop {
            let mut is_open = false;
            let refusal = self.once(&mut is_open).await;
            if is_open {
                pause = PAUSE_MIN;
                last.clear();
            }
            let cause = refusal.to_string();
            if cause != last {
                let at = self.setting.mapping.accept.clone();
                self.notices.show(&Notice::NotListening { at, refusal });
                last = cause;
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Has the peer listen until it ends. Returns the cause of the end.
    async fn once(&self, is_open: &mut bool) -> Refusal {
        let session = match self.uplink.session(Instant::now() + SESSION_WAIT).await {
            Ok(session) => session,
            Err(refusal) => return refusal,
        };
        let expectation = self.expected.add(session.id(), self.target.clone());
        let preset = || Service::of(&self.setting.mapping.to);
        let service = self.setting.service.clone().unwrap_or_else(preset);
        let number = expectation.listener;
        let asked = ask(
            &session,
            number,
            &self.setting.mapping,
            &service,
            &self.notices,
        );
        let control = match asked.await {
            Ok(control) => control,
            Err(refusal) => return refusal,
        };
        *is_open = true;
        // The session stays open for it.
        end_of(&control, &session).await
    }
}
