//! A stream with frames.

use std::sync::{Arc, atomic::Ordering};

use anabranch::{base::NodeId, local::client::Stream};
use tokio::sync::watch as state;

use super::{
    Report, Source,
    live::{Live, Watcher},
};
use crate::{
    imd::{Section, Sections},
    promise,
    streams::{End, first_request, request},
    wire::{Notice, Part, Request, WireError, encode},
};

/// A stream that waits for frames or gets them, as long as this is there.
struct Watching<'a>(&'a state::Sender<usize>);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Source {
    /// Serves a stream with frames.
    pub(super) async fn watched(&self, peer: NodeId, stream: &Stream) -> Result<(), End> {
        let sections = match first_request(stream).await? {
            Request::Watch { sections } => Sections::from_bits(sections)
                .filter(|sections| !sections.is_empty())
                .ok_or_else(|| WireError(format!("sections {sections:#x}")))?,
            other => return Err(WireError(format!("{other:?} on a stream for frames")).into()),
        };
        self.watching.send_modify(|count| *count += 1);
        let _watching = Watching(&self.watching);
        let Some(live) = self.session(stream).await? else {
            return Ok(());
        };
        let (watcher, begun) = live.join(sections);
        let sent = async {
            stream.send(encode(&Notice::Begun(begun))).await?;
            tokio::select! {
                sent = send(stream, &live, &watcher) => sent,
                left = requests(stream, &live, &watcher) => left,
                never = promise::keep(stream, self.settings.asking, || live.positions_bytes()),
                    if sections.has(Section::Positions) => match never {},
            }
        };
        let sent = sent.await;
        live.leave(&watcher);
        self.report(Report::Left {
            peer,
            sections: sections.to_string(),
            sent: watcher.sent.load(Ordering::Relaxed),
            skipped: watcher.skipped.load(Ordering::Relaxed),
        });
        sent
    }

    /// The session with the simulation, once there is one; `None`: the viewer has left.
    async fn session(&self, stream: &Stream) -> Result<Option<Arc<Live>>, End> {
        let mut changes = self.live.subscribe();
        if changes.borrow().is_none() {
            let why = format!("no simulation answers at {} yet", self.settings.address);
            stream.send(encode(&Notice::Waiting { why })).await?;
        }
        let leaving = async {
            match request::<Request>(stream).await? {
                None => Ok::<(), End>(()),
                Some(other) => Err(WireError(format!("{other:?} before the frames")).into()),
            }
        };
        tokio::select! {
            begun = changes.wait_for(Option::is_some) => Ok(begun.ok().and_then(|live| live.clone())),
            left = leaving => left.map(|()| None),
        }
    }
}

/// Sends frames until the session with the simulation is over.
async fn send(stream: &Stream, live: &Live, watcher: &Watcher) -> Result<(), End> {
    while let Some((number, frame)) = watcher.queue.take().await {
        for section in watcher.sections.iter() {
            let Some(body) = frame.get(section) else {
                continue;
            };
            for part in Part::of(section, number, body) {
                stream.send(part.to_adu()).await?;
            }
        }
        watcher.sent.fetch_add(1, Ordering::Relaxed);
    }
    let why = live.why();
    stream.send(encode(&Notice::Ended { why })).await?;
    stream.finish()?;
    // An error means that the session is over.
    let _ = stream.delivered().await;
    Ok(())
}

/// Takes the requests of a viewer until it leaves.
async fn requests(stream: &Stream, live: &Live, watcher: &Watcher) -> Result<(), End> {
    while let Some(request) = request(stream).await? {
        match request {
            Request::Go => live.go(watcher),
            other => return Err(WireError(format!("{other:?} on a stream for frames")).into()),
        }
    }
    Ok(())
}
