//! Third-party copies: a client has this server send a set to another node.

use std::sync::Arc;

use anabranch::{
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    local::client::Stream,
    net::limited,
};
use tokio::time::{MissedTickBehavior, interval};

use super::{End, Inbox, Server, refused};
use crate::{
    client::{Put, Records},
    source::Source,
    wire::{Notice, encode},
};

/// Interval between two reports.
const REPORT_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

impl Server {
    /// Sends a set to a peer of this node, for as long as the client wants it.
    pub(super) async fn copy(
        &self,
        peer: NodeId,
        inbox: &mut Inbox<'_>,
        source: Arc<Source>,
        to: &str,
    ) -> Result<(), End> {
        let stream: &Stream = inbox.stream;
        let set = source.name().to_owned();
        let name = printable(to, REASON_CHARS);
        limited!(info, %peer, set, to = name, "a set is sent to a third node");
        let session = match self.client.connect(to).await {
            Ok(session) => session,
            Err(error) => {
                let why = format!("the peer cannot reach '{name}': {error}");
                return Ok(refused(stream, printable(&why, REASON_CHARS), false).await?);
            }
        };
        let put = Put::new(source, None);
        let paths = session.clone();
        let records = Records::new(session);
        let running = put.run(&records);
        tokio::pin!(running);
        let mut ticks = interval(REPORT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let sent = loop {
            tokio::select! {
                sent = &mut running => break sent,
                _ = ticks.tick() => {
                    let bytes = put.progress();
                    // Numbers only: the addresses of the other node are no business of the client.
                    let paths = paths.paths().await.unwrap_or_default();
                    let paths = paths.iter().map(|path| (path.channel, path.sent_bytes)).collect();
                    stream.send(encode(&Notice::Copying { bytes, paths })).await?;
                }
                // It says nothing more; an error, or its end, means that nobody waits for the copy.
                said = stream.recv() => if said?.is_none() {
                    return Err(End::Silent);
                },
            }
        };
        match sent {
            Ok(sent) => {
                for ((record, component), fault) in &sent.faults {
                    let notice = Notice::Fault {
                        record: *record,
                        component: *component,
                        fault: *fault,
                        version: None,
                    };
                    stream.send(encode(&notice)).await?;
                }
                let notice = Notice::Copied {
                    bytes: put.progress(),
                    is_complete: sent.is_complete,
                };
                stream.send(encode(&notice)).await?;
                Ok(())
            }
            Err(error) => {
                let why = format!("the copy to '{name}' failed: {error}");
                Ok(refused(stream, printable(&why, REASON_CHARS), false).await?)
            }
        }
    }
}
