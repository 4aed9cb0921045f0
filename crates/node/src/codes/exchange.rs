//! The exchange behind a code, over any line between the two sides.
//!
//! ```text
//! holder  ── Start ───► issuer     SPAKE2
//!         ◄── Answer ──
//!         ── Proof ───►            the holder shows that it knows the code, and says what it wants
//!         ◄── Accept ──            so does the issuer; or Refuse
//! ```
//!
//! The holder proves first: whoever has not entered a code learns nothing from an issuer, and each proof is one guess.

use std::{future::Future, time::Duration};

use anabranch_base::NodeId;
use anabranch_net::Stream;
use tokio::time;

use super::{
    card::{Card, CardError},
    code::Code,
    message::{DecodeError, Message, Refusal},
    secure::{Begun, Parties, Side},
};

/// Time that the other side may take for a message.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A line to the other side that keeps messages whole and in order.
pub trait Line: Send + Sync {
    /// Sends a message.
    fn send(&self, message: Vec<u8>) -> impl Future<Output = Result<(), LineOver>> + Send;
    /// Waits for a message.
    fn recv(&self) -> impl Future<Output = Result<Vec<u8>, LineOver>> + Send;
}

/// The line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side has gone")]
pub struct LineOver;

impl Line for Stream {
    async fn send(&self, message: Vec<u8>) -> Result<(), LineOver> {
        Stream::send(self, message.into())
            .await
            .map_err(|_| LineOver)?;
        Ok(())
    }

    async fn recv(&self) -> Result<Vec<u8>, LineOver> {
        let adu = Stream::recv(self).await.map_err(|_| LineOver)?;
        adu.map(|adu| adu.data.to_vec()).ok_or(LineOver)
    }
}

/// An exchange that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The issuer refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The other side does not know the code.
    #[error("the other side does not know this code; it may be somebody else, who tries to be it")]
    Impostor,
    /// The line ended.
    #[error("the other side has gone; try again")]
    Gone,
    /// No message came for ten seconds.
    #[error("the other side does not answer; try again")]
    Silent,
    /// A message out of place.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// The card of the other side cannot be read.
    #[error(transparent)]
    Card(#[from] CardError),
}

impl From<LineOver> for ExchangeError {
    fn from(_: LineOver) -> Self {
        Self::Gone
    }
}

/// Waits for a message, for a limited time.
pub(super) async fn next(line: &impl Line) -> Result<Message, ExchangeError> {
    let bytes = time::timeout(PATIENCE, line.recv()).await;
    let bytes = bytes.map_err(|_| ExchangeError::Silent)??;
    match Message::decode(&bytes)? {
        Message::Refuse(refusal) => Err(refusal.into()),
        message => Ok(message),
    }
}

/// Holder's side: enters the code at the node `issuer`. Returns what the issuer says of itself.
///
/// # Errors
/// The code is wrong or no longer valid, the other side is not the issuer, or the line ends.
pub async fn enter(
    line: &impl Line,
    code: &Code,
    own: NodeId,
    issuer: NodeId,
    card: &Card,
) -> Result<Card, ExchangeError> {
    let parties = Parties {
        issuer,
        holder: own,
    };
    let (begun, element) = Begun::new(code, parties);
    line.send(Message::Start { element }.encode()).await?;
    let Message::Answer { element } = next(line).await? else {
        return Err(DecodeError::Malformed.into());
    };
    let keys = begun.finish(&element).map_err(|_| DecodeError::Malformed)?;
    let proof = Message::Proof {
        proof: keys.proof(Side::Holder),
        sealed: keys.seal(Side::Holder, &card.encode()),
    };
    line.send(proof.encode()).await?;
    let Message::Accept { proof, sealed } = next(line).await? else {
        return Err(DecodeError::Malformed.into());
    };
    if !keys.is_proof(Side::Issuer, &proof) {
        return Err(ExchangeError::Impostor);
    }
    let text = keys.open(Side::Issuer, &sealed);
    Ok(Card::decode(&text.ok_or(ExchangeError::Impostor)?)?)
}
