//! Stream on which a subscriber brings a WebAssembly module.

use std::time::Duration;

use anabranch::{base::NodeId, local::client::Stream};
use anabranch_process::{ModuleHash, Pipeline, modules::MODULE_BYTES_MAX};
use tokio::time::timeout;

use super::{Report, Service, Stopped, concluded, library::Uses, refusal::Refusal};
use crate::wire::{Notice, WireError, encode, module};

/// Time for a module to come.
const MODULE_TIME: Duration = Duration::from_secs(120);

impl Service {
    /// Takes a module, if it is not known yet.
    pub(super) async fn brought(
        &self,
        peer: NodeId,
        name: &str,
        stream: &Stream,
        (hash, bytes): (ModuleHash, usize),
    ) -> Result<(), Stopped> {
        match self.take_module(peer, hash, stream, bytes).await? {
            Ok(is_new) => {
                if is_new {
                    let name = name.to_owned();
                    self.report(Report::Module {
                        peer,
                        name,
                        hash,
                        bytes,
                    });
                }
                let held = Notice::Module { is_held: true };
                stream.send(encode(&held)).await?;
                concluded(stream).await
            }
            Err(refusal) => self.refused(peer, name, stream, refusal).await,
        }
    }

    /// True if the module is new here.
    async fn take_module(
        &self,
        peer: NodeId,
        hash: ModuleHash,
        stream: &Stream,
        bytes: usize,
    ) -> Result<Result<bool, Refusal>, Stopped> {
        if bytes > MODULE_BYTES_MAX {
            let why =
                format!("a module has at most {MODULE_BYTES_MAX} bytes; this one has {bytes}");
            return Ok(Err(Refusal::lasting(why)));
        }
        let account = match self.account(peer) {
            Ok(account) => account,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match self.library.has((peer, &account), hash) {
            Ok(false) => {}
            known => return Ok(known.map(|_| false)),
        }
        let wanted = Notice::Module { is_held: false };
        stream.send(encode(&wanted)).await?;
        let came = timeout(MODULE_TIME, stream.recv()).await;
        let adu = came.map_err(|_| Stopped::Silent)??.ok_or(Stopped::Silent)?;
        let module = module::read(adu.data)?;
        if module.len() != bytes {
            let words = format!("a module of {} bytes in place of {bytes}", module.len());
            return Err(WireError(words).into());
        }
        let added = self.library.add((peer, &account), hash, module).await;
        Ok(added.map(|()| true))
    }

    /// The modules of a subscriber's pipeline, in use from now on.
    ///
    /// # Errors
    /// One that it may not name, in words.
    pub(super) fn modules_of(
        &self,
        peer: NodeId,
        name: &str,
        pipeline: &Pipeline,
    ) -> Result<Uses, String> {
        self.library.used_by(peer, pipeline).map_err(|hash| {
            format!(
                "the module {hash} is not known here; bring it (process subscribe --module FILE), for which your node needs the right \
                 use-service here, services = [\"process/1/module/{name}/*\"]"
            )
        })
    }
}
