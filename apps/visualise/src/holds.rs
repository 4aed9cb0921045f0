//! Pauses of several, of which the first pauses and the last to end resumes.

use std::collections::BTreeSet;

/// Those who have something paused, by number.
#[derive(Debug, Default)]
pub(crate) struct Holds(BTreeSet<u64>);

impl Holds {
    /// One more has it paused; true if it is to be paused now.
    pub(crate) fn hold(&mut self, who: u64) -> bool {
        let is_first = self.0.is_empty();
        self.0.insert(who);
        is_first
    }

    /// One does not have it paused any more; true if it is to go on now.
    pub(crate) fn release(&mut self, who: u64) -> bool {
        self.0.remove(&who) && self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_who_resumes_resumes() {
        let mut holds = Holds::default();
        assert!(!holds.release(1), "it was not paused");
        assert!(holds.hold(1));
        assert!(!holds.hold(1) && !holds.hold(2));
        assert!(!holds.release(1));
        assert!(holds.release(2));
        assert!(holds.hold(3));
    }
}
