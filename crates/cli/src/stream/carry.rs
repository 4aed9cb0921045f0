//! Two directions between a stream and the standard streams of the command.

use std::io::{self, IsTerminal};
#[cfg(unix)]
use std::os::fd::{AsFd as Owned, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsHandle as Owned, OwnedHandle as OwnedFd};

use anabranch::{
    ClientError, Field, Outgoing, base::text::printable, local::client::Stream,
    net::session::SendError,
};
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncWrite},
};

use super::{
    failure,
    framing::{self, Framing, Reader},
    on_time::Tally,
};
use crate::exit::{Failure, Outcome};

/// Standard input.
pub(crate) fn input() -> Result<File, Failure> {
    let descriptor = cloned(&io::stdin()).map_err(reading)?;
    Ok(File::from_std(descriptor.into()))
}

/// Standard output.
pub(crate) fn output() -> Result<File, Failure> {
    let descriptor = cloned(&io::stdout()).map_err(writing)?;
    Ok(File::from_std(descriptor.into()))
}

/// The same file by a descriptor of its own.
fn cloned(file: &impl Owned) -> io::Result<OwnedFd> {
    #[cfg(unix)]
    return file.as_fd().try_clone_to_owned();
    #[cfg(windows)]
    return file.as_handle().try_clone_to_owned();
}

#[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
fn reading(error: io::Error) -> Failure {
    Failure::file(format!("cannot read standard input: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
pub(super) fn writing(error: io::Error) -> Failure {
    Failure::file(format!("cannot write to standard output: {error}"))
}

/// Sends the input, with these header fields on each ADU that does not have them itself, and waits until everything has
/// arrived. With a tally, ADUs that are too improbable to be in time are left out.
pub(super) async fn send(
    stream: &Stream,
    input: impl AsyncRead + Unpin,
    form: Framing,
    fields: &[(String, Field)],
    tally: Option<&Tally>,
) -> Outcome {
    let mut reader = Reader::new(input, form);
    loop {
        // A peer that wants no more is noticed even while there is no input.
        let adu = tokio::select! {
            adu = reader.next() => adu.map_err(reading)?,
            error = refused(stream) => return Err(error),
        };
        match adu {
            Some(mut adu) => {
                for (name, field) in fields {
                    if !adu.fields.iter().any(|(own, _)| own == name) {
                        adu.fields.push((name.clone(), field.clone()));
                    }
                }
                send_one(stream, adu, tally).await.map_err(failure)?;
            }
            None => break,
        }
    }
    stream.finish().map_err(failure)?;
    stream.delivered().await.map_err(failure)
}

async fn send_one(
    stream: &Stream,
    adu: Outgoing,
    tally: Option<&Tally>,
) -> Result<(), ClientError> {
    let Some(tally) = tally else {
        return stream.send(adu).await.map(drop);
    };
    let is_sent = match stream.send_if_on_time(adu, tally.least()).await {
        Ok(_) => true,
        Err(ClientError::Send(SendError::Unlikely { .. })) => false,
        Err(error) => return Err(error),
    };
    tally.count(is_sent);
    Ok(())
}

/// Waits until nothing can be sent any more.
async fn refused(stream: &Stream) -> Failure {
    loop {
        if let Err(error) = stream.next_event().await {
            return failure(error);
        }
    }
}

/// Writes what the peer sends, until it has finished.
pub(super) async fn receive(
    stream: &Stream,
    output: &mut (impl AsyncWrite + Unpin),
    form: Framing,
) -> Outcome {
    // A terminal would interpret what a peer may send.
    let is_shown = form == Framing::Lines && io::stdout().is_terminal();
    while let Some(adu) = stream.recv().await.map_err(failure)? {
        let mut data = adu.data;
        if is_shown {
            let text = String::from_utf8_lossy(&data);
            data = printable(&text, usize::MAX).into();
        }
        let written = framing::write(output, form, &data).await;
        written.map_err(writing)?;
    }
    Ok(())
}
