//! Comparison of a directory with the set of a peer, by the hashes of blocks.

use std::{path::Path, sync::Arc};

use anabranch::{AduSession, AduStream, Order, Priority};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    Plan, Records,
    fetch::{parse, select},
    message, received,
};
use crate::{
    error::RecordsError,
    source::{Reading, Source},
    wire::{Block, Fault, Item, Kind, Label, Notice, Purpose, Request, Want, encode},
};

/// Blocks that wait to be compared.
const WAITING_MAX: usize = 64;

/// Part that is not as the peer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It is not here.
    Missing,
    /// It has another length.
    Length {
        /// Here.
        here: u64,
        /// At the peer.
        there: u64,
    },
    /// Some bytes are others.
    Bytes {
        /// First byte of the first block of 1 MiB that differs.
        offset: u64,
    },
    /// It is here, and the peer's record is without it.
    Surplus,
    /// The peer cannot read it.
    Fault(Fault),
}

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Names of the set's components.
    pub names: Vec<String>,
    /// Parts that were compared.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Parts that differ, by record and component.
    pub differences: Vec<(u64, u16, Difference)>,
}

impl<S: AduSession> Records<S> {
    /// Compares what a directory has with a set. No data is transferred, but 32 bytes for each MiB. `up` gets the number of each
    /// record that was compared.
    ///
    /// # Errors
    /// As [`Records::manifest`]; what the plan selects is not in the set.
    pub async fn verify(
        &self,
        set: &str,
        path: &Path,
        plan: &Plan,
        up: impl Fn(u64) + Send + 'static,
    ) -> Result<Verified, RecordsError> {
        let (manifest, text) = parse(self.manifest(set).await?).await?;
        let selection = select(&manifest, plan)?;
        let request = Request::Hashes {
            manifest: text.digest,
        };
        let label = Label::new(Purpose::Get, set);
        let stream = self
            .request(&label, Order::Ordered, Priority::BULK, &request)
            .await?;
        let of = |error: S::Error| RecordsError::of(&error);
        let here = Source::new(set.to_owned(), path, manifest, text);
        let (blocks, comparing) = compare(Arc::new(here), up);
        let wanting = async {
            let items = vec![Item::Records {
                from: selection.records.start,
                to: selection.records.end,
                components: selection.components.clone(),
                bytes: None,
            }];
            stream.send(encode(&Want { items })).await.map_err(of)?;
            stream.finish().map_err(of)
        };
        let receiving = async {
            let blocks = blocks;
            while let Some(adu) = received(&stream).await? {
                let Kind::Message(json) = Kind::of(&adu)? else {
                    return Err(RecordsError::Protocol("data among hashes".to_owned()));
                };
                let there = match message(&json)? {
                    Notice::Hashes { blocks } => blocks.into_iter().map(Ok).collect(),
                    Notice::Fault {
                        record,
                        component,
                        fault,
                        ..
                    } => vec![Err((record, component, fault))],
                    _ => continue,
                };
                for block in there {
                    let sent = blocks.send(block).await;
                    sent.map_err(|_| RecordsError::Internal)?;
                }
            }
            Ok(())
        };
        tokio::try_join!(wanting, receiving)?;
        comparing.await.map_err(|_| RecordsError::Internal)
    }
}

type There = Result<Block, (u64, u16, Fault)>;

/// Starts a task that compares blocks with those of a directory.
fn compare(
    here: Arc<Source>,
    up: impl Fn(u64) + Send + 'static,
) -> (mpsc::Sender<There>, tokio::task::JoinHandle<Verified>) {
    let (sender, mut blocks) = mpsc::channel::<There>(WAITING_MAX);
    let task = spawn_blocking(move || {
        let components = here.manifest().components.iter();
        let mut verified = Verified {
            names: components.map(|component| component.name.clone()).collect(),
            ..Verified::default()
        };
        while let Some(there) = blocks.blocking_recv() {
            match there {
                Err((record, component, fault)) => {
                    let difference = Difference::Fault(fault);
                    verified.differences.push((record, component, difference));
                }
                Ok(there) => {
                    let (record, component) = (there.record, there.component);
                    if there.offset == 0 {
                        verified.parts += 1;
                        verified.bytes += there.bytes.unwrap_or(0);
                        up(record);
                    }
                    let last = verified.differences.last();
                    let is_known =
                        last.is_some_and(|(of, at, _)| (*of, *at) == (record, component));
                    if !is_known && let Some(difference) = difference(&here, &there) {
                        verified.differences.push((record, component, difference));
                    }
                }
            }
        }
        verified
    });
    (sender, task)
}

/// Difference of the blocks of a part from those that are here.
fn difference(here: &Arc<Source>, there: &Block) -> Option<Difference> {
    let mut reading = Reading::new(here.clone());
    reading.want([Item::Records {
        from: there.record,
        to: there.record + 1,
        components: vec![there.component],
        bytes: None,
    }]);
    let own = match reading.hashes_from(there.offset, there.hashes.len()) {
        Some(Ok(own)) => own,
        _ => return Some(Difference::Missing),
    };
    match (own.bytes, there.bytes) {
        (None, None) => None,
        (Some(_), None) => Some(Difference::Surplus),
        (None, Some(_)) => Some(Difference::Missing),
        (Some(here), Some(there)) if here != there => Some(Difference::Length { here, there }),
        _ => {
            let mut both = own.hashes.iter().zip(&there.hashes);
            let first = both.position(|(own, there)| own != there)?;
            Some(Difference::Bytes {
                offset: there.offset + ((first as u64) << 20),
            })
        }
    }
}
