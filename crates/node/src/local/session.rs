//! Events of a session, to an application that asked for them.

use std::sync::Arc;

use anabranch_net::SessionEvents;

use super::{
    connection::Connection,
    link::Link,
    message::{CauseBody, EventBody},
};

impl Connection {
    /// Reports the events of a session from now on, until it is released or over.
    pub(super) fn watch(&self, session: u32) {
        let mut tables = self.tables();
        // It may have been released already.
        if let Ok(found) = tables.session(session) {
            let reporting = tokio::spawn(report(self.link.clone(), session, found.events()));
            tables.set_watch(session, reporting.abort_handle());
        }
    }
}

async fn report(link: Arc<Link>, session: u32, events: SessionEvents) {
    loop {
        link.capacity().await;
        match events.next().await {
            Ok(event) => {
                if let Some(body) = EventBody::of_session_event(event) {
                    link.session_event(session, body);
                }
            }
            Err(closed) => {
                let cause = CauseBody::of_session(&closed.0);
                link.session_event(session, EventBody::Closed { cause });
                return;
            }
        }
    }
}
