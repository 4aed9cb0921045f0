//! A subscriber's account of what it has.

use super::Position;

/// Place of a subscriber: what it has, so that it can return there, and leave out what it gets twice.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Run of the source.
    run: Option<u64>,
    /// Place in the source's stream to return to.
    position: Option<Position>,
    /// Number of the source's ADU of which the last one came, and how many of it.
    last: Option<(u64, usize)>,
    /// The same of what comes after a return.
    seen: Option<(u64, usize)>,
}

impl Progress {
    /// Run of the source; `None` before the first session.
    pub fn run(&self) -> Option<u64> {
        self.run
    }

    /// Place to return to; `None` before the first session.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Number of the source's ADU before which everything derived is held.
    pub fn held(&self) -> Option<u64> {
        self.position.as_ref().map(|position| position.next)
    }

    /// A session has begun with this run of the source, at this place.
    pub fn begun(&mut self, run: u64, position: Position) {
        self.seen = None;
        if self.run.replace(run) != Some(run) {
            self.last = None;
            self.position = Some(position);
        }
    }

    /// Everything before this place has come.
    pub fn marked(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// A derived ADU has come, of the source's ADU with this number; true if the subscriber does not have it yet.
    pub fn arrived(&mut self, sequence: u64) -> bool {
        let count = match self.seen {
            Some((before, count)) if before == sequence => count + 1,
            _ => 1,
        };
        self.seen = Some((sequence, count));
        self.last < self.seen
    }

    /// The ADU that has come last is held; with `is_last`, no other was derived from the same one of the source.
    pub fn taken(&mut self, is_last: bool) {
        self.last = self.last.max(self.seen);
        let Some((sequence, _)) = self.seen.filter(|_| is_last) else {
            return;
        };
        self.position = Some(Position {
            next: sequence + 1,
            phases: None,
        });
    }
}
