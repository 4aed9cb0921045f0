//! Packets of speech from a file or an encoder: the first stream of Opus in Ogg.

use super::{
    OggError, Packet, Reader,
    opus::{Head, is_speech, is_tags},
};

/// A file or the output of an encoder is no speech that can be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpeechError {
    /// It is none of Ogg.
    #[error(transparent)]
    Ogg(#[from] OggError),
    /// It has no stream of Opus.
    #[error("it has no sound in Opus with one or two channels")]
    NoOpus,
    /// A packet has another length than 20 ms, or too many bytes.
    #[error("it has packets of Opus of another length than 20 ms, or of more than 1,500 bytes")]
    Length,
}

/// Reader of packets.
#[derive(Clone, Debug, Default)]
pub struct Source {
    reader: Reader,
    /// Serial number and header of the stream.
    stream: Option<(u32, Head)>,
    /// There was a packet of speech.
    has_begun: bool,
}

impl Source {
    /// Takes bytes, and returns the packets of speech that are whole with them.
    ///
    /// # Errors
    /// They are none, or packets of another length.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, SpeechError> {
        let mut packets = Vec::new();
        for packet in self.reader.push(bytes)? {
            packets.extend(self.speech(packet)?);
        }
        Ok(packets)
    }

    /// No bytes follow.
    ///
    /// # Errors
    /// There was no stream of Opus.
    pub fn finish(self) -> Result<(), SpeechError> {
        self.stream.map(drop).ok_or(SpeechError::NoOpus)
    }

    fn speech(&mut self, packet: Packet) -> Result<Option<Vec<u8>>, SpeechError> {
        let (serial, bytes) = (packet.serial, packet.bytes);
        if packet.is_first {
            // The first one counts; another that begins after its end goes on with it.
            if (self.stream.is_none() || self.has_begun)
                && let Some(head) = Head::read(&bytes)
            {
                self.stream = Some((serial, head));
            }
            return Ok(None);
        }
        match self.stream {
            Some((of, _)) if of == serial => {}
            Some(_) => return Ok(None),
            // All streams begin before the first goes on.
            None => return Err(SpeechError::NoOpus),
        }
        if bytes.is_empty() || is_tags(&bytes) {
            return Ok(None);
        }
        if !is_speech(&bytes) {
            return Err(SpeechError::Length);
        }
        self.has_begun = true;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speech::{
        ogg::{BEGINS, page},
        opus::tags,
    };

    const SPEECH: [u8; 3] = [8, 1, 2];

    fn file(pages: &[(u32, u8, &[u8])]) -> Vec<u8> {
        let pages = (0..).zip(pages);
        let pages =
            pages.map(|(at, (serial, flags, packet))| page((*serial, at), *flags, 0, &[packet]));
        pages.flatten().collect()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, SpeechError> {
        let mut source = Source::default();
        let packets = source.push(bytes)?;
        source.finish().map(|()| packets)
    }

    #[test]
    fn the_first_stream_of_opus_is_read_and_what_follows_it() {
        let (head, tags) = (Head::like(&SPEECH).to_packet(), tags());
        let bytes = file(&[
            (1, BEGINS, b"theora"),
            (2, BEGINS, &head),
            (3, BEGINS, &head),
            (1, 0, b"picture"),
            (2, 0, &tags),
            (2, 0, &SPEECH),
            (3, 0, &[8, 9]),
            (2, 0, &[]),
            (4, BEGINS, &head),
            (4, 0, &tags),
            (4, 0, &[9 << 3, 1]),
        ]);
        assert_eq!(read(&bytes), Ok(vec![SPEECH.to_vec(), vec![72, 1]]));
    }

    #[test]
    fn other_contents_are_refused() {
        let head = Head::like(&SPEECH).to_packet();
        let other = file(&[(1, BEGINS, b"vorbis"), (1, 0, b"x")]);
        assert_eq!(read(&other), Err(SpeechError::NoOpus));
        assert_eq!(read(b""), Err(SpeechError::NoOpus));
        assert_eq!(read(b"RIFF"), Err(OggError::NoPage.into()));
        // 60 ms.
        let long = file(&[(1, BEGINS, &head), (1, 0, &[24, 1])]);
        assert_eq!(read(&long), Err(SpeechError::Length));
    }
}
