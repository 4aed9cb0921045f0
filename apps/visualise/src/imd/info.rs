//! Beginning of a session: handshake and session info.

use super::{
    ByteOrder, HANDSHAKE, HEADER_BYTES, Header, ImdError, SESSION_INFO, Section, Sections, VERSION,
};

const INFO_BYTES: usize = 7;
/// Bytes of handshake and session info.
pub const HELLO_BYTES: usize = 2 * HEADER_BYTES + INFO_BYTES;
/// Places of the sections in the info; that of [`WRAPPED`] is between them.
const PLACES: [(usize, Section); 6] = [
    (0, Section::Time),
    (1, Section::Energies),
    (2, Section::Box),
    (3, Section::Positions),
    (5, Section::Velocities),
    (6, Section::Forces),
];
const WRAPPED: usize = 4;

/// Contents of every frame of a session, as a simulation announces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Byte order of bodies.
    pub order: ByteOrder,
    /// Sections of each frame.
    pub sections: Sections,
    /// True if positions are wrapped into the box.
    pub is_wrapped: bool,
}

impl SessionInfo {
    /// Reads handshake and info from the front of `bytes`; `None`: not all is there. A wrong beginning is found as soon as it is there.
    ///
    /// # Errors
    /// It is no handshake of version 3 with its info, or no section is announced.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, ImdError> {
        let Some(first) = Header::read(bytes) else {
            return Ok(None);
        };
        if first.kind != HANDSHAKE {
            return Err(ImdError::NoHandshake(first.kind));
        }
        let order = match (first.value, first.value.swap_bytes()) {
            (VERSION, _) => ByteOrder::Big,
            (_, VERSION) => ByteOrder::Little,
            // Of the two readings, the smaller one was meant.
            (value, swapped) => return Err(ImdError::Version(value.min(swapped))),
        };
        let Some(second) = Header::read(&bytes[HEADER_BYTES..]) else {
            return Ok(None);
        };
        if second.kind != SESSION_INFO || second.value != INFO_BYTES as i32 {
            let Header { kind, value } = second;
            return Err(ImdError::NoInfo { kind, value });
        }
        let Some(options) = bytes.get(2 * HEADER_BYTES..HELLO_BYTES) else {
            return Ok(None);
        };
        let announced = PLACES.iter().filter(|(place, _)| options[*place] != 0);
        let sections: Sections = announced.map(|(_, section)| *section).collect();
        if sections.is_empty() {
            return Err(ImdError::NoSections);
        }
        Ok(Some(Self {
            order,
            sections,
            is_wrapped: options[WRAPPED] != 0,
        }))
    }

    /// Handshake and info as they are sent.
    pub fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let value = match self.order {
            ByteOrder::Big => VERSION,
            ByteOrder::Little => VERSION.swap_bytes(),
        };
        let kind = HANDSHAKE;
        bytes[..HEADER_BYTES].copy_from_slice(&Header { kind, value }.to_bytes());
        let info = Header {
            kind: SESSION_INFO,
            value: INFO_BYTES as i32,
        };
        bytes[HEADER_BYTES..2 * HEADER_BYTES].copy_from_slice(&info.to_bytes());
        let options = &mut bytes[2 * HEADER_BYTES..];
        for (place, section) in PLACES {
            options[place] = u8::from(self.sections.has(section));
        }
        options[WRAPPED] = u8::from(self.is_wrapped);
        bytes
    }
}
