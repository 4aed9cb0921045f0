//! A stream with commands to the simulation.

use std::sync::Arc;

use anabranch::{
    base::{NodeId, text::printable},
    local::client::Stream,
};

use super::{Report, Source, live::Live};
use crate::{
    imd::Command,
    streams::{End, request},
    wire::{Notice, Request, WireError, encode},
};

/// The pause of a stream, which ends with it.
struct Pause {
    number: u64,
    held: Option<Arc<Live>>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(live) = &self.held {
            live.release(self.number);
        }
    }
}

impl Source {
    /// Does what a peer with the right to steer asks for.
    pub(super) async fn steered(&self, peer: NodeId, stream: &Stream) -> Result<(), End> {
        let mut pause = Pause {
            number: self.number(),
            held: None,
        };
        while let Some(request) = request(stream).await? {
            match self.command(&mut pause, request)? {
                Ok(()) => {
                    let command = format!("{request:?}").to_lowercase();
                    self.report(Report::Steered {
                        peer,
                        command: printable(&command, 40),
                    });
                }
                Err(why) => {
                    let why = why.to_owned();
                    stream.send(encode(&Notice::Refused { why })).await?;
                }
            }
        }
        stream.finish()?;
        Ok(())
    }

    fn command(
        &self,
        pause: &mut Pause,
        request: Request,
    ) -> Result<Result<(), &'static str>, WireError> {
        let is_allowed = match request {
            Request::Kill => self.settings.may_kill,
            _ => self.settings.may_steer,
        };
        if !is_allowed {
            return Ok(Err(match request {
                Request::Kill => {
                    "the source does not let viewers end the simulation: start it with --allow-kill"
                }
                _ => {
                    "the source does not let viewers steer the simulation: start it with --allow-steer"
                }
            }));
        }
        let Some(live) = self.live.borrow().clone() else {
            return Ok(Err("there is no simulation at this time"));
        };
        let is_sent = match request {
            Request::Pause => {
                let held = pause.held.replace(live.clone());
                if let Some(other) = held.filter(|held| !Arc::ptr_eq(held, &live)) {
                    other.release(pause.number);
                }
                live.hold(pause.number)
            }
            Request::Resume => {
                pause.held = None;
                live.release(pause.number)
            }
            Request::Rate { steps } => live.command(Command::Rate(steps)),
            Request::Kill => live.command(Command::Kill),
            Request::Watch { .. } | Request::Go => {
                return Err(WireError(format!("{request:?} on a stream for commands")));
            }
        };
        Ok(is_sent
            .then_some(())
            .ok_or("the simulation does not read commands; try again later"))
    }
}
