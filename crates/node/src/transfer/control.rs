//! Messages on the control stream of a transfer, one by one.

use std::time::Duration;

use anabranch_net::{Session, Stream};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    error::TransferError,
    message::{self, MESSAGE_BYTES_MAX, Reply},
};
use crate::api::AduStream;

/// Sends one message.
pub(super) async fn send_message<S: AduStream>(
    stream: &S,
    message: &(impl Serialize + Sync),
) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    stream.send(message::encode(message)).await?;
    Ok(())
}

/// Waits for one message.
pub(super) async fn read_message<T: DeserializeOwned, S: AduStream>(
    stream: &S,
) -> Result<T, TransferError>
where
    TransferError: From<S::Error>,
{
    read_at_most(stream, MESSAGE_BYTES_MAX).await
}

/// Waits for one message of at most `bytes_max` bytes.
pub(super) async fn read_at_most<T: DeserializeOwned, S: AduStream>(
    stream: &S,
    bytes_max: usize,
) -> Result<T, TransferError>
where
    TransferError: From<S::Error>,
{
    let adu = stream.recv().await?;
    let adu = adu.ok_or(TransferError::Protocol("the control stream ended early"))?;
    message::decode(&adu.data, bytes_max).ok_or(TransferError::Protocol("not a message"))
}

/// Sends the final message; true if the sender has read it, as the end of its own stream confirms. A message not read when the
/// session ends is lost.
pub(super) async fn farewell(control: &Stream, last: &Reply, timeout: Duration) -> bool {
    let saying = async {
        send_message(control, last).await?;
        control.finish()?;
        while control.recv().await?.is_some() {}
        Ok::<_, TransferError>(())
    };
    matches!(tokio::time::timeout(timeout, saying).await, Ok(Ok(())))
}

/// The next stream of a transfer, which must have this label.
pub(super) async fn accept(session: &Session, label: &str) -> Result<Stream, TransferError> {
    let own = session.accept_stream_where(|spec| message::is_transfer(&spec.label));
    let stream = own.await?;
    if stream.spec().label != label {
        return Err(TransferError::Protocol("an unexpected stream"));
    }
    Ok(stream)
}
