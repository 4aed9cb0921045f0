//! Arrivals of a flow and its missing packets, from the sequence numbers of [`Header`](crate::Header)s (RFC 3550 §A.1).

/// Distance, in packets, up to which an old number can be distinguished from a repeated one.
const MEMORY: u64 = 1_024;
/// Distance ahead of the newest number beyond which the sender is taken to have restarted; it is not counted as loss.
const JUMP_MAX: u64 = 3_000;

/// Packet counter over 16-bit sequence numbers that wrap around.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// The largest number so far, extended; `None` before the first.
    newest: Option<u64>,
    first: u64,
    /// Bitmap of the arrivals among the last [`MEMORY`] numbers: bit n of word n / 64, by number modulo.
    seen: [u64; (MEMORY / 64) as usize],
    arrived: u64,
    repeated: u64,
    restarts: u64,
    /// Expected and arrived before the last restart.
    before: u64,
}

/// Classification of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is new; extended beyond 16 bits, so that numbers keep growing.
    New(u64),
    /// It arrived before, or is too old to decide.
    Repeated,
}

impl Arrivals {
    /// Starts with no arrivals.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a packet with this number. O(packets missed since the last).
    pub fn on_packet(&mut self, sequence: u16) -> Arrival {
        let Some(newest) = self.newest else {
            return self.restart(u64::from(sequence));
        };
        // The number nearest to the newest that has these 16 bits.
        let ahead = sequence.wrapping_sub(newest as u16) as i16;
        let Some(number) = newest.checked_add_signed(i64::from(ahead)) else {
            return self.repeat();
        };
        if number > newest {
            if number - newest > JUMP_MAX {
                self.before += newest - self.first + 1;
                self.restarts += 1;
                return self.restart(number);
            }
            for missing in newest + 1..number {
                self.mark(missing, false);
            }
            self.newest = Some(number);
            self.mark(number, true);
            self.arrived += 1;
            return Arrival::New(number);
        }
        if number < self.first || newest - number >= MEMORY || self.is_marked(number) {
            return self.repeat();
        }
        self.mark(number, true);
        self.arrived += 1;
        Arrival::New(number)
    }

    fn repeat(&mut self) -> Arrival {
        self.repeated += 1;
        Arrival::Repeated
    }

    fn restart(&mut self, number: u64) -> Arrival {
        self.newest = Some(number);
        self.first = number;
        self.seen = Default::default();
        self.mark(number, true);
        self.arrived += 1;
        Arrival::New(number)
    }

    fn mark(&mut self, number: u64, came: bool) {
        let place = (number % MEMORY) as usize;
        let bit = 1 << (place % 64);
        if came {
            self.seen[place / 64] |= bit;
        } else {
            self.seen[place / 64] &= !bit;
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        let place = (number % MEMORY) as usize;
        self.seen[place / 64] & (1 << (place % 64)) != 0
    }

    /// Packets that arrived, each counted once.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Packets that arrived again.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Number of times that the sender restarted.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Packets up to the newest that have not arrived (RFC 3550 §A.3).
    pub fn missing(&self) -> u64 {
        let expected = self.newest.map_or(0, |newest| newest - self.first + 1);
        (self.before + expected).saturating_sub(self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_go_around() {
        let mut arrivals = Arrivals::new();
        for number in 65_530..65_546u32 {
            assert_eq!(
                arrivals.on_packet(number as u16),
                Arrival::New(u64::from(number))
            );
        }
        assert_eq!((arrivals.arrived(), arrivals.missing()), (16, 0));
        // Three are missing; one of them arrives late, and then again.
        arrivals.on_packet(13);
        assert_eq!(arrivals.missing(), 3);
        assert_eq!(arrivals.on_packet(11), Arrival::New(65_547));
        assert_eq!(arrivals.on_packet(11), Arrival::Repeated);
        assert_eq!((arrivals.missing(), arrivals.repeated()), (2, 1));
    }

    #[test]
    fn a_sender_that_restarts_has_lost_nothing() {
        let mut arrivals = Arrivals::new();
        arrivals.on_packet(1);
        arrivals.on_packet(3);
        arrivals.on_packet(20_000);
        assert_eq!(
            (arrivals.restarts(), arrivals.missing(), arrivals.arrived()),
            (1, 1, 3)
        );
    }

    proptest! {
        /// Packets that are lost, repeated, or swapped with near ones are counted as such.
        #[test]
        fn losses_are_counted(
            start in any::<u16>(),
            outcomes in prop::collection::vec(0u8..8, 2..3_000),
        ) {
            let mut arrivals = Arrivals::new();
            arrivals.on_packet(start);
            let mut held = None;
            let (mut came, mut newest, mut again) = (1u64, 0u64, 0u64);
            for (number, outcome) in (1u64..).zip(outcomes) {
                let sequence = start.wrapping_add(number as u16);
                match outcome {
                    0 => continue,
                    1 if held.is_none() => { held = Some(number); continue; }
                    2 => { arrivals.on_packet(sequence); again += 1; }
                    _ => {}
                }
                arrivals.on_packet(sequence);
                newest = number;
                came += 1;
                if let Some(late) = held.take_if(|late| number - *late > 3)
                    && number - late < MEMORY
                {
                    arrivals.on_packet(start.wrapping_add(late as u16));
                    came += 1;
                }
            }
            prop_assert_eq!(arrivals.arrived(), came);
            prop_assert_eq!(arrivals.repeated(), again);
            prop_assert_eq!(arrivals.missing(), newest + 1 - came);
        }
    }
}
