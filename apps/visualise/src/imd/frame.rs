//! A frame: the sections of one step.

use bytes::{BufMut, Bytes, BytesMut};

use super::{ATOM_BYTES, HEADER_BYTES, Header, Section, Sections};

/// Bodies of the sections of one step, in the byte order of the simulation. Clones share the bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    bodies: [Option<Bytes>; Section::ALL.len()],
}

impl Frame {
    /// The body of a section; `None`: the frame does not have it.
    pub fn get(&self, section: Section) -> Option<&Bytes> {
        self.bodies[section.index()].as_ref()
    }

    /// Sets the body of a section. Its length must be one that the section can have ([`Frame::is_body`]).
    pub fn set(&mut self, section: Section, body: Bytes) {
        debug_assert!(Self::is_body(section, body.len()));
        self.bodies[section.index()] = Some(body);
    }

    /// Sections that it has.
    pub fn sections(&self) -> Sections {
        let has = |section: &Section| self.get(*section).is_some();
        Section::ALL.into_iter().filter(has).collect()
    }

    /// Bytes of all bodies.
    pub fn bytes(&self) -> usize {
        self.bodies.iter().flatten().map(Bytes::len).sum()
    }

    /// Number of atoms; `None`: no section depends on it.
    pub fn atoms(&self) -> Option<u32> {
        let per_atom = Section::ALL
            .into_iter()
            .filter(|section| section.fixed_bytes().is_none());
        let body = per_atom.filter_map(|section| self.get(section)).next()?;
        Some((body.len() / ATOM_BYTES) as u32)
    }

    /// True if a body of the section can have this length.
    pub fn is_body(section: Section, bytes: usize) -> bool {
        match section.fixed_bytes() {
            Some(fixed) => bytes == fixed,
            None => bytes.is_multiple_of(ATOM_BYTES) && bytes <= super::BODY_BYTES_MAX,
        }
    }

    /// The packets of `sections`, in their order; sections that it lacks are left out.
    pub fn packets(&self, sections: Sections) -> Bytes {
        let bodies = || {
            let wanted = sections.iter();
            wanted.filter_map(|section| Some((section, self.get(section)?)))
        };
        let bytes = bodies().map(|(_, body)| HEADER_BYTES + body.len()).sum();
        let mut packets = BytesMut::with_capacity(bytes);
        for (section, body) in bodies() {
            let value = match section.fixed_bytes() {
                Some(_) => 1,
                None => (body.len() / ATOM_BYTES) as i32,
            };
            let kind = section.kind();
            packets.put_slice(&Header { kind, value }.to_bytes());
            packets.put_slice(body);
        }
        packets.freeze()
    }
}
