//! Codes: three words that bring two nodes together which know nothing of each other.
//!
//! One side, the *issuer*, shows a code and waits; at the other, the *holder*, it is entered. They find each other at the code's place
//! (its first word), prove to each other that they know the code, and say what they want and where they can be reached: the receiver
//! of a transfer gives the sender a ticket. The code is a password of 22 bits, good for one use and three guesses
//! (`docs/codes.md`, `spec/codes.md`).
//!
//! | module | holds |
//! |---|---|
//! | `code`, `words` | the code as text |
//! | `message` | the messages of the exchange as bytes |
//! | `secure` | keys from a code: SPAKE2, proofs, sealing |
//! | `card` | what the two sides tell each other |
//! | `exchange` | the holder's side, over any line |
//! | `desk` | the issuer's side: guesses are counted here |
//! | `lan` | announcement and search by mDNS |
//! | `waiting`, `meeting` | all of it over the sessions of a host: the issuer, and the holder |

mod card;
mod code;
mod desk;
mod exchange;
mod lan;
mod meeting;
mod message;
mod name;
mod secure;
mod waiting;
mod words;

pub(crate) use self::name::machine_name;
pub use self::{
    card::{Card, CardError, Offer, Purpose},
    code::{Code, ParseCodeError, Place},
    desk::{Desk, DeskEvent, GUESSES},
    exchange::{ExchangeError, Line, LineOver, enter},
    lan::{Announcement, Found, LanError, Search},
    meeting::{MeetingError, Met, meet},
    message::{DecodeError, MESSAGE_BYTES_MAX, Message, Refusal},
    name::of_this_machine,
    waiting::Waiting,
};

/// Label of the streams in which codes are entered.
pub const LABEL: &str = "anabranch-code/1";
