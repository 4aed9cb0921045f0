//! Stand-ins: a few bytes that replace a missing referenced frame.
//!
//! A decoder that misses a referenced frame meets gaps in frame numbers and commands about pictures that it never had;
//! some give up. A stand-in has the missing frame's number, order count and commands, and as its picture a P slice in
//! which every macroblock is skipped: a copy of the picture shown before it. So the buffer of decoded pictures goes
//! through the same states as without loss, and frames that refer to the missing one are predicted from its
//! predecessor.
//!
//! It needs a picture parameter set of its own (no arithmetic coding, one reference, no weights), which is added to the
//! codec settings.

use super::{
    parameters::{Pictures, Sequence},
    reference::Reference,
};

/// Writer of bits, most significant first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        for shift in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = (value >> shift & 1) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (7 - self.used % 8);
            }
            self.used += 1;
        }
    }

    /// ue(v), at most 2³¹ − 2.
    fn golomb(&mut self, value: u32) {
        let code = value + 1;
        let length = code.ilog2();
        self.put(0, length);
        self.put(code, length + 1);
    }

    /// Completes a NAL unit: header, bits, a stop bit, emulation prevention.
    fn unit(mut self, header: u8) -> Vec<u8> {
        self.put(1, 1);
        let mut unit = vec![header];
        let mut zeros = 0;
        for byte in self.bytes {
            if zeros == 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            unit.push(byte);
            zeros = if byte == 0 { zeros + 1 } else { 0 };
        }
        unit
    }
}

/// NAL unit of a stand-in, with its length before it.
pub(crate) type StandIn = Vec<u8>;

/// Tracks the frames of a stream in decode order and writes stand-ins for them.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    sequence: Sequence,
    sets: Vec<Pictures>,
    /// Id of the parameter set for stand-ins.
    set: u32,
    /// Number and presentation time of each frame in the buffer; `None` while the buffer holds frames that are not
    /// tracked (long-term references).
    held: Option<Vec<(u32, i64)>>,
}

impl Writer {
    /// Reads the body of 'avcC'. Returns also the settings with the set added. `None` for streams without stand-ins.
    pub(crate) fn new(settings: &[u8]) -> Option<(Self, Vec<u8>)> {
        // NAL unit lengths of four bytes, one sequence parameter set.
        if settings.get(4)? & 3 != 3 || settings.get(5)? & 31 != 1 {
            return None;
        }
        let mut rest = &settings[6..];
        let sequence = Sequence::read(take_unit(&mut rest)?)?;
        let (&count, after) = rest.split_first()?;
        let count_at = settings.len() - rest.len();
        rest = after;
        let mut sets = Vec::new();
        for _ in 0..count {
            sets.push(Pictures::read(take_unit(&mut rest)?)?);
        }
        let set = (0..=255)
            .rev()
            .find(|id| sets.iter().all(|known| known.id != *id))?;
        let writer = Self {
            sequence,
            sets,
            set,
            held: Some(Vec::new()),
        };
        let unit = writer.parameter_set();
        let mut new = settings[..settings.len() - rest.len()].to_vec();
        new[count_at] = count.checked_add(1)?;
        new.extend_from_slice(&(unit.len() as u16).to_be_bytes());
        new.extend_from_slice(&unit);
        new.extend_from_slice(rest);
        Some((writer, new))
    }

    fn parameter_set(&self) -> Vec<u8> {
        let mut bits = Bits::default();
        bits.golomb(self.set);
        bits.golomb(self.sequence.id);
        // No arithmetic coding, no order count of bottom fields.
        bits.put(0, 2);
        // One slice group, one reference in each list.
        for _ in 0..3 {
            bits.golomb(0);
        }
        // No weights.
        bits.put(0, 3);
        // Any quantisation will do.
        for _ in 0..3 {
            bits.golomb(0);
        }
        // Deblocking can be switched off; no constrained intra prediction, no redundant pictures.
        bits.put(0b100, 3);
        bits.unit(0x68)
    }

