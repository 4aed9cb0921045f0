//! Round trips to a peer, one for each path.

use std::time::Duration;

use anabranch_base::{ChannelId, NodeId};
use anabranch_net::{Closed, Session};
use serde_json::{Value, json};

use super::{NAME_CHARS, ms, printable, rights::configured};
use crate::daemon::Core;

/// Time to wait for replies, unless the request names another.
const WITHIN: Duration = Duration::from_secs(2);
/// Longest time.
const WITHIN_MAX: Duration = Duration::from_secs(10);

/// Answers on all paths, or the end of the session.
type Answers = Result<Vec<(ChannelId, Option<Duration>)>, Closed>;

async fn in_one(node: &Core, id: NodeId, within: Duration) -> Result<(Session, Answers), String> {
    let session = node.session_with(id, Default::default()).await;
    let session = session.map_err(|error| error.to_string())?;
    let answers = session.ping(within).await;
    Ok((session, answers))
}

/// Pings a peer on every path, in a session that is opened if there is none.
pub(super) async fn all(
    node: Option<&Core>,
    peer: &str,
    within_ms: Option<u64>,
) -> Result<Vec<Value>, String> {
    let node = configured(node)?;
    let id = node.node_named(peer).map_err(|error| error.to_string())?;
    let within = within_ms.map_or(WITHIN, Duration::from_millis);
    let within = within.min(WITHIN_MAX);
    let (mut session, mut answers) = in_one(node, id, within).await?;
    if session.close_reason().is_some() {
        // It ended meanwhile, as that of a transfer does; the peer may be reached in another one.
        (session, answers) = in_one(node, id, within).await?;
    }
    let answers = answers.map_err(|error| error.to_string())?;
    let channels = session.channels();
    let row = |(channel, round_trip): &(_, Option<Duration>)| {
        let report = channels.iter().find(|report| report.channel == *channel)?;
        Some(json!({
            "kind": "ping",
            "peer": id.to_string(),
            "peer_name": printable(&node.name(&id), NAME_CHARS),
            "session": session.id().to_string(),
            "channel": channel.to_string(),
            "interface": report.interface.as_deref(),
            "remote": report.remote.to_string(),
            "state": report.state.to_string(),
            "round_trip_ms": round_trip.map(ms),
        }))
    };
    // A path that was closed meanwhile is none.
    Ok(answers.iter().filter_map(row).collect())
}
