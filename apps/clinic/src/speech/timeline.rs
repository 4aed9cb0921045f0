//! Place of packets in time: numbers count what was made, times say when.

use std::time::Duration;

use super::PACKET_TIME;

/// Longest time between two packets: what is further away has no place.
pub const GAP_MAX: Duration = Duration::from_secs(86_400);
/// Deviation of clock and numbers that is no silence, in packets: a sound card measures time in its own way.
const DEVIATION: u64 = 10;

/// The last packet, and the place of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    number: u64,
    captured_us: u64,
    place: u64,
}

impl Timeline {
    /// A timeline that goes on after a packet with this number and time, at this place.
    pub const fn after(number: u64, captured_us: u64, place: u64) -> Self {
        Self {
            last: Some(Last {
                number,
                captured_us,
                place,
            }),
        }
    }

    /// True for a number that does not follow.
    pub fn is_before(&self, number: u64) -> bool {
        self.last.is_some_and(|last| number <= last.number)
    }

    /// Place of a packet that follows, in packets from the first one. Between it and the last one are those that were lost, and those of a time
    /// in which none was made. `None`: it does not follow, or is more than [`GAP_MAX`] away.
    pub fn place(&mut self, number: u64, captured_us: u64) -> Option<u64> {
        let place = match self.last {
            None => 0,
            Some(last) => {
                let numbers = number
                    .checked_sub(last.number)
                    .filter(|numbers| *numbers > 0)?;
                let packet_us = PACKET_TIME.as_micros() as u64;
                // A clock that went back says nothing.
                let times = captured_us.saturating_sub(last.captured_us) / packet_us;
                let packets = match times > numbers.saturating_add(DEVIATION) {
                    true => times,
                    false => numbers,
                };
                let packets_max = GAP_MAX.as_micros() as u64 / packet_us;
                if packets > packets_max {
                    return None;
                }
                last.place.checked_add(packets)?
            }
        };
        *self = Self::after(number, captured_us, place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_losses_have_their_time() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.place(7, 1_000_000), Some(0));
        assert_eq!(timeline.place(8, 1_020_000), Some(1));
        // Two were lost.
        assert_eq!(timeline.place(11, 1_081_000), Some(4));
        // None was made for a second.
        assert_eq!(timeline.place(12, 2_101_000), Some(55));
        // A sound card with a pause that is no silence, and a clock that went back.
        assert_eq!(timeline.place(13, 2_250_000), Some(56));
        assert_eq!(timeline.place(14, 0), Some(57));
        assert_eq!(timeline.place(14, 20_000), None);
        assert_eq!(timeline.place(u64::MAX, 20_000), None);
        assert_eq!(timeline.place(15, u64::MAX), None);
        assert_eq!(timeline, Timeline::after(14, 0, 57));
    }
}
