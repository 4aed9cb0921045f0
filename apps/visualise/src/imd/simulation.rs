//! Reader of what a simulation sends: the beginning, then frames.

use bytes::BytesMut;

use super::{
    ATOM_BYTES, DISCONNECT, Frame, HEADER_BYTES, HELLO_BYTES, Header, ImdError, Section,
    SessionInfo,
};

/// Something that a simulation sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session begins; once, before everything else.
    Begun(SessionInfo),
    /// A whole frame, with all sections that were announced.
    Frame(Frame),
    /// The simulation ends the session.
    Ended,
}

/// Reader of a simulation's bytes. A frame is returned when all of it is there, never in part. After an error there is nothing to read.
#[derive(Debug, Default)]
pub struct Simulation {
    bytes: BytesMut,
    info: Option<SessionInfo>,
    frame: Frame,
    /// Place of the section that follows in the frame.
    next: usize,
}

impl Simulation {
    /// A reader of the beginning of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer to which received bytes are appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// True if a frame is there in part.
    pub fn is_within_frame(&self) -> bool {
        !self.bytes.is_empty() || self.frame != Frame::default()
    }

    /// The next event; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not IMDv3, or not what was announced.
    pub fn next_event(&mut self) -> Result<Option<Event>, ImdError> {
        let Some(info) = self.info else {
            let Some(info) = SessionInfo::read(&self.bytes)? else {
                return Ok(None);
            };
            let _ = self.bytes.split_to(HELLO_BYTES);
            self.info = Some(info);
            return Ok(Some(Event::Begun(info)));
        };
        loop {
            let Some(header) = Header::read(&self.bytes) else {
                return Ok(None);
            };
            let announced = info.sections.iter();
            let expected = announced.into_iter().nth(self.next);
            let expected = expected.expect("a frame is over after its last section");
            if header.kind == DISCONNECT && self.next == 0 {
                return Ok(Some(Event::Ended));
            }
            let body_bytes = self.body_bytes(expected, header)?;
            if self.bytes.len() < HEADER_BYTES + body_bytes {
                self.bytes
                    .reserve(HEADER_BYTES + body_bytes - self.bytes.len());
                return Ok(None);
            }
            let _ = self.bytes.split_to(HEADER_BYTES);
            let body = self.bytes.split_to(body_bytes).freeze();
            self.frame.set(expected, body);
            self.next += 1;
            if self.next == info.sections.iter().count() {
                self.next = 0;
                return Ok(Some(Event::Frame(std::mem::take(&mut self.frame))));
            }
        }
    }

    /// Length of the body behind a header.
    fn body_bytes(&self, expected: Section, header: Header) -> Result<usize, ImdError> {
        if header.kind != expected.kind() {
            let kind = header.kind;
            return Err(ImdError::Unexpected { expected, kind });
        }
        let wrong = ImdError::Count {
            section: expected,
            count: header.value,
        };
        let count = u32::try_from(header.value).map_err(|_| wrong.clone())?;
        if count > expected.count_max() {
            return Err(wrong);
        }
        match expected.fixed_bytes() {
            Some(bytes) if count == 1 => Ok(bytes),
            Some(_) => Err(wrong),
            None => match self.frame.atoms() {
                Some(atoms) if atoms != count => Err(ImdError::Uneven {
                    positions: atoms,
                    section: expected,
                    other: count,
                }),
                _ => Ok(count as usize * ATOM_BYTES),
            },
        }
    }
}
