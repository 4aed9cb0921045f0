//! Lanes on channels.

use std::{convert::Infallible, time::Duration};

use anabranch::{
    Client, ClientError, SessionEvent, StreamParameters,
    base::{ChannelId, NodeId},
    local::client::{Session, Stream},
};
use tokio::time::timeout;

use crate::wire::{Notice, encode};

/// Time in which the node names the channels that are up.
const EVENTS_TIME: Duration = Duration::from_millis(200);

/// Sends the numbers of the channels to a peer.
pub(super) async fn paths(
    client: &Client,
    peer: NodeId,
    stream: &Stream,
) -> Result<(), ClientError> {
    let session = client.connect(&peer.to_string()).await?;
    let mut channels = Vec::new();
    while let Ok(Ok(event)) = timeout(EVENTS_TIME, session.next_event()).await {
        match event {
            SessionEvent::ChannelUp { channel, .. } => channels.push(channel.0),
            SessionEvent::ChannelClosed { channel, .. }
            | SessionEvent::ChannelSuspected { channel } => {
                channels.retain(|other| *other != channel.0);
            }
            _ => {}
        }
    }
    channels.sort_unstable();
    channels.dedup();
    stream
        .send(encode(&Notice::Paths { channels }))
        .await
        .map(drop)
}

/// Pins a stream to a channel, and to none while that one does not respond or is closed; does not return.
pub(super) async fn hold(
    client: &Client,
    peer: NodeId,
    stream: &Stream,
    channel: u64,
) -> Infallible {
    if let Ok(session) = client.connect(&peer.to_string()).await {
        follow(&session, stream, ChannelId(channel)).await;
    }
    std::future::pending().await
}

async fn follow(session: &Session, stream: &Stream, own: ChannelId) {
    while let Ok(event) = session.next_event().await {
        let pinned = match event {
            SessionEvent::ChannelUp { channel, .. }
            | SessionEvent::ChannelRecovered { channel, .. }
                if channel == own =>
            {
                Some(own)
            }
            SessionEvent::ChannelSuspected { channel }
            | SessionEvent::ChannelClosed { channel, .. }
                if channel == own =>
            {
                None
            }
            _ => continue,
        };
        let parameters = StreamParameters {
            pinned: Some(pinned),
            ..StreamParameters::default()
        };
        if stream.adjust(parameters).await.is_err() {
            return;
        }
    }
}
