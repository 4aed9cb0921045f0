//! Speech of both sides.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | what the ambulance says |
//! | `store` | its file, and a table with a line for each packet |
//! | `down` | the stream of what is said here |

mod down;
mod store;

use anabranch::AduStream;

pub(super) use self::down::serve as speak;
use self::store::{Spoken, Store};
use super::{
    Packets, Report,
    case::{Case, next},
};
use crate::{
    error::ClinicError,
    speech::{LIFETIME, Ordered},
    wire::{Data, Purpose, WireError},
};

/// Receives packets until the ambulance has sent them.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let mut packets = Packets::default();
    let received = packets_of(stream, case, &mut packets).await;
    case.report(Report::Speech(packets));
    received
}

async fn packets_of<T: AduStream>(
    stream: &T,
    case: &Case,
    counts: &mut Packets,
) -> Result<(), ClinicError> {
    let mut keeping = Keeping {
        store: Store::open(&case.folder)?,
        ordered: Ordered::default(),
        has_failed: false,
    };
    // Lowest and highest number that came.
    let mut span: Option<(u64, u64)> = None;
    while let Some(adu) = next(stream).await? {
        let Data::Speech(packet) = Data::read(adu.data)? else {
            return Err(WireError("other data among speech".to_owned()).into());
        };
        let number = packet.number;
        let (first, last) = span.map_or((number, number), |(first, last)| {
            (first.min(number), last.max(number))
        });
        span = Some((first, last));
        let age = case.age(packet.captured_us);
        counts.received += 1;
        counts.missing = (last - first)
            .saturating_add(1)
            .saturating_sub(counts.received);
        counts.in_time += u64::from(age.is_some_and(|age| age.age <= LIFETIME));
        let dated = case.dated(packet.captured_us);
        case.live().speech(case.number, &packet, dated, *counts);
        let age_ms = age.map(|age| age.age.as_millis() as u64);
        keeping.keep(case, Spoken { packet, age_ms })?;
    }
    Ok(())
}

/// The file, packets that wait for earlier ones, and whether the last packet could not be written.
struct Keeping {
    store: Store,
    ordered: Ordered<Spoken>,
    has_failed: bool,
}

impl Keeping {
    /// Keeps a packet, and those that waited for it.
    fn keep(&mut self, case: &Case, spoken: Spoken) -> Result<(), ClinicError> {
        for (_, spoken) in self.ordered.push(spoken.packet.number, spoken) {
            match self.store.append(&spoken) {
                Ok(()) => self.has_failed = false,
                // A packet that the disk does not take is lost; others follow.
                Err(error @ ClinicError::File { .. }) if !self.has_failed => {
                    case.failed(Purpose::SpeechUp, &error);
                    self.has_failed = true;
                }
                Err(ClinicError::File { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Keeping {
    /// Packets that still wait are kept, however the stream ends.
    fn drop(&mut self) {
        for (_, spoken) in self.ordered.finish() {
            // There is nobody left to hear of it.
            let _ = self.store.append(&spoken);
        }
    }
}
