//! AAC and MP3 in 'mp4a': the descriptors of 'esds' (ISO/IEC 14496-1 §7.2.6, 14496-3 §1.6.2.1).

use super::bits::Bits;

/// Content of an 'esds' box.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sound {
    pub(crate) codec: String,
    /// Sample rate and channels, where the decoder's settings give them.
    pub(crate) settings: Option<(u32, u16)>,
}

const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Splits off one descriptor: a tag, its length in groups of seven bits, a body; returns also the remaining bytes.
fn descriptor(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    let mut length = 0usize;
    for _ in 0..4 {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        length = length << 7 | usize::from(byte & 127);
        if byte & 128 == 0 {
            let (body, after) = rest.split_at_checked(length)?;
            return Some((tag, body, after));
        }
    }
    None
}

/// Parses 'esds' after its version and flags.
pub(crate) fn esds(bytes: &[u8]) -> Option<Sound> {
    let (3, stream, _) = descriptor(bytes)? else {
        return None;
    };
    // ES id, flags, and three optional fields.
    let flags = *stream.get(2)?;
    let mut at = 3;
    if flags & 0x80 != 0 {
        at += 2;
    }
    if flags & 0x40 != 0 {
        at += 1 + usize::from(*stream.get(at)?);
    }
    if flags & 0x20 != 0 {
        at += 2;
    }
    let (4, decoder, _) = descriptor(stream.get(at..)?)? else {
        return None;
    };
    let &object = decoder.first()?;
    if object != 0x40 {
        let codec = format!("mp4a.{object:02X}");
        return Some(Sound {
            codec,
            settings: None,
        });
    }
    let (5, settings, _) = descriptor(decoder.get(13..)?)? else {
        return None;
    };
    let mut bits = Bits::new(settings);
    let mut kind = bits.take(5)?;
    if kind == 31 {
        kind = 32 + bits.take(6)?;
    }
    let rate = match bits.take(4)? {
        15 => bits.take(24)?,
        index => *RATES.get(index as usize)?,
    };
    let channels = match bits.take(4)? {
        7 => 8,
        channels => channels as u16,
    };
    Some(Sound {
        codec: format!("mp4a.40.{kind}"),
        settings: Some((rate, channels)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_complexity_of_44100_in_stereo() {
        // As ffmpeg writes it: ES, decoder (object 0x40), settings 12 10, sync layer.
        let bytes = [
            3, 0x80, 0x80, 0x80, 0x22, 0, 1, 0, 4, 0x80, 0x80, 0x80, 0x14, 0x40, 0x15, 0, 0, 0, 0,
            1, 0xf4, 0, 0, 1, 0xf4, 0, 5, 0x80, 0x80, 0x80, 2, 0x12, 0x10, 6, 0x80, 0x80, 0x80, 1,
            2,
        ];
        let sound = esds(&bytes).expect("valid");
        assert_eq!(sound.codec, "mp4a.40.2");
        assert_eq!(sound.settings, Some((44_100, 2)));
        for cut in 0..32 {
            assert_eq!(esds(&bytes[..cut]), None, "{cut}");
        }
    }
}
