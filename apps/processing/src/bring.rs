//! Modules that a subscriber brings to a processing node which may lack them.

use std::collections::BTreeMap;

use anabranch::{AduSession, AduStream};
use anabranch_process::{ModuleHash, Pipeline};
use bytes::Bytes;

use crate::{
    error::ProcessingError,
    link::{of_messages, unexpected},
    wire::{ModuleLabel, Notice, Request, decode, encode, module},
};

/// Brings the modules of a pipeline that the node lacks, of those that there are. Without the right to bring any, the node decides on the pipeline.
///
/// # Errors
/// The node refuses a module; the session is over.
pub(crate) async fn bring<S: AduSession>(
    session: &S,
    name: &str,
    pipeline: &Pipeline,
    modules: &BTreeMap<ModuleHash, Bytes>,
) -> Result<(), ProcessingError> {
    for hash in pipeline.modules() {
        let Some(bytes) = modules.get(&hash) else {
            continue;
        };
        match bring_one(session, name, &hash, bytes).await {
            // A service of an earlier release does not know the label.
            Ok(()) | Err(ProcessingError::NoRight { .. } | ProcessingError::Protocol(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn bring_one<S: AduSession>(
    session: &S,
    name: &str,
    hash: &ModuleHash,
    bytes: &Bytes,
) -> Result<(), ProcessingError> {
    let label = ModuleLabel::new(name, hash).to_string();
    let failed = |error: &S::Error| ProcessingError::of(error, label.clone());
    let stream = session.open_stream(of_messages(label.clone())).await;
    let stream = stream.map_err(|error| failed(&error))?;
    let first = Request::Module {
        hash: hash.to_string(),
        bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
    };
    let sent = stream.send(encode(&first)).await;
    sent.map_err(|error| failed(&error))?;
    loop {
        let answer = stream.recv().await.map_err(|error| failed(&error))?;
        let answer: Option<Notice> = match answer {
            Some(adu) => Some(decode(&adu.data)?),
            None => None,
        };
        match answer {
            Some(Notice::Module { is_held: true }) => break,
            Some(Notice::Module { is_held: false }) => {
                let sent = stream.send(module::to_adu(bytes)).await;
                sent.map_err(|error| failed(&error))?;
            }
            Some(Notice::Refused { may_retry, why, .. }) => {
                return Err(ProcessingError::refused(&why, may_retry));
            }
            other => return Err(unexpected(other.as_ref())),
        }
    }
    // An error means that the session is over, which is found out soon.
    let _ = stream.finish();
    Ok(())
}
