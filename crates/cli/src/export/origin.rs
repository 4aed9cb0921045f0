//! The session over which a peer's exports are read: of the running node, or of a node of this command's own.

use anabranch::{Priority, Stream, exports::Exports, local::client};

use super::failure;
use crate::{
    attach,
    direct::{self, Direct},
    exit::Failure,
};

/// The node that has the session.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct OriginFlags {
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

/// Exports of a peer, over either kind of session.
pub(super) enum Origin {
    /// Of the running node.
    Attached(Exports<client::Stream>),
    /// Of this command.
    Own(Box<Direct>, Exports<Stream>),
}

impl Origin {
    /// `program`: the name of the command in the node's log.
    pub(super) async fn open(
        peer: &str,
        flags: &OriginFlags,
        program: &str,
    ) -> Result<Self, Failure> {
        // What is waited for goes before what is copied in the background.
        let priority = Priority::NORMAL;
        if direct::is_meant_by(peer) {
            let own = Direct::open(peer, &flags.direct).await?;
            let exports = Exports::open(own.session(), priority).await;
            return Ok(Self::Own(Box::new(own), exports.map_err(failure)?));
        }
        let client = flags.place.attach(program).await.map_err(attach::failure)?;
        let session = client.connect(peer).await.map_err(attach::failure)?;
        let exports = Exports::open(&session, priority).await;
        Ok(Self::Attached(exports.map_err(failure)?))
    }

    pub(super) async fn close(self) {
        if let Self::Own(own, _) = self {
            own.close().await;
        }
    }
}

/// The same expression for either kind.
macro_rules! with {
    ($origin:expr, $exports:ident => $result:expr) => {
        match $origin {
            Origin::Attached($exports) => $result,
            Origin::Own(_, $exports) => $result,
        }
    };
}

pub(super) use with;
