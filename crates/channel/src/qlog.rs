//! Traces of channels in the qlog format: the host hands in writers, QUIC writes its events.
//!
//! A trace has the packets, losses, round trips, windows and timers of one channel, with the types and lengths of frames and nothing
//! of what they carry. Its second record is ours and names the path, in a namespace of its own:
//!
//! ```json
//! {"time":12.5,"name":"anabranch:path","data":{"path":"channel-3","socket":"socket-0","remote":"192.0.2.1:4433","dialled":true}}
//! ```
//!
//! Times are milliseconds since [`Instant::EPOCH`](anabranch_base::Instant::EPOCH), in all traces of an endpoint.

use std::{
    fmt,
    io::{self, Write},
    net::SocketAddr,
    sync::Arc,
};

use anabranch_base::{ChannelId, SocketId};
use noq_proto::{ConnectionId, QlogConfig, QlogFactory, Side, TransportConfig};

use crate::epoch::Epoch;

/// A channel that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The channel.
    pub channel: ChannelId,
    /// The socket that it uses.
    pub socket: SocketId,
    /// The peer's address.
    pub remote: SocketAddr,
    /// True if this node opens it.
    pub is_dialled: bool,
}

/// Writers of traces.
pub trait Traces: fmt::Debug + Send + Sync {
    /// A writer for the trace of a channel; `None`: it is not traced. It gets records of a JSON text sequence [RFC 7464], each of which
    /// ends with the only line feed in it, and should not fail: each failure becomes a line of the log.
    fn begin(&self, channel: &Traced) -> Option<Box<dyn Write + Send + Sync>>;
}

/// Traces a channel that begins with these settings of QUIC.
pub(crate) fn trace(
    transport: &mut TransportConfig,
    traces: Option<&Arc<dyn Traces>>,
    epoch: Epoch,
    channel: Traced,
) {
    if let Some(traces) = traces.cloned() {
        transport.qlog_factory(Arc::new(Factory {
            traces,
            epoch,
            channel,
        }));
    }
}

struct Factory {
    traces: Arc<dyn Traces>,
    epoch: Epoch,
    channel: Traced,
}

impl QlogFactory for Factory {
    fn for_connection(
        &self,
        _side: Side,
        _remote: SocketAddr,
        _id: ConnectionId,
        now: std::time::Instant,
    ) -> Option<QlogConfig> {
        let writer = self.traces.begin(&self.channel)?;
        let at = self.epoch.at(now);
        let named = Named {
            writer,
            name: Some(path_event(at.as_secs_f64() * 1e3, &self.channel)),
        };
        let mut config = QlogConfig::new(Box::new(named));
        config
            .title(Some(format!("anabranch {}", self.channel.channel)))
            .start_time(self.epoch.0);
        Some(config)
    }
}

/// The record that names the path.
fn path_event(time_ms: f64, channel: &Traced) -> String {
    let Traced {
        channel,
        socket,
        remote,
        is_dialled,
    } = channel;
    format!(
        "\u{1e}{{\"time\":{time_ms:.3},\"name\":\"anabranch:path\",\"data\":{{\"path\":\"{channel}\",\"socket\":\"{socket}\",\"remote\":\"{remote}\",\"dialled\":{is_dialled}}}}}\n"
    )
}

/// Writer of a trace that puts `name` behind the first record, the header.
struct Named {
    writer: Box<dyn Write + Send + Sync>,
    name: Option<String>,
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write_all(bytes)?;
        if bytes.ends_with(b"\n")
            && let Some(name) = self.name.take()
        {
            self.writer.write_all(name.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
