//! Scripts of hostile sessions (`spec/wire.md` §3 and §4).

/// Bytes of frames in one container: as many as fit the smallest packet.
pub(super) const FRAMES_MAX: usize = 1_100;
/// Largest offset at which an ADU may have a byte.
const FAR: u64 = (16 << 20) - 16;
/// Flags of a stream: reliable and ordered; neither; neither, but duplex.
const RELIABLE: u8 = 0x03;
const UNRELIABLE: u8 = 0x00;
const DUPLEX: u8 = 0x07;

/// A QUIC variable-length integer (RFC 9000 §16).
fn varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&((value & (u64::MAX >> 2)) | (3 << 62)).to_be_bytes()),
    }
}

fn open(out: &mut Vec<u8>, stream: u64, flags: u8) {
    out.push(0x03);
    varint(out, stream);
    // No lifetime, priority 128, weight 1, no label.
    out.extend_from_slice(&[flags, 0, 0x80, 1, 0]);
}

/// One byte of an ADU.
fn byte(out: &mut Vec<u8>, stream: u64, sequence: u64, offset: u64, is_final: bool) {
    out.push(0x48 | if is_final { 0x04 } else { 0 } | if offset > 0 { 0x02 } else { 0 });
    varint(out, stream);
    varint(out, sequence);
    if offset > 0 {
        varint(out, offset);
    }
    out.extend_from_slice(&[1, 9]);
}

fn skip(out: &mut Vec<u8>, stream: u64, sequence: u64, charged: u64) {
    out.push(0x09);
    varint(out, stream);
    varint(out, sequence);
    varint(out, charged);
}

/// Frames of a hostile session.
pub(super) struct Script {
    /// Flags with which stream 0 is still to be opened.
    open: Option<u8>,
    /// Number from which the next frame is made.
    at: u64,
    /// Adds a frame, or a few that belong together, and advances the number.
    frame: fn(&mut u64, &mut Vec<u8>),
}

impl Script {
    /// Frames of the next container, at most [`FRAMES_MAX`] bytes.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAMES_MAX);
        if let Some(flags) = self.open.take() {
            open(&mut out, 0, flags);
        }
        let mut one = Vec::new();
        loop {
            let before = self.at;
            one.clear();
            (self.frame)(&mut self.at, &mut one);
            if out.len() + one.len() > FRAMES_MAX {
                self.at = before;
                return out;
            }
            out.extend_from_slice(&one);
        }
    }
}

fn script(open: Option<u8>, at: u64, frame: fn(&mut u64, &mut Vec<u8>)) -> Script {
    Script { open, at, frame }
}

/// A byte at the end of an ADU, and a SKIP that claims the largest ADU's credit.
pub(super) fn skip_credit(_: u64) -> Script {
    script(Some(RELIABLE), 0, |at, out| {
        byte(out, 0, *at, FAR, false);
        skip(out, 0, *at + 1, FAR);
        *at += 2;
    })
}

/// Streams that are reset with credit that they never used.
pub(super) fn reset_credit(_: u64) -> Script {
    script(None, 0, |at, out| {
        open(out, *at, RELIABLE);
        out.push(0x07);
        varint(out, *at);
        varint(out, 0);
        varint(out, 200_000);
        *at += 2;
    })
}

/// A byte at the end of each unreliable ADU.
pub(super) fn far_offset(_: u64) -> Script {
    script(Some(UNRELIABLE), 0, |at, out| {
        byte(out, 0, *at, FAR, false);
        *at += 1;
    })
}

/// Streams that the victim never accepts.
pub(super) fn opens(_: u64) -> Script {
    script(None, 0, |at, out| {
        open(out, *at, DUPLEX);
        *at += 2;
    })
}

/// Bytes of one ADU, every second one, from the last to the first.
pub(super) fn descending(_: u64) -> Script {
    script(Some(RELIABLE), 240_000, |at, out| {
        byte(out, 0, 0, *at, false);
        *at = if *at == 2 { 240_000 } else { *at - 2 };
    })
}

/// Whole ADUs of one byte.
pub(super) fn tiny(_: u64) -> Script {
    script(Some(UNRELIABLE), 0, |at, out| {
        byte(out, 0, *at, 0, true);
        *at += 1;
    })
}

/// Every second ADU of a reliable stream.
pub(super) fn gaps(_: u64) -> Script {
    script(Some(RELIABLE), 1, |at, out| {
        byte(out, 0, *at, 0, true);
        *at += 2;
    })
}

/// Numbers at the ends of their ranges, where they are legal.
pub(super) fn controls(_: u64) -> Script {
    script(Some(DUPLEX), 0, |at, out| {
        let large = (1 << 62) - 1;
        match *at % 4 {
            0 => {
                out.extend_from_slice(&[0x04, 0]);
                varint(out, large);
            }
            1 => {
                out.push(0x05);
                varint(out, large);
            }
            2 => {
                out.push(0x0a);
                (0..5).for_each(|_| varint(out, large));
            }
            _ => {
                out.push(0x08);
                varint(out, 0);
                varint(out, *at & 0xffff);
            }
        }
        *at += 1;
    })
}

/// Known types with random bytes behind them.
pub(super) fn noise(seed: u64) -> Script {
    let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    script(Some(RELIABLE), seed, |at, out| {
        // xorshift64 (Marsaglia 2003).
        *at ^= *at << 13;
        *at ^= *at >> 7;
        *at ^= *at << 17;
        let bytes = at.to_le_bytes();
        let types = [0x04, 0x06, 0x08, 0x09, 0x0a, 0x48, 0x4a, 0x4c, 0x4e];
        out.push(types[usize::from(bytes[0]) % types.len()]);
        out.push(0);
        out.extend_from_slice(&bytes[1..1 + usize::from(bytes[7] % 6)]);
    })
}
