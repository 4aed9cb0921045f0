//! Lines of the log about sessions, their paths and transfers, with the names of the configuration.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anabranch_base::{ChannelId, NodeId, Rate, duration, text::printable};
use anabranch_net::{Session, SessionEvent, SessionEvents, limited};

use super::Core;
use crate::{
    texts,
    transfer::{Completed, Progress, TransferError},
};

/// Characters of a name, and of a short text, that are shown.
const NAME_CHARS: usize = 100;

impl Core {
    /// Logs the changes of a session's paths; does not return.
    pub(super) async fn note_paths(&self, events: &SessionEvents, peer: NodeId) {
        let peer = printable(&self.name(&peer), NAME_CHARS);
        let mut paths = BTreeMap::<ChannelId, String>::new();
        let name = |paths: &BTreeMap<ChannelId, String>, channel: ChannelId| {
            paths.get(&channel).cloned().unwrap_or_default()
        };
        while let Ok(event) = events.next().await {
            match event {
                SessionEvent::ChannelUp {
                    channel,
                    socket,
                    remote,
                } => {
                    let sockets = self.host.sockets();
                    let local = sockets.into_iter().find(|report| report.id == socket);
                    let interface = local.and_then(|report| report.interface);
                    let path = match interface {
                        Some(interface) => format!("{interface} → {remote}"),
                        None => remote.to_string(),
                    };
                    limited!(info, "path to {peer} is up: {path}");
                    paths.insert(channel, path);
                }
                SessionEvent::ChannelSuspected { channel } => {
                    let path = name(&paths, channel);
                    limited!(info, "path to {peer} does not respond: {path}");
                }
                SessionEvent::ChannelRecovered { channel, silence } => {
                    let (path, silence) = (name(&paths, channel), rounded(silence));
                    limited!(
                        info,
                        "path to {peer} responds again after {silence}: {path}"
                    );
                }
                SessionEvent::ChannelClosed { channel, reason } => {
                    if let Some(path) = paths.remove(&channel) {
                        limited!(info, "path to {peer} is down: {path}: {reason}");
                    }
                }
                _ => {}
            }
        }
        std::future::pending::<()>().await;
    }

    /// Logs that a session began.
    pub(super) fn note_connected(&self, session: &Session, how: &str) {
        let (id, peer) = (session.peer(), self.name(&session.peer()));
        let peer = printable(&peer, NAME_CHARS);
        limited!(info, node = %id, "connected with {peer}, {how}");
    }

    /// Logs that a session ended which began at `began`.
    pub(super) fn note_disconnected(&self, session: &Session, began: Instant) {
        let peer = printable(&self.name(&session.peer()), NAME_CHARS);
        let lasted = rounded(began.elapsed());
        match session.close_reason() {
            Some(reason) => limited!(info, "disconnected from {peer} after {lasted}: {reason}"),
            None => limited!(info, "disconnected from {peer} after {lasted}"),
        }
    }

    /// Logs the result of a transfer.
    pub(super) fn note_transfer(
        &self,
        peer: &NodeId,
        progress: &Progress,
        result: Result<Completed, TransferError>,
    ) {
        let name = progress.snapshot().name;
        let from = printable(&self.name(peer), NAME_CHARS);
        let shown = printable(&name, NAME_CHARS);
        match result {
            // The session ended before an offer.
            Err(TransferError::Interrupted(_)) if name.is_empty() => {}
            Ok(done) => {
                let took = progress.begun_at().unwrap_or_else(Instant::now).elapsed();
                let size = size(&done);
                let rate = Rate::from_bytes_per(done.bytes, took.max(Duration::from_millis(1)));
                let took = rounded(took);
                limited!(
                    info,
                    "received {shown} from {from}: {size} in {took}, {rate}"
                );
                if let Some(text) = done.path.as_deref().and_then(text_in) {
                    limited!(info, "text from {from}: {text}");
                }
            }
            Err(error) if name.is_empty() => {
                limited!(warn, "refused a transfer from {from}: {error}");
            }
            Err(error) => limited!(warn, "not received: {shown} from {from}: {error}"),
        }
    }
}

fn text_in(path: &Path) -> Option<String> {
    Some(printable(&texts::read(path)?, NAME_CHARS))
}

fn size(done: &Completed) -> String {
    match done.files {
        1 => format!("{} bytes", done.bytes),
        files => format!("{files} files, {} bytes", done.bytes),
    }
}

/// A duration without digits that nobody reads.
fn rounded(time: Duration) -> String {
    let step = match time.as_millis() {
        0..1000 => Duration::from_millis(1),
        _ => Duration::from_millis(100),
    };
    let steps = time.as_nanos() / step.as_nanos();
    duration::format(step * u32::try_from(steps).unwrap_or(u32::MAX))
}
