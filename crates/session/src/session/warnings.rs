//! Streams that are finished when their promise is warned ([`OnWarning::Close`]).

use anabranch_admission::{Notice, Refusal};
use anabranch_base::StreamId;
use anabranch_spec::OnWarning;

use super::Session;
use crate::event::{Event, PromiseEvent};

impl Session {
    /// Finishes the stream of a notice of danger, if it demands that; returns the event for the application. What was sent before is
    /// still delivered.
    pub(super) fn close_if_warned(&mut self, notice: &Notice) -> Option<Event> {
        let (Notice::Warned(stream, refusal) | Notice::Withdrawn(stream, refusal)) = notice else {
            return None;
        };
        self.close_for(*stream, refusal)
    }

    fn close_for(&mut self, stream: StreamId, refusal: &Refusal) -> Option<Event> {
        let send = self.streams.send.get_mut(&stream)?;
        let guarantee = send.spec.guarantee.as_deref()?;
        if guarantee.on_warning != OnWarning::Close || send.finish.is_asked {
            return None;
        }
        send.finish.is_asked = true;
        send.finish.warning = Some(Box::new(refusal.clone()));
        self.streams.active.insert(stream);
        self.pump.is_due = true;
        Some(Event::Promise {
            session: self.id,
            stream,
            event: PromiseEvent::Closed(refusal.clone()),
        })
    }
}
