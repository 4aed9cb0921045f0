//! A copy of a set from the peer to a third node.

use std::collections::BTreeMap;

use anabranch::{AduSession, AduStream, Order, Priority};

use super::{Records, answered, received};
use crate::{
    error::RecordsError,
    wire::{Fault, Label, Notice, Purpose, Request, decode},
};

/// Result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of each component that were handed over.
    pub bytes: Vec<u64>,
    /// True if the other node has the whole set, durable.
    pub is_complete: bool,
    /// Parts that are missing there, with the reason.
    pub faults: BTreeMap<(u64, u16), Fault>,
}

impl<S: AduSession> Records<S> {
    /// Has the peer send a set to a third node, which it knows by the name or id `to`. `progress` gets the bytes of each component every
    /// second, and numbers of the peer's paths to the node with the bytes that their session carried on each. If the future is dropped, the peer ends the copy.
    ///
    /// # Errors
    /// The peer does not copy for this node, or cannot reach the other one, which may not take the set; the session is over.
    pub async fn copy(
        &self,
        set: &str,
        to: &str,
        mut progress: impl FnMut(&[u64], &[(u64, u64)]),
    ) -> Result<Copied, RecordsError> {
        let label = Label::new(Purpose::Copy, set);
        let request = Request::Copy { to: to.to_owned() };
        let stream = self
            .request(&label, Order::Ordered, Priority::NORMAL, &request)
            .await?;
        let mut copied = Copied::default();
        while let Some(adu) = received(&stream).await? {
            match answered(decode(&adu)?)? {
                Notice::Copying { bytes, paths } => progress(&bytes, &paths),
                Notice::Fault {
                    record,
                    component,
                    fault,
                    ..
                } => {
                    copied.faults.insert((record, component), fault);
                }
                Notice::Copied { bytes, is_complete } => {
                    (copied.bytes, copied.is_complete) = (bytes, is_complete);
                    // An error means that the peer has closed it already.
                    let _ = stream.finish();
                    return Ok(copied);
                }
                _ => {}
            }
        }
        Err(RecordsError::Over("the peer has ended the copy".to_owned()))
    }
}