    /// Parses the header of a referenced slice.
    pub(crate) fn reference(&self, unit: &[u8]) -> Option<Reference> {
        Reference::read(unit, &self.sequence, &self.sets)
    }

    /// Writes the stand-in of a referenced frame with the given presentation time; all referenced frames must come, in
    /// decode order. `None` for IDR pictures.
    pub(crate) fn next(&mut self, reference: &Reference, shown: i64) -> Option<StandIn> {
        let stand_in = (!reference.is_idr).then(|| self.write(reference, shown));
        self.mark(reference, shown);
        stand_in
    }

    /// Handles a referenced frame whose header is not understood: the content of the buffer is unknown until the next
    /// IDR.
    pub(crate) fn lose(&mut self) {
        self.held = None;
    }

    fn write(&self, reference: &Reference, shown: i64) -> StandIn {
        let modulus = 1 << self.sequence.frame_num_bits;
        let mut bits = Bits::default();
        // First macroblock 0; P, as all slices of the picture.
        bits.golomb(0);
        bits.golomb(5);
        bits.golomb(self.set);
        bits.put(reference.frame_num, self.sequence.frame_num_bits);
        if let Some(order_bits) = self.sequence.order_bits {
            bits.put(reference.order, order_bits);
        }
        // As many references as the parameter set specifies.
        bits.put(0, 1);
        // The picture shown before; the one decoded before, where that is not known.
        let held = self.held.as_deref().unwrap_or_default();
        let before = held
            .iter()
            .filter(|(_, at)| *at < shown)
            .max_by_key(|(_, at)| *at);
        let distance = before.map_or(0, |(number, _)| {
            (reference.frame_num + modulus - number) % modulus
        });
        if distance > 0 {
            bits.put(1, 1);
            bits.golomb(0);
            bits.golomb(distance - 1);
            bits.golomb(3);
        } else {
            bits.put(0, 1);
        }
        match &reference.commands {
            None => bits.put(0, 1),
            Some(commands) => {
                bits.put(1, 1);
                for command in commands {
                    bits.golomb(command.operation);
                    let values = super::reference::Command::values(command.operation);
                    for &value in &command.values[..values.unwrap_or(0)] {
                        bits.golomb(value);
                    }
                }
                bits.golomb(0);
            }
        }
        // Quantiser as in the set, no deblocking; all macroblocks skipped.
        bits.golomb(0);
        bits.golomb(1);
        bits.golomb(self.sequence.macroblocks);
        let unit = bits.unit(reference.importance << 5 | 1);
        let mut bytes = (unit.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&unit);
        bytes
    }

    /// Updates the buffer after a frame (ITU-T H.264 §8.2.5).
    fn mark(&mut self, reference: &Reference, shown: i64) {
        let modulus = 1u32 << self.sequence.frame_num_bits;
        if reference.is_idr {
            self.held = Some(Vec::new());
        }
        let Some(held) = &mut self.held else {
            return;
        };
        let number = reference.frame_num;
        match &reference.commands {
            Some(commands) => {
                for command in commands {
                    if command.operation != 1 {
                        self.held = None;
                        return;
                    }
                    let distance = command.values[0].wrapping_add(1) % modulus;
                    let named = (number + modulus - distance) % modulus;
                    held.retain(|(known, _)| *known != named);
                }
            }
            None => {
                let most = self.sequence.references_max.max(1) as usize;
                while held.len() >= most {
                    // The one decoded first: frame numbers wrap around.
                    held.remove(0);
                }
            }
        }
        if held.len() >= 16 {
            self.held = None;
            return;
        }
        held.push((number, shown));
    }
}

/// Takes a NAL unit that follows its length of two bytes.
fn take_unit<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<2>()?;
    let (unit, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = after;
    Some(unit)
}
