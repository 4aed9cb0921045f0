//! Receiver's answer to an offer, as the sender reads it: what it has, and of an update what else there is.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    control::{read_message, send_message},
    error::TransferError,
    manifest::{ENTRIES_MAX, Manifest, PATHS_BYTES_MAX},
    message::{NUMBERS_PER_MESSAGE, Reply, Request},
    progress::Progress,
    reading::{Known, Origins},
    update::{Extra, Plan, Present, Update, compare},
};
use crate::api::AduStream;

/// Reports of the receiver that wait to be compared.
const REPORTS: usize = 64;

/// Answer to an offer.
pub(super) struct Answers {
    /// The part of each entry that the receiver has.
    pub(super) known: Vec<Option<Known>>,
    pub(super) origins: Origins,
    pub(super) present: Present,
    pub(super) extras: Vec<Extra>,
}

/// Reads the answer to the end. Of an update, files are compared while the receiver reads its own.
///
/// # Errors
/// The receiver refuses or fails; a file cannot be read.
pub(super) async fn answers<S: AduStream>(
    control: &S,
    manifest: &Arc<Manifest>,
    origins: Origins,
    update: Option<Update>,
    progress: &Progress,
) -> Result<Answers, TransferError>
where
    TransferError: From<S::Error>,
{
    let mut read = Reading::default();
    let origins = match (update, origins) {
        (Some(_), Origins::Paths(origins)) => {
            let (reports, queue) = mpsc::channel(REPORTS);
            let (manifest, progress) = (manifest.clone(), progress.clone());
            let comparing = tokio::task::spawn_blocking(move || {
                let known = compare(&manifest, &origins, queue, &progress);
                known.map(|known| (known, Origins::Paths(origins)))
            });
            let heard = read.all(control, Some(reports)).await;
            // A failure to read explains reports that nobody took.
            let compared = comparing.await.expect("comparing files does not panic")?;
            heard?;
            read.known = compared.0;
            compared.1
        }
        (_, origins) => {
            read.known = vec![None; manifest.entries.len()];
            read.all(control, None).await?;
            origins
        }
    };
    Ok(Answers {
        known: read.known,
        origins,
        present: read.present,
        extras: read.extras,
    })
}

/// An answer so far.
#[derive(Default)]
struct Reading {
    known: Vec<Option<Known>>,
    present: Present,
    extras: Vec<Extra>,
    /// Bytes of the paths in `extras`.
    paths_bytes: usize,
}

impl Reading {
    /// Reads up to the end; passes what the receiver has to `reports`, if there is one.
    async fn all<S: AduStream>(
        &mut self,
        control: &S,
        reports: Option<mpsc::Sender<(u32, Known)>>,
    ) -> Result<(), TransferError>
    where
        TransferError: From<S::Error>,
    {
        loop {
            match read_message(control).await? {
                Reply::Have {
                    index,
                    bytes,
                    hash,
                    waits,
                } => {
                    let hash = blake3::Hash::from_hex(hash);
                    let hash = hash.map_err(|_| TransferError::Protocol("not a hash"))?;
                    let known = Known {
                        bytes,
                        hash,
                        is_same: false,
                        waits,
                    };
                    match &reports {
                        None => self.add(index, known)?,
                        // A comparison that failed ends the transfer with its own error.
                        Some(reports) if reports.send((index, known)).await.is_err() => {
                            return Ok(());
                        }
                        Some(_) => {}
                    }
                }
                Reply::Present {
                    entries,
                    links_same,
                    links_other,
                } => {
                    self.present.entries.extend(entries);
                    self.present.links_same.extend(links_same);
                    self.present.links_other.extend(links_other);
                }
                Reply::Extra { list } => {
                    self.paths_bytes += list.iter().map(|extra| extra.path.len()).sum::<usize>();
                    self.extras.extend(list);
                }
                Reply::Go => return Ok(()),
                Reply::Refused { reason } => return Err(TransferError::Refused(reason)),
                Reply::Failed { reason } => return Err(TransferError::Failed(reason)),
                _ => {
                    return Err(TransferError::Protocol("neither acceptance nor refusal"));
                }
            }
            let listed = self.extras.len() + self.present.count();
            if listed as u64 > 2 * ENTRIES_MAX || self.paths_bytes > PATHS_BYTES_MAX {
                return Err(TransferError::Protocol(
                    "a list of what there is without end",
                ));
            }
        }
    }

    fn add(&mut self, index: u32, known: Known) -> Result<(), TransferError> {
        let entry = self.known.get_mut(index as usize);
        let entry = entry.ok_or(TransferError::Protocol("an unknown entry"))?;
        match entry.replace(known) {
            None => Ok(()),
            Some(_) => Err(TransferError::Protocol("an entry reported twice")),
        }
    }
}

/// Orders an update.
///
/// # Errors
/// The session is over.
pub(super) async fn proceed<S: AduStream>(control: &S, plan: &Plan) -> Result<(), TransferError>
where
    TransferError: From<S::Error>,
{
    for list in plan.delete.chunks(NUMBERS_PER_MESSAGE) {
        let list = list.to_vec();
        send_message(control, &Request::Delete { list }).await?;
    }
    send_message(control, &Request::Proceed).await
}
