//! Streams of a source or a subscriber to a service.

use anabranch::{AduSession, AduStream, Priority, StreamSpec};

use crate::{
    error::ProcessingError,
    wire::{CODE_UNUSED, Item, Label, Notice, Purpose, Request, decode, encode, message::Position},
};

/// Stream with messages, and the label of it.
pub(crate) struct Link<S: AduSession> {
    control: S::Stream,
    label: Label,
}

impl<S: AduSession> Link<S> {
    /// Opens it with the first message.
    pub(crate) async fn open(
        session: &S,
        purpose: Purpose,
        name: &str,
        first: &Request,
    ) -> Result<Self, ProcessingError> {
        let label = Label {
            purpose,
            name: name.to_owned(),
            number: 0,
        };
        let control = session.open_stream(of_messages(label.to_string())).await;
        let control = control.map_err(|error| failed::<S>(&error, &label))?;
        let link = Self { control, label };
        link.send(first).await?;
        Ok(link)
    }

    /// Opens the stream for ADUs with a number that was chosen, or that the service gave it.
    pub(crate) async fn adus(
        &self,
        session: &S,
        number: u64,
        spec: StreamSpec,
    ) -> Result<S::Stream, ProcessingError> {
        let label = Label {
            number,
            ..self.label.clone()
        };
        let label = label.to_string();
        let stream = session.open_stream(StreamSpec { label, ..spec }).await;
        let stream = stream.map_err(|error| self.failed(&error))?;
        // The peer sees a stream with its first ADU.
        let mark = Item::Mark(Position {
            next: 0,
            phases: None,
        });
        let sent = stream.send(mark.to_bytes()).await;
        sent.map_err(|error| self.failed(&error))?;
        Ok(stream)
    }

    /// Gives up a stream for ADUs that is not used.
    pub(crate) fn unused(stream: &S::Stream) {
        // An error means that it is over.
        let _ = (stream.reset(CODE_UNUSED), stream.stop(CODE_UNUSED));
    }

    pub(crate) fn failed(&self, error: &S::Error) -> ProcessingError {
        failed::<S>(error, &self.label)
    }

    pub(crate) async fn send(&self, request: &Request) -> Result<(), ProcessingError> {
        let sent = self.control.send(encode(request)).await;
        sent.map(drop).map_err(|error| self.failed(&error))
    }

    /// The next message; `None`: the service has finished. One that refuses the first message is an error.
    pub(crate) async fn next(&self) -> Result<Option<Notice>, ProcessingError> {
        let adu = self.control.recv().await;
        let Some(adu) = adu.map_err(|error| self.failed(&error))? else {
            return Ok(None);
        };
        match decode(&adu.data)? {
            Notice::Refused {
                number: None,
                may_retry,
                why,
            } => Err(ProcessingError::refused(&why, may_retry)),
            notice => Ok(Some(notice)),
        }
    }

    /// Nothing follows.
    pub(crate) async fn finish(&self) {
        // An error means that the session is over.
        let _ = (self.control.finish(), self.control.delivered().await);
    }
}

/// Specification of a stream with messages.
pub(crate) fn of_messages(label: String) -> StreamSpec {
    StreamSpec {
        priority: Priority::URGENT,
        duplex: true,
        label,
        ..StreamSpec::default()
    }
}

fn failed<S: AduSession>(error: &S::Error, label: &Label) -> ProcessingError {
    let text = label.to_string();
    let text = text.trim_end_matches(|last: char| last.is_ascii_digit());
    ProcessingError::of(error, format!("{text}*"))
}

pub(crate) fn unexpected(notice: Option<&Notice>) -> ProcessingError {
    match notice {
        None => ProcessingError::Over("the processing node ended a stream".to_owned()),
        Some(notice) => {
            let words = format!("{notice:?}");
            ProcessingError::Protocol(words.chars().take(100).collect())
        }
    }
}
