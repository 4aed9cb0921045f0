//! State of a processing node.

use anabranch::{AduSession, AduStream, StreamSpec};

use crate::{
    error::ProcessingError,
    wire::{Notice, Request, decode, encode, label::STATUS_LABEL},
};

/// Most rows of an answer that are read.
const ROWS_MAX: usize = 16_384;

/// Asks a processing node for its state: each source, followed by its derivations and its subscribers.
///
/// # Errors
/// The node refuses, or does not keep to the protocol; the session is over.
pub async fn ask<S: AduSession>(session: &S) -> Result<Vec<Notice>, ProcessingError> {
    let spec = StreamSpec {
        duplex: true,
        label: STATUS_LABEL.to_owned(),
        ..StreamSpec::default()
    };
    let failed = |error: S::Error| ProcessingError::of(&error, STATUS_LABEL.to_owned());
    let stream = session.open_stream(spec).await.map_err(failed)?;
    stream
        .send(encode(&Request::Status))
        .await
        .map_err(failed)?;
    let mut rows = Vec::new();
    while let Some(adu) = stream.recv().await.map_err(failed)? {
        rows.push(decode(&adu.data)?);
        if rows.len() > ROWS_MAX {
            return Err(ProcessingError::Protocol(format!(
                "more than {ROWS_MAX} rows"
            )));
        }
    }
    Ok(rows)
}
