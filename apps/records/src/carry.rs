//! Sending what is read: the next pack is read while one is sent, and no thread waits for a stream.

use std::sync::Arc;

use anabranch::AduStream;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    source::{Next, Reading},
    wire::{Notice, encode},
};

/// Sending has ended early.
#[derive(Debug)]
pub(crate) enum Ended<E> {
    /// The stream is over.
    Stream(E),
    /// The task that reads is.
    Reading,
}

/// Does what blocks, when one of the readers is free.
pub(crate) async fn blocking<T: Send + 'static>(
    readers: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    // The semaphore is not closed.
    let permit = readers.clone().acquire_owned().await;
    let done = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.ok()
}

/// Reads the next pack or fault.
pub(crate) async fn next(
    readers: &Arc<Semaphore>,
    mut reading: Reading,
) -> Option<(Reading, Option<Next>)> {
    let read = move || {
        let next = reading.next_out();
        (reading, next)
    };
    blocking(readers, read).await
}

/// Sends all that a reading has. `sent` gets the length of each pack.
pub(crate) async fn carry<T: AduStream>(
    stream: &T,
    readers: &Arc<Semaphore>,
    reading: Reading,
    sent: impl Fn(u64),
) -> Result<Reading, Ended<T::Error>> {
    let (mut reading, mut out) = next(readers, reading).await.ok_or(Ended::Reading)?;
    while let Some(ready) = out {
        let adu = match ready {
            Next::Pack(pack) => Some(pack),
            fault => fault_of(&fault).map(|notice| encode(&notice)),
        };
        let sending = async {
            if let Some(adu) = adu {
                let bytes = adu.len() as u64;
                stream.send(adu).await?;
                sent(bytes);
            }
            Ok(())
        };
        let (ended, read) = tokio::join!(sending, next(readers, reading));
        ended.map_err(Ended::Stream)?;
        (reading, out) = read.ok_or(Ended::Reading)?;
    }
    Ok(reading)
}

/// A fault as a message.
pub(crate) fn fault_of(next: &Next) -> Option<Notice> {
    match *next {
        Next::Pack(_) => None,
        Next::Fault {
            record,
            component,
            fault,
            version,
        } => Some(Notice::Fault {
            record,
            component,
            fault,
            version,
        }),
    }
}
