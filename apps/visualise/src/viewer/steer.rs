//! Commands of clients to the source, on a stream of their own.

use std::convert::Infallible;

use anabranch::{AduSession, AduStream, Priority, StreamSpec};
use tokio::sync::mpsc;

use super::{Report, Shared, Steered};
use crate::{
    error::VisualiseError,
    holds::Holds,
    imd::Command,
    wire::{Label, Notice, Purpose, Request, decode, encode},
};

/// Sends the commands of clients; does not return.
pub(super) async fn steer<S: AduSession>(
    session: &S,
    shared: &Shared,
    steered: &mut mpsc::Receiver<Steered>,
) -> Infallible {
    let mut holds = Holds::default();
    let mut open: Option<S::Stream> = None;
    loop {
        let notice = async {
            match &open {
                Some(stream) => stream.recv().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            next = steered.recv() => next,
            notice = notice => {
                let why = match notice {
                    Ok(Some(adu)) => match decode(&adu.data) {
                        Ok(Notice::Refused { why }) => why,
                        _ => continue,
                    },
                    Ok(None) => "the source takes no more commands".to_owned(),
                    Err(error) => of::<S>(&error, shared).to_string(),
                };
                shared.report(Report::Refused { why });
                if let Some(stream) = &open {
                    // An error means that it is over already, as is the pause of its commands.
                    let _ = stream.finish();
                }
                (open, holds) = (None, Holds::default());
                continue;
            }
        };
        // The sender is of the viewer, which is there for longer.
        let Some(Steered { client, command }) = next else {
            std::future::pending().await
        };
        let request = match command {
            Command::Pause if holds.hold(client) => Request::Pause,
            Command::Resume if holds.release(client) => Request::Resume,
            Command::Rate(steps) => Request::Rate { steps },
            Command::Kill => Request::Kill,
            _ => continue,
        };
        if let Err(error) = send(session, shared, &mut open, request).await {
            let why = error.to_string();
            shared.report(Report::Refused { why });
            (open, holds) = (None, Holds::default());
        }
    }
}

async fn send<S: AduSession>(
    session: &S,
    shared: &Shared,
    open: &mut Option<S::Stream>,
    request: Request,
) -> Result<(), VisualiseError> {
    let stream = match open {
        Some(stream) => stream,
        None => {
            let label = Label {
                purpose: Purpose::Steer,
                name: shared.settings.name.clone(),
            };
            let spec = StreamSpec {
                priority: Priority::URGENT,
                duplex: true,
                label: label.to_string(),
                ..StreamSpec::default()
            };
            let stream = session.open_stream(spec).await;
            open.insert(stream.map_err(|error| of::<S>(&error, shared))?)
        }
    };
    let sent = stream.send(encode(&request)).await;
    sent.map(drop).map_err(|error| of::<S>(&error, shared))
}

fn of<S: AduSession>(error: &S::Error, shared: &Shared) -> VisualiseError {
    shared.error(error, Purpose::Steer)
}
