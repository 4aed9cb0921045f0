//! Frames of a part: those that came, and those that were skipped.

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    smartpointer::{
        frame::{FramePart, Part},
        wire::Begun,
    },
    wire::WireError,
};

/// Account of a part, during a session with a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Frames that came.
    pub(super) frames: u64,
    /// Frames that did not come before one that did.
    pub(super) skipped: u64,
    /// The frame that follows at the earliest.
    next: Option<u64>,
    /// The newest frame: its number, the number of its view, its atoms or bonds, its arrival.
    pub(super) newest: Option<(u64, u32, usize, Instant)>,
    /// Rate that is promised, in bit/s.
    pub(super) rate_bps: Option<u64>,
    /// Reason why none is.
    pub(super) why: String,
}

impl Account {
    /// The stream has begun, and this frame is the first that can follow.
    pub(super) fn begun(&mut self, next: u64) {
        self.next = Some(next);
    }

    /// A frame has come on the stream of this part.
    pub(super) fn arrived(
        &mut self,
        part: Part,
        sent: &FramePart,
        begun: &Begun,
        at: Instant,
    ) -> Result<(), WireError> {
        let wrong = |what: &str| Err(WireError(format!("frame {} {what}", sent.frame)));
        if sent.part != part {
            return wrong(&format!("has {} on the stream for {part}", sent.part));
        }
        let is_count = match part {
            Part::Atoms => sent.count() == begun.atoms as usize,
            Part::Bond1 | Part::Bond2 => sent.count() <= begun.bonds as usize,
        };
        if !is_count {
            return wrong(&format!("has {} {part}", sent.count()));
        }
        let last = self.newest.map(|(frame, ..)| frame);
        if last.is_some_and(|last| sent.frame <= last) {
            return wrong("does not follow the one before");
        }
        let next = self.next.unwrap_or(sent.frame);
        self.skipped += sent.frame.saturating_sub(next);
        self.next = Some(sent.frame.saturating_add(1));
        self.frames += 1;
        self.newest = Some((sent.frame, sent.view, sent.count(), at));
        Ok(())
    }
}

/// Record of a frame for a page: length, kind 1, part, two zeros, number, view, four zeros, body; all in little-endian. The body
/// begins at a multiple of 4.
pub(super) fn record(part: &FramePart) -> Bytes {
    const HEAD: usize = 24;
    let mut record = Vec::with_capacity(HEAD + part.body.len());
    let length = (HEAD - 4 + part.body.len()) as u32;
    record.extend(length.to_le_bytes());
    record.extend([1, part.part.index() as u8, 0, 0]);
    record.extend(part.frame.to_le_bytes());
    record.extend(part.view.to_le_bytes());
    record.extend([0; 4]);
    record.extend_from_slice(&part.body);
    record.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smartpointer::frame::BOND_BYTES;

    const BEGUN: Begun = Begun {
        viewer: 1,
        period_us: 40_000,
        atoms: 2,
        bonds: 3,
    };

    fn bonds(frame: u64, count: usize) -> FramePart {
        FramePart {
            part: Part::Bond1,
            frame,
            view: 5,
            body: vec![0; count * BOND_BYTES].into(),
        }
    }

    #[test]
    fn frames_that_do_not_come_are_counted() {
        let mut account = Account::default();
        account.begun(3);
        let now = Instant::now();
        for frame in [4, 5, 9] {
            let bonds = bonds(frame, 3);
            account.arrived(Part::Bond1, &bonds, &BEGUN, now).unwrap();
        }
        assert_eq!((account.frames, account.skipped), (3, 4));
        assert_eq!(account.newest, Some((9, 5, 3, now)));
    }

    #[test]
    fn what_the_source_did_not_announce_is_refused() {
        let mut account = Account::default();
        account.begun(0);
        let now = Instant::now();
        let mut arrived = |sent: &FramePart| account.arrived(Part::Bond1, sent, &BEGUN, now);
        arrived(&bonds(7, 0)).unwrap();
        for wrong in [bonds(7, 1), bonds(2, 1), bonds(8, 4)] {
            arrived(&wrong).unwrap_err();
        }
        let mut other = bonds(8, 0);
        other.part = Part::Bond2;
        arrived(&other).unwrap_err();
        let atoms = FramePart {
            part: Part::Atoms,
            body: vec![0; 12].into(),
            ..bonds(1, 0)
        };
        let mut account = Account::default();
        account
            .arrived(Part::Atoms, &atoms, &BEGUN, now)
            .unwrap_err();
    }

    #[test]
    fn records_have_their_length_and_an_aligned_body() {
        let record = record(&bonds(258, 1));
        assert_eq!(record.len(), 24 + BOND_BYTES);
        assert_eq!(record[..4], 48_u32.to_le_bytes());
        assert_eq!(
            record[4..20],
            [1, 1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]
        );
    }
}
