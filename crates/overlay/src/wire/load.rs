//! Load of a node that processes streams, published beside its record.
//!
//! ```text
//! Load {
//!   origin        6 bytes
//!   version       varint   of the record that it belongs to
//!   machine       8 bits   share of the machine's processors in use, in 1/200; 255: unknown
//!   cores         8 bits   processors of the machine; 0: unknown
//!   operators    16 bits   short number, 1/1000 of a processor
//!   memory_used  16 bits   short number, bytes
//!   memory_bound 16 bits   short number, bytes
//!   queued_adus  16 bits   short number
//!   queued_bytes 16 bits   short number
//!   unit         16 bits   short number, ps; 0: unknown
//!   …                      fields of later versions, ignored
//!   signature    64 bytes  over "anabranch overlay load 1", 0, and all of the above
//! }
//! ```

use anabranch_base::NodeId;

use super::{
    DecodeError, ShortId,
    code::{Cursor, from_short, put_varint, to_short},
    record::VERSION_MAX,
};
use crate::keys::{Keys, SIGNATURE_BYTES};

const CONTEXT: &[u8] = b"anabranch overlay load 1\0";
/// Bytes of the fields.
const FIELDS_BYTES: usize = 14;
/// Bytes that later versions may add.
const LATER_BYTES_MAX: usize = 32;
/// Longest load, in bytes.
pub const LOAD_BYTES_MAX: usize = 6 + 8 + FIELDS_BYTES + LATER_BYTES_MAX + SIGNATURE_BYTES;

const SHARE_STEPS: f64 = 200.0;
const SHARE_UNKNOWN: u8 = u8::MAX;

/// Changes that are published at once: of shares and processors …
const SHARE_CHANGE: f64 = 0.1;
/// … of the time of a unit of work, as a ratio …
const UNIT_CHANGE: f64 = 1.25;
/// … and of what waits, as a ratio, if it is more than this many bytes or ADUs.
const QUEUE_CHANGE: u64 = 2;
const QUEUE_BYTES_LEAST: u64 = 1 << 20;
const QUEUE_ADUS_LEAST: u64 = 64;

/// Load of a node that processes streams.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Share of the machine's processors that is in use, by all programs, [0, 1] in steps of 1/200; `None`: the node cannot know it.
    pub machine: Option<f64>,
    /// Processors of the machine; 0: unknown.
    pub cores: u8,
    /// Processors that operators on streams are using, in steps of 1/1000: 1.5 is one and a half.
    pub operators: f64,
    /// Bytes that are kept for sources and subscribers.
    pub memory_used: u64,
    /// Bytes that may be kept for them.
    pub memory_bound: u64,
    /// Derived ADUs that wait to be sent.
    pub queued_adus: u64,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Mean time of a unit of work of its operators, in picoseconds; 0: unknown.
    pub unit_ps: u64,
}

/// A load with its origin and the record that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadOf {
    /// Origin of both.
    pub origin: ShortId,
    /// Version of the record.
    pub version: u64,
    /// The load.
    pub load: Load,
}

impl LoadOf {
    /// The encoded and signed load.
    pub fn encode(&self, keys: &dyn Keys) -> Vec<u8> {
        let mut out = CONTEXT.to_vec();
        out.extend_from_slice(&self.origin.0);
        put_varint(&mut out, self.version);
        self.load.encode(&mut out);
        let signature = keys.sign(&out);
        out.drain(..CONTEXT.len());
        out.extend_from_slice(&signature);
        out
    }

    /// Reads a load. Its signature is not checked: see [`verify`]. Bytes after the fields are ignored.
    ///
    /// # Errors
    /// Too few or too many bytes; a share above 1.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > LOAD_BYTES_MAX {
            return Err(DecodeError::TooLong);
        }
        let body = bytes
            .len()
            .checked_sub(SIGNATURE_BYTES)
            .ok_or(DecodeError::Truncated)?;
        let mut from = Cursor::new(&bytes[..body]);
        let (origin, version) = (ShortId(from.array()?), from.varint()?);
        if version > VERSION_MAX {
            return Err(DecodeError::Value);
        }
        let load = Load::decode(&mut from)?;
        Ok(Self {
            origin,
            version,
            load,
        })
    }
}

