//! Sections from their parts, which arrive in order on a stream.

use bytes::{Bytes, BytesMut};

use crate::{
    imd::{Frame, Section, Sections},
    wire::{Part, WireError},
};

/// A section of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) section: Section,
    pub(super) frame: u64,
    pub(super) body: Bytes,
}

/// Sections of one stream.
#[derive(Debug)]
pub(super) struct Joining {
    sections: Sections,
    /// The section that follows at the earliest, by frame and place.
    next: (u64, usize),
    /// The section of which a part is there, and the part that follows.
    begun: Option<(Section, u64, u16, u16, BytesMut)>,
}

impl Joining {
    /// `sections`: those of the stream; `next`: number of its first frame.
    pub(super) fn new(sections: Sections, next: u64) -> Self {
        Self {
            sections,
            next: (next, 0),
            begun: None,
        }
    }

    /// A part has arrived; returns the section if it was the last one.
    pub(super) fn arrived(&mut self, part: Part) -> Result<Option<Arrived>, WireError> {
        let Part {
            section,
            frame,
            part: number,
            parts,
            data,
        } = part;
        let wrong = |what: &str| Err(WireError(format!("{what} of frame {frame}, {section}")));
        let body = match self.begun.take() {
            None => {
                if number != 0
                    || !self.sections.has(section)
                    || (frame, section.index()) < self.next
                {
                    return wrong("part");
                }
                match parts {
                    1 => data,
                    _ => {
                        let mut bytes = BytesMut::with_capacity(2 * data.len());
                        bytes.extend_from_slice(&data);
                        self.begun = Some((section, frame, 1, parts, bytes));
                        return Ok(None);
                    }
                }
            }
            Some((of_section, of_frame, next, of_parts, mut bytes)) => {
                if (section, frame, number, parts) != (of_section, of_frame, next, of_parts) {
                    return wrong("another part");
                }
                bytes.extend_from_slice(&data);
                if number + 1 < parts {
                    self.begun = Some((section, frame, number + 1, parts, bytes));
                    return Ok(None);
                }
                bytes.freeze()
            }
        };
        if !Frame::is_body(section, body.len()) {
            return wrong(&format!("{} bytes", body.len()));
        }
        self.next = (frame, section.index() + 1);
        Ok(Some(Arrived {
            section,
            frame,
            body,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PART_BYTES_MAX;

    fn parts(section: Section, frame: u64, bytes: usize) -> Vec<Part> {
        let body = (0..bytes).map(|at| (at % 251) as u8).collect::<Vec<_>>();
        Part::of(section, frame, &body.into()).collect()
    }

    #[test]
    fn sections_of_one_or_more_parts_are_joined() {
        let mut joining = Joining::new(Sections::of(&[Section::Box, Section::Positions]), 4);
        let large = PART_BYTES_MAX / 12 * 36;
        for (section, frame, bytes) in [
            (Section::Box, 4, 36),
            (Section::Positions, 4, large),
            (Section::Positions, 7, 0),
            (Section::Positions, 8, 12),
        ] {
            let all = parts(section, frame, bytes);
            let last = all.len() - 1;
            for (at, part) in all.into_iter().enumerate() {
                let arrived = joining.arrived(part).unwrap();
                assert_eq!(arrived.is_some(), at == last);
                if let Some(arrived) = arrived {
                    assert_eq!((arrived.frame, arrived.body.len()), (frame, bytes));
                    let mut bytes = arrived.body.iter().enumerate();
                    assert!(bytes.all(|(at, byte)| *byte == (at % 251) as u8));
                }
            }
        }
    }

    #[test]
    fn what_cannot_follow_is_refused() {
        let sections = Sections::of(&[Section::Box, Section::Positions]);
        let one = |section, frame, bytes| parts(section, frame, bytes).remove(0);
        let refused = |first: Part, second: Part| {
            let mut joining = Joining::new(sections, 3);
            joining.arrived(first).unwrap();
            joining.arrived(second).unwrap_err();
        };
        let first = || one(Section::Positions, 3, 12);
        refused(first(), first());
        refused(first(), one(Section::Box, 3, 36));
        refused(first(), one(Section::Box, 2, 36));
        refused(first(), one(Section::Forces, 4, 12));
        refused(first(), one(Section::Positions, 4, 13));
        refused(first(), one(Section::Box, 4, 12));
        let large = || parts(Section::Positions, 3, 3 * PART_BYTES_MAX);
        refused(large().remove(0), large().remove(2));
        refused(large().remove(0), large().remove(0));
        refused(large().remove(0), one(Section::Positions, 4, 12));
        let mut joining = Joining::new(sections, 3);
        joining.arrived(large().remove(1)).unwrap_err();
    }
}
