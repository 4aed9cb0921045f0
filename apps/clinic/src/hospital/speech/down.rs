//! Stream of what is said here: packets that a page gave, and nothing else.

use anabranch::{AduStream, Failure as _};
use tokio::sync::mpsc;

use crate::{
    error::ClinicError,
    hospital::case::{Case, next},
    wire::{Data, Request, WireError, decode},
};

/// Packets that wait for the stream.
const WAITING_MAX: usize = 32;

/// Sends what is said until the ambulance ends the stream.
pub(in crate::hospital) async fn serve<T: AduStream>(
    stream: &T,
    case: &Case,
) -> Result<(), ClinicError> {
    let (sender, mut packets) = mpsc::channel(WAITING_MAX);
    // Without this receiver, nobody listens any more.
    case.live().listens(case.number, sender);
    loop {
        tokio::select! {
            Some(packet) = packets.recv() => {
                match stream.try_send(Data::Speech(packet).to_adu()) {
                    Ok(_) => {}
                    // A packet that the buffer does not take is lost.
                    Err(error) if error.send_error().is_some() => {}
                    Err(error) => return Err(ClinicError::of(&error)),
                }
            }
            adu = next(stream) => match adu? {
                None => return Ok(()),
                Some(adu) => match decode(&adu.data)? {
                    Request::Listen => {}
                    _ => return Err(WireError("another message on the stream 'speech_down'".to_owned()).into()),
                },
            },
        }
    }
}
