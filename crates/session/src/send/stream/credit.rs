//! Credit that a stream uses, and what may be sent with what is left of it.

use anabranch_spec::Order;

use super::{SendAdu, SendStream};
use crate::send::ADU_OVERHEAD_BYTES;

impl SendStream {
    /// Credit that sending the next piece would use.
    pub(super) fn next_charge(&self) -> u64 {
        self.charge_of(self.next_new())
    }

    /// Credit that sending a piece of this ADU would use.
    ///
    /// The receiver of an ordered stream hands out no ADU before all preceding ones have arrived. So credit for all
    /// of those is used, too: otherwise ADUs that overtook them could hold the credit that they need. O(ADUs
    /// from the cursor on).
    pub(super) fn charge_of(&self, sequence: u64) -> u64 {
        if !self.spec.reliable {
            return 0;
        }
        let charge = |adu: &SendAdu| match adu.is_charged || adu.done {
            true => 0,
            false => adu.data.len() as u64 + ADU_OVERHEAD_BYTES,
        };
        if self.spec.order != Order::Ordered || sequence <= self.cursor {
            return self.known(sequence).map_or(0, charge);
        }
        self.span(self.cursor, sequence).map(charge).sum()
    }

    /// Uses the credit of [`charge_of`](Self::charge_of).
    pub(super) fn charge_for(&mut self, sequence: u64, charge: u64) {
        if charge == 0 {
            return;
        }
        self.charged += charge;
        assert!(self.charged <= self.credit, "credit permitted it");
        let first = match self.spec.order {
            Order::Ordered => self.cursor.min(sequence),
            Order::Unordered | Order::NewestFirst => sequence,
        };
        for sequence in first..=sequence {
            if let Some(adu) = self.adu(sequence) {
                adu.is_charged = true;
            }
        }
    }

    /// True if a piece could be sent now, given the credit left in the session.
    pub(crate) fn is_sendable(&self, session_credit: u64) -> bool {
        if self.backlog == 0 {
            return false;
        }
        if !self.lost.is_empty() {
            return true;
        }
        self.fits(self.next_charge(), session_credit) || self.begun_ahead().is_some()
    }

    pub(super) fn fits(&self, charge: u64, session_credit: u64) -> bool {
        self.charged + charge <= self.credit && charge <= session_credit
    }

    /// The first ADU with bytes to send that has overtaken the next one, and whose credit is used already: while there is none
    /// for the next one, its own can only come back when all of it is sent. O(ADUs) if any has overtaken another.
    pub(super) fn begun_ahead(&self) -> Option<u64> {
        if self.rare.as_ref().is_none_or(|rare| !rare.has_overtaken) {
            return None;
        }
        let ahead = self.span(self.cursor, u64::MAX - 1);
        let begun = |adu: &SendAdu| !adu.done && adu.is_charged && adu.unsent() > 0;
        (self.cursor..)
            .zip(ahead)
            .find(|(_, adu)| begun(adu))
            .map(|(sequence, _)| sequence)
    }
}
