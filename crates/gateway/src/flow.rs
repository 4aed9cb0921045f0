//! Flows: the datagrams between one client and one target, on an unreliable stream of their own.
//!
//! A datagram is one ADU; what is lost, or outlives the lifetime of the stream, is not repeated, as with UDP. The request may be lost,
//! too: it travels with each datagram until the peer has answered.

use std::{io, sync::Arc, time::Duration};

use anabranch::{Stream, StreamFailure, StreamParameters};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    net::UdpSocket,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    error::Refusal,
    register::Registered,
    wire::{Action, DATA, Message},
};

/// Largest datagram, in bytes, and one more, by which a longer one would show.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_536;
/// Time that the refusal of a flow may take to arrive.
const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// Hands a datagram of the target to its client; one that cannot be handed over now is dropped.
pub(crate) type Reply = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A datagram as a message.
pub(crate) fn framed(datagram: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(1 + datagram.len());
    message.put_u8(DATA);
    message.put_slice(datagram);
    message.freeze()
}

/// Sends a message, or drops it if the stream's buffer is full. A stream that is over is the error.
fn offer(stream: &Stream, message: Bytes) -> Result<(), StreamFailure> {
    match stream.try_send(message) {
        Ok(_) | Err(StreamFailure::Send(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Carries a flow from the side of its client, until it was not used for `idle` or the table has dropped it. `datagrams` are framed.
///
/// # Errors
/// The peer refused it.
pub(crate) async fn ask(
    stream: &Stream,
    action: &Action,
    mut datagrams: mpsc::Receiver<Bytes>,
    reply: &Reply,
    flow: &Registered,
    idle: Duration,
) -> Result<(), Refusal> {
    let failed =
        |failure: StreamFailure| Refusal::new(crate::Code::Unreachable, failure.to_string());
    let mut is_answered = false;
    let mut idle_at = Instant::now() + idle;
    loop {
        let adu = tokio::select! {
            datagram = datagrams.recv() => {
                let Some(datagram) = datagram else { return Ok(()) };
                idle_at = Instant::now() + idle;
                // What exceeds the rate of its rule is dropped, as by a slow network.
                if !flow.is_ready() {
                    continue;
                }
                flow.sent(datagram.len() - 1);
                let message = match is_answered {
                    true => datagram,
                    false => Message::Request {
                        action: action.clone(),
                        datagram: Some(datagram.slice(1..)),
                    }
                    .encode(),
                };
                offer(stream, message).map_err(failed)?;
                continue;
            }
            adu = stream.recv() => adu,
            () = sleep_until(idle_at) => return Ok(()),
        };
        // The peer has ended the flow; the next datagram begins another one.
        let Ok(Some(adu)) = adu else { return Ok(()) };
        match Message::decode(adu.data) {
            Ok(Message::Answer(Ok(_))) => is_answered = true,
            Ok(Message::Answer(Err(refusal))) => return Err(refusal),
            Ok(Message::Data { bytes, .. }) => {
                // It may have overtaken the answer.
                is_answered = true;
                flow.received(bytes.len());
                reply(&bytes);
                idle_at = Instant::now() + idle;
            }
            _ => return Ok(()),
        }
    }
}

/// Reads a datagram as a message; `None`: there is none now. The buffer is on the stack: an idle flow holds none.
fn read(socket: &UdpSocket) -> io::Result<Option<Bytes>> {
    let mut buffer = [0; DATAGRAM_BYTES_MAX];
    match socket.try_recv(&mut buffer) {
        Ok(count) => Ok(Some(framed(&buffer[..count]))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Carries a flow from the side of its target, until the other side ends it or nothing moved for `idle`.
pub(crate) async fn serve(
    stream: &Stream,
    socket: &UdpSocket,
    first: Option<Bytes>,
    flow: &Registered,
    idle: Duration,
) {
    let spec = stream.spec();
    // The drop order is this side's own: datagrams beyond the share are dropped, oldest first.
    let own = StreamParameters {
        drop: Some(Some(anabranch::DropOrder::Oldest)),
        ..StreamParameters::default()
    };
    if !spec.reliable && stream.adjust(own).is_err() {
        return;
    }
    let answer = Message::Answer(Ok(String::new())).encode();
    if offer(stream, answer.clone()).is_err() {
        return;
    }
    // An error is that of an earlier datagram. (`try_send` would lose the first one: the runtime does not know yet that a new socket
    // can be written to.)
    let hand_over = async |datagram: Bytes| {
        flow.received(datagram.len());
        drop(socket.send(&datagram).await);
    };
    if let Some(datagram) = first {
        hand_over(datagram).await;
    }
    let mut idle_at = Instant::now() + idle;
    loop {
        tokio::select! {
            adu = stream.recv() => {
                let Ok(Some(adu)) = adu else { return };
                match Message::decode(adu.data) {
                    Ok(Message::Data { bytes, .. }) => hand_over(bytes).await,
                    // The answer has not arrived yet.
                    Ok(Message::Request { datagram: Some(datagram), .. }) => {
                        if offer(stream, answer.clone()).is_err() {
                            return;
                        }
                        hand_over(datagram).await;
                    }
                    _ => return,
                }
            }
            ready = socket.readable() => {
                if ready.is_err() {
                    return;
                }
                // An error is that of an earlier datagram, such as a port that nobody listens at.
                if let Ok(Some(message)) = read(socket) {
                    flow.sent(message.len() - 1);
                    if offer(stream, message).is_err() {
                        return;
                    }
                }
            }
            () = sleep_until(idle_at) => return,
        }
        idle_at = Instant::now() + idle;
    }
}

/// Refuses a request: sends the answer, and gives it time to arrive.
pub(crate) async fn refuse(stream: &Stream, refusal: Refusal) {
    let sent = stream.send(Message::Answer(Err(refusal)).encode()).await;
    if sent.is_ok() && stream.finish().is_ok() {
        // In any case the stream ends now.
        let _ = timeout(REFUSAL_TIME, stream.delivered()).await;
    }
}
