//! Derivation: a source stream and a pipeline, for one subscriber or several.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    charge_state,
    table::Subscriber,
    terms::{SourceId, SubscriberId},
};
use crate::{Running, memory::Charge};

/// ADUs of a source between two requests, on account of losses, for one that needs none before. Each makes the stream
/// larger for all subscribers, so that one who loses often is not to cause many.
const RESYNC_GAP: u32 = 8;

#[derive(Debug)]
pub(super) struct Derivation {
    pub(super) source: SourceId,
    pub(super) running: Running,
    /// For the state of its operators, to the account of its first subscriber.
    charge: Option<Charge>,
    pub(super) subscribers: BTreeSet<SubscriberId>,
    /// ADUs of the source since the last one that needed none before was asked for.
    since_resync: u32,
    /// A subscriber has lost ADUs and waits.
    pub(super) is_resync_wanted: bool,
}

impl Derivation {
    pub(super) fn new(source: SourceId, running: Running) -> Self {
        Self {
            source,
            running,
            charge: None,
            subscribers: BTreeSet::new(),
            since_resync: 0,
            is_resync_wanted: false,
        }
    }

    /// Charges the first subscriber for the operators' state. If that may not be, what they keep between ADUs is forgotten.
    pub(super) fn charge(&mut self, subscribers: &BTreeMap<SubscriberId, Subscriber>) {
        let first = self.subscribers.first().and_then(|id| subscribers.get(id));
        let Some(account) = first.map(|subscriber| subscriber.queue.account()) else {
            return;
        };
        charge_state(&mut self.running, &mut self.charge, account);
    }

    pub(super) fn resync(&mut self) {
        self.running.resync();
        self.since_resync = 0;
        self.is_resync_wanted = false;
    }

    pub(super) fn resync_if_due(&mut self) {
        self.since_resync = self.since_resync.saturating_add(1);
        if self.is_resync_wanted && self.since_resync > RESYNC_GAP {
            self.resync();
        }
    }
}