/// True if `bytes` carry the signature of `origin`.
pub fn verify(keys: &dyn Keys, origin: &NodeId, bytes: &[u8]) -> bool {
    super::claim::is_signed(keys, origin, CONTEXT, bytes)
}

impl Load {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.machine.map_or(SHARE_UNKNOWN, |share| {
            (share * SHARE_STEPS).round().clamp(0.0, SHARE_STEPS) as u8
        }));
        out.push(self.cores);
        let operators = (self.operators * 1e3).round().max(0.0) as u64;
        for number in [
            operators,
            self.memory_used,
            self.memory_bound,
            self.queued_adus,
            self.queued_bytes,
            self.unit_ps,
        ] {
            out.extend_from_slice(&to_short(number).to_be_bytes());
        }
    }

    fn decode(from: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let machine = match from.u8()? {
            SHARE_UNKNOWN => None,
            steps if f64::from(steps) > SHARE_STEPS => return Err(DecodeError::Value),
            steps => Some(f64::from(steps) / SHARE_STEPS),
        };
        let cores = from.u8()?;
        let mut number = || from.u16().and_then(from_short);
        Ok(Self {
            machine,
            cores,
            operators: number()? as f64 / 1e3,
            memory_used: number()?,
            memory_bound: number()?,
            queued_adus: number()?,
            queued_bytes: number()?,
            unit_ps: number()?,
        })
    }

    /// The load as others receive it: rounded to the precision of the encoding.
    pub fn rounded(&self) -> Self {
        let mut out = Vec::with_capacity(FIELDS_BYTES);
        self.encode(&mut out);
        Self::decode(&mut Cursor::new(&out)).unwrap_or(*self)
    }

    /// Share of the memory that is in use, [0, 1]; 0 without a bound.
    pub fn memory_share(&self) -> f64 {
        match self.memory_bound {
            0 => 0.0,
            bound => (self.memory_used as f64 / bound as f64).min(1.0),
        }
    }

    /// True if others should learn of this load soon when they know `known`: a share has changed by a tenth, operators use a tenth of a
    /// processor more or less, and a tenth of what they used, a unit of work takes a quarter longer or less long, or what waits has doubled
    /// or halved and is more than 1 MiB or 64 ADUs.
    pub fn differs(&self, known: &Self) -> bool {
        let share = |a: f64, b: f64| (a - b).abs() >= SHARE_CHANGE - 1e-9;
        let queue = |a: u64, b: u64, least: u64| {
            a.max(b) > least && a.max(b) >= a.min(b).saturating_mul(QUEUE_CHANGE)
        };
        let machine = match (self.machine, known.machine) {
            (Some(a), Some(b)) => share(a, b),
            (a, b) => a.is_some() != b.is_some(),
        };
        let (operators, before) = (self.operators, known.operators);
        let is_large = (operators - before).abs() >= SHARE_CHANGE * operators.max(before);
        let (slow, fast) = (
            self.unit_ps.max(known.unit_ps) as f64,
            self.unit_ps.min(known.unit_ps) as f64,
        );
        machine
            || share(operators, before) && is_large
            || share(self.memory_share(), known.memory_share())
            || slow > fast * UNIT_CHANGE
            || queue(self.queued_adus, known.queued_adus, QUEUE_ADUS_LEAST)
            || queue(self.queued_bytes, known.queued_bytes, QUEUE_BYTES_LEAST)
            || self.cores != known.cores
            || self.memory_bound != known.memory_bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::FakeKeys;
    use proptest::prelude::*;

    fn node(n: u8) -> NodeId {
        NodeId::from_public_key([n; 32])
    }

    fn load() -> Load {
        Load {
            machine: Some(0.425),
            cores: 4,
            operators: 0.75,
            memory_used: 64 << 20,
            memory_bound: 512 << 20,
            queued_adus: 12,
            queued_bytes: 3 << 20,
            unit_ps: 1_250,
        }
        .rounded()
    }

    fn of(load: Load) -> LoadOf {
        LoadOf {
            origin: ShortId::of(&node(1)),
            version: 300,
            load,
        }
    }

    #[test]
    fn round_trips_and_is_bound_to_its_origin() {
        let bytes = of(load()).encode(&FakeKeys(node(1)));
        assert_eq!(bytes.len(), 6 + 2 + 14 + 64);
        assert_eq!(LoadOf::decode(&bytes), Ok(of(load())));
        assert!(verify(&FakeKeys(node(9)), &node(1), &bytes));
        assert!(!verify(&FakeKeys(node(9)), &node(2), &bytes));
        assert_eq!(load().machine, Some(0.425));
        assert_eq!(load().unit_ps, 1_250);
    }

    #[test]
    fn fields_of_later_versions_are_signed_and_ignored() {
        let keys = FakeKeys(node(1));
        let mut signed = CONTEXT.to_vec();
        let bytes = of(load()).encode(&keys);
        signed.extend_from_slice(&bytes[..bytes.len() - SIGNATURE_BYTES]);
        signed.extend_from_slice(&[7; LATER_BYTES_MAX]);
        let signature = keys.sign(&signed);
        let mut later = signed.split_off(CONTEXT.len());
        later.extend_from_slice(&signature);
        assert_eq!(LoadOf::decode(&later), Ok(of(load())));
        assert!(verify(&keys, &node(1), &later));
        later[24] ^= 1;
        assert!(!verify(&keys, &node(1), &later));
        let long = [later, vec![0; 16]].concat();
        assert_eq!(LoadOf::decode(&long), Err(DecodeError::TooLong));
        assert_eq!(LoadOf::decode(&bytes[..80]), Err(DecodeError::Truncated));
        let mut absurd = bytes;
        absurd[8] = 201;
        assert_eq!(LoadOf::decode(&absurd), Err(DecodeError::Value));
    }

    #[test]
    fn small_changes_are_not_news() {
        let known = load();
        let with = |change: fn(&mut Load)| {
            let mut other = load();
            change(&mut other);
            other.differs(&known)
        };
        assert!(!known.differs(&known));
        assert!(!with(|load| load.machine = Some(0.5)));
        assert!(with(|load| load.machine = Some(0.6)));
        assert!(with(|load| load.machine = None));
        assert!(!with(|load| load.operators = 0.8));
        assert!(with(|load| load.operators = 0.9));
        assert!(!with(|load| load.memory_used = 100 << 20));
        assert!(with(|load| load.memory_used = 128 << 20));
        assert!(!with(|load| load.queued_adus = 60));
        assert!(with(|load| load.queued_adus = 65));
        assert!(!with(|load| load.queued_bytes = 5 << 20));
        assert!(with(|load| load.queued_bytes = 0));
        assert!(!with(|load| load.unit_ps = 1_500));
        assert!(with(|load| load.unit_ps = 1_600));
        assert!(with(|load| load.unit_ps = 0));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            if let Ok(read) = LoadOf::decode(&bytes) {
                let again = read.encode(&FakeKeys(node(1)));
                let fields = again.len() - SIGNATURE_BYTES;
                prop_assert_eq!(&again[..fields], &bytes[..fields]);
                prop_assert_eq!(read.load.rounded(), read.load);
                prop_assert!(!read.load.differs(&read.load));
            }
        }

        #[test]
        fn news_are_news_both_ways(a in 0u64..400, b in 0u64..400, c in 0u64..1 << 30, d in 0u64..1 << 30) {
            let with = |share: u64, bytes: u64| Load {
                machine: Some(share.min(200) as f64 / 200.0),
                operators: share as f64 / 100.0,
                memory_used: bytes,
                memory_bound: 1 << 30,
                queued_adus: share,
                queued_bytes: bytes,
                unit_ps: share * 10,
                cores: 2,
            };
            prop_assert_eq!(with(a, c).differs(&with(b, d)), with(b, d).differs(&with(a, c)));
        }
    }
}
