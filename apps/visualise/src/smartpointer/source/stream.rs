//! Streams of viewers.

use std::sync::{Arc, atomic::Ordering};

use anabranch::{base::NodeId, local::client::Stream};
use tokio::sync::watch as state;

use super::{
    Report, Source,
    looker::{Looker, Outlet},
};
use crate::{
    promise,
    smartpointer::{
        frame::Part,
        wire::{Begun, Notice, Request, elements},
    },
    streams::{End, first_request, request},
    wire::{WireError, encode},
};

/// A viewer that is there until this is dropped.
struct Present<'a>(&'a Source, Arc<Looker>);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let Self(source, looker) = self;
        source.lookers().remove(&looker.number);
        looker.close(true);
        let (sent, skipped) = looker.counts();
        source.report(Report::Left {
            peer: looker.peer,
            sent,
            skipped,
        });
        source.present.send_modify(|count| *count -= 1);
    }
}

/// A stream with frames, as long as this is there.
struct Watching<'a>(&'a state::Sender<usize>);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Source {
    pub(super) async fn streamed(&self, peer: NodeId, stream: &Stream) -> Result<(), End> {
        match first_request(stream).await? {
            Request::Look => self.looked(peer, stream).await,
            Request::Watch { viewer, part } => self.watched(peer, stream, viewer, part).await,
            other => Err(unexpected(&other)),
        }
    }

    /// Serves the first stream of a viewer.
    async fn looked(&self, peer: NodeId, stream: &Stream) -> Result<(), End> {
        let looker = self.enter(peer).ok_or(End::Full)?;
        self.present.send_modify(|count| *count += 1);
        let _present = Present(self, looker.clone());
        self.report(Report::Looking { peer });
        let begun = Begun {
            viewer: looker.number,
            period_us: self.period().as_micros() as u64,
            atoms: self.topology.atoms(),
            bonds: self.topology.bonds.len() as u32,
        };
        stream.send(encode(&Notice::Begun(begun))).await?;
        stream.send(elements(&self.topology.elements)).await?;
        let mut ended = self.ended.subscribe();
        loop {
            let request = tokio::select! {
                request = request(stream) => request?,
                why = reason(&mut ended) => {
                    stream.send(encode(&Notice::Ended { why })).await?;
                    stream.finish()?;
                    // Its streams with frames still have some to send; an error means that the session is over.
                    while let Ok(Some(_)) = stream.recv().await {}
                    return Ok(());
                }
            };
            match request {
                None => return Ok(()),
                Some(Request::View { number, planes }) => {
                    let view = planes.planes().len();
                    looker.look(number, planes);
                    self.report(Report::View {
                        peer,
                        number,
                        planes: view,
                    });
                }
                Some(Request::Clock { at_us }) => {
                    let begin = *self.begin();
                    let own = begin.map(|begin| begin.elapsed().as_micros() as u64);
                    let own_us = own.unwrap_or_default();
                    stream
                        .send(encode(&Notice::Clock { at_us, own_us }))
                        .await?;
                }
                Some(other) => return Err(unexpected(&other)),
            }
        }
    }

    /// Serves a stream with frames.
    async fn watched(
        &self,
        peer: NodeId,
        stream: &Stream,
        viewer: u64,
        part: Part,
    ) -> Result<(), End> {
        let looker = self.lookers().get(&viewer).cloned();
        // Nobody has the view of another peer.
        let looker = looker.filter(|looker| looker.peer == peer);
        let outlet = looker.and_then(|looker| looker.open(part));
        let outlet =
            outlet.ok_or_else(|| WireError(format!("no viewer {viewer} for another {part}")))?;
        self.watching.send_modify(|count| *count += 1);
        let _watching = Watching(&self.watching);
        if self.ended.borrow().is_some() {
            outlet.queue.close();
        }
        let next = self.next.load(Ordering::Relaxed);
        stream.send(encode(&Notice::Watched { next })).await?;
        tokio::select! {
            sent = self.send(stream, &outlet) => sent,
            left = left(stream) => left,
            never = promise::keep_known(stream, self.settings.asking, outlet.rate.subscribe()),
                if part.is_promised() => match never {},
        }
    }

    /// Sends frames until the trajectory is over, or the viewer has left.
    async fn send(&self, stream: &Stream, outlet: &Outlet) -> Result<(), End> {
        while let Some(part) = outlet.queue.take().await {
            stream.send(part.to_adu()).await?;
            outlet.sent.fetch_add(1, Ordering::Relaxed);
        }
        let why = self.ended.borrow().clone().unwrap_or_default();
        stream.send(encode(&Notice::Ended { why })).await?;
        stream.finish()?;
        // An error means that the session is over.
        let _ = stream.delivered().await;
        Ok(())
    }
}

/// The reason for the end, once it is there.
async fn reason(ended: &mut state::Receiver<Option<String>>) -> String {
    let ended = ended.wait_for(Option::is_some).await;
    // The sender is of the source.
    ended.ok().and_then(|why| why.clone()).unwrap_or_default()
}

/// Waits until the viewer has left: it has nothing to say on a stream with frames.
async fn left(stream: &Stream) -> Result<(), End> {
    match request::<Request>(stream).await? {
        None => Ok(()),
        Some(other) => Err(unexpected(&other)),
    }
}

fn unexpected(request: &Request) -> End {
    let words = format!("{request:?}");
    WireError(words.chars().take(100).collect()).into()
}
