//! Desk of an issuer: tries those who enter its code, and counts their guesses.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::Session;
use tokio::{
    sync::{Semaphore, mpsc},
    time,
};

use super::{
    LABEL,
    card::Card,
    code::Code,
    exchange::{ExchangeError, Line, next},
    meeting::Met,
    message::{DecodeError, Message, Refusal},
    secure::{self, Keys, Parties, Side},
};

/// Wrong codes after which a code is no longer valid.
pub const GUESSES: u32 = 3;
/// Exchanges at a time; others are refused.
const AT_A_TIME: usize = 8;
/// Time for which the desk waits until who entered the last wrong code has left.
const FAREWELL: Duration = Duration::from_secs(3);
/// Events that may wait; beyond it, only those that end the code are kept.
const EVENTS: usize = 16;

/// Events at a desk.
#[derive(Clone, Debug)]
pub enum DeskEvent {
    /// The code was entered; it is used up.
    Met(Met),
    /// A wrong code was entered.
    Wrong {
        /// Guesses that are left.
        left: u32,
    },
    /// The code was right, but the other side wants something else ([`Purpose`](super::Purpose)).
    Unsuited,
    /// The code was entered wrongly [`GUESSES`] times, and is no longer valid.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open { wrong: u32 },
    Used,
    Dead { is_reported: bool },
}

/// A code, and the judgement on those who enter it.
#[derive(Debug)]
pub struct Desk {
    code: Code,
    own: NodeId,
    card: Card,
    state: Mutex<State>,
    places: Semaphore,
    events: mpsc::Sender<DeskEvent>,
}

impl Desk {
    /// The desk of a code at the node `own`, which says of itself what is on `card`; and its events.
    pub fn open(code: Code, own: NodeId, card: Card) -> (Arc<Self>, mpsc::Receiver<DeskEvent>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let desk = Self {
            code,
            own,
            card,
            state: Mutex::new(State::Open { wrong: 0 }),
            places: Semaphore::new(AT_A_TIME),
            events,
        };
        (Arc::new(desk), receiver)
    }

    /// Its code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a session in which a code is entered, until the session is over; false if none was entered in it.
    pub async fn attend(&self, session: &Session) -> bool {
        let stream = session.accept_stream_where(|spec| spec.label == LABEL);
        let Ok(stream) = stream.await else {
            return false;
        };
        if !stream.can_send() {
            return true;
        }
        if let Err(error) = self.serve(&stream, session.peer()).await {
            tracing::debug!(%error, "a code was not accepted");
        }
        if stream.finish().is_ok() {
            // The holder closes the session when it has read the answer.
            session.closed().await;
        }
        true
    }

    /// Serves one exchange with the node `holder`.
    ///
    /// # Errors
    /// The exchange failed; a wrong code is also an event.
    pub async fn serve(&self, line: &impl Line, holder: NodeId) -> Result<(), ExchangeError> {
        let result = self.try_serve(line, holder).await;
        if let Err(ExchangeError::Refused(refusal)) = &result {
            // If the line is over, there is nobody to notify.
            let _ = line.send(Message::Refuse(*refusal).encode()).await;
            if *refusal == Refusal::Dead && self.has_died() {
                // The issuer may end with the event; who entered the code leaves when it has read the refusal.
                let _ = time::timeout(FAREWELL, line.recv()).await;
                let _ = self.events.send(DeskEvent::Dead).await;
            }
        }
        result
    }

    async fn try_serve(&self, line: &impl Line, holder: NodeId) -> Result<(), ExchangeError> {
        let _place = self.places.try_acquire().map_err(|_| Refusal::Busy)?;
        let Message::Start { element: start } = next(line).await? else {
            return Err(DecodeError::Malformed.into());
        };
        self.check_open()?;
        let parties = Parties {
            issuer: self.own,
            holder,
        };
        let answered = secure::answer(&self.code, parties, &start);
        let (element, keys) = answered.map_err(|_| DecodeError::Malformed)?;
        line.send(Message::Answer { element }.encode()).await?;
        let Message::Proof { proof, sealed } = next(line).await? else {
            return Err(DecodeError::Malformed.into());
        };
        let card = self.judge(&keys, &proof, &sealed)?;
        let accept = Message::Accept {
            proof: keys.proof(Side::Issuer),
            sealed: keys.seal(Side::Issuer, &self.card.encode()),
        };
        // If it cannot be sent, the code is used up all the same: the other side may have received it.
        let sent = line.send(accept.encode()).await;
        let met = Met {
            node: holder,
            addresses: card.addresses.clone(),
            card,
            detour: None,
        };
        let _ = self.events.send(DeskEvent::Met(met)).await;
        Ok(sent?)
    }

    /// True once, after the last guess.
    fn has_died(&self) -> bool {
        let mut state = self.lock();
        let has_died = *state == State::Dead { is_reported: false };
        if has_died {
            *state = State::Dead { is_reported: true };
        }
        has_died
    }

    fn check_open(&self) -> Result<(), Refusal> {
        match *self.lock() {
            State::Open { .. } => Ok(()),
            State::Used => Err(Refusal::Used),
            State::Dead { .. } => Err(Refusal::Dead),
        }
    }

    /// Judges one guess. Guesses are judged one after the other, whatever the number of exchanges under way.
    fn judge(&self, keys: &Keys, proof: &[u8; 32], sealed: &[u8]) -> Result<Card, ExchangeError> {
        let mut state = self.lock();
        let State::Open { wrong } = &mut *state else {
            drop(state);
            self.check_open()?;
            return Err(Refusal::Used.into());
        };
        let text = keys.is_proof(Side::Holder, proof);
        let text = text.then(|| keys.open(Side::Holder, sealed)).flatten();
        let Some(text) = text else {
            *wrong += 1;
            let left = GUESSES.saturating_sub(*wrong);
            // The events of guesses are fewer than the channel holds, unless others fill it; those do not matter.
            let _ = self.events.try_send(DeskEvent::Wrong { left });
            if left == 0 {
                *state = State::Dead { is_reported: false };
                return Err(Refusal::Dead.into());
            }
            return Err(Refusal::Wrong.into());
        };
        let card = Card::decode(&text)?;
        if !self.card.purpose.suits(card.purpose) {
            let _ = self.events.try_send(DeskEvent::Unsuited);
            return Err(Refusal::Purpose.into());
        }
        *state = State::Used;
        Ok(card)
    }
}

#[cfg(test)]
mod tests;
