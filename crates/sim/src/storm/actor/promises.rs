//! Checks of promises: their state against their events, their accounts against what was acknowledged, and their rates against
//! what the paths can carry.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, StreamId};
use anabranch_session::{Explanation, Guarantee, PromiseEvent};

use super::{Actor, TICK};
use crate::{
    app::Context,
    storm::{
        invariant::Invariant,
        ledger::{Account, AduOutcome},
        tamper::Tamper,
    },
};

/// Time after which the oldest byte that was not acknowledged is late on any path of a storm, whatever its round trip.
const LATE_MAX: Duration = Duration::from_secs(2);
/// An ADU of no more bytes is always one packet.
const PACKET_BYTES: u64 = 1_000;
/// Looks that reach back over more than a window.
const LOOKS: usize = 64;
/// Margin over the highest rate of a path: acknowledgements of a queue that was held up come faster.
const MARGIN: f64 = 1.15;

/// State of a promised stream at one time.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    /// Bytes of ADUs acknowledged so far.
    acked_bytes: u64,
    /// Bytes of ADUs without an outcome, parts of which may have been acknowledged.
    open_bytes: u64,
    kept: u64,
    broken: u64,
    /// True if the state was not that of the last event.
    differs: bool,
}

/// Promised streams, as observed by their sender. Key: session.
#[derive(Debug, Default)]
pub(super) struct Promises {
    looks: BTreeMap<StreamId, VecDeque<Look>>,
    /// True where the last event says that a promise is in force.
    in_force: BTreeMap<StreamId, bool>,
}

impl Promises {
    pub(super) fn on_event(&mut self, stream: StreamId, event: &PromiseEvent) {
        let in_force = !matches!(event, PromiseEvent::Withdrawn(_));
        self.in_force.insert(stream, in_force);
    }
}

/// Bytes of ADUs that were acknowledged, and of those without an outcome; the time at which the oldest of these was sent.
fn progress(account: &Account) -> (u64, u64, Option<Instant>) {
    let is_acked = |outcomes: &[(Instant, AduOutcome)]| {
        outcomes
            .iter()
            .any(|(_, outcome)| *outcome == AduOutcome::Acked)
    };
    let acked = account.sent.iter().filter(|sent| is_acked(&sent.outcomes));
    let mut open = (account.sent.iter()).filter(|sent| sent.outcomes.is_empty());
    let acked_bytes = acked.map(|sent| sent.bytes as u64).sum();
    let open_bytes = open.clone().map(|sent| sent.bytes as u64).sum();
    (acked_bytes, open_bytes, open.next().map(|sent| sent.at))
}

impl Actor {
    /// Checks all promised streams.
    pub(super) fn look_at_promises(&mut self, context: &mut Context<'_>) {
        let Some(session) = self.session else {
            return;
        };
        let now = context.now();
        let promised: Vec<_> = self
            .outgoing
            .iter()
            .filter(|one| one.is_open() && one.guarantee().is_some())
            .filter_map(|one| Some((one.stream?, one.flow, one.adu_bytes())))
            .collect();
        if promised.is_empty() {
            return;
        }
        let reports = context
            .engine()
            .session(session)
            .map(|mut session| session.channel_stats())
            .unwrap_or_default();
        let mut rates: BTreeMap<usize, u64> = BTreeMap::new();
        for (stream, flow, adu_bytes) in promised {
            let handle = context.engine().session(session).ok();
            let Some(mut explained) = handle.and_then(|handle| handle.stream(stream).explain())
            else {
                continue;
            };
            for (channel, rate) in explained.shares.iter().filter(|_| explained.term.is_some()) {
                let report = reports.iter().find(|report| report.channel == *channel);
                if let Some(report) = report {
                    *rates.entry(report.socket.0 as usize).or_default() += rate.as_bps();
                }
            }
            if self.tampering.what() == Some(Tamper::MisjudgeWindow) {
                let account = &mut explained.account;
                std::mem::swap(&mut account.kept, &mut account.broken);
            }
            let mut ledger = self.shared.ledger.borrow_mut();
            let (acked_bytes, open_bytes, oldest) = progress(ledger.account(flow));
            let in_force = explained.term.is_some();
            let by_events = self.promises.in_force.get(&stream).copied();
            let look = Look {
                differs: by_events.unwrap_or(false) != in_force,
                at: now,
                acked_bytes,
                open_bytes: match (adu_bytes as u64) > PACKET_BYTES {
                    true => open_bytes,
                    false => 0,
                },
                kept: explained.account.kept,
                broken: explained.account.broken,
            };
            let looks = self.promises.looks.entry(stream).or_default();
            // The events of this moment have not come yet.
            if look.differs && looks.back().is_some_and(|last| last.differs) {
                let words = format!("{} at {now}: in force {in_force}", flow.label());
                ledger.contradictions.push((Invariant::PromiseState, words));
            }
            if let Some(words) = contradiction(looks, look, oldest, &explained, adu_bytes as u64) {
                let words = format!("{} at {now}: {words}", flow.label());
                ledger
                    .contradictions
                    .push((Invariant::PromiseAccount, words));
            }
            ledger.windows_judged = ledger.windows_judged.max(look.kept + look.broken);
            if looks.len() == LOOKS {
                looks.pop_front();
            }
            looks.push_back(look);
        }
        let mut ledger = self.shared.ledger.borrow_mut();
        for (path, mut bps) in rates {
            if self.tampering.what() == Some(Tamper::InflatePromise) {
                bps *= 100;
            }
            // Sockets are numbered as the paths are laid.
            let most = self.shared.plan.rate_max(path) * MARGIN;
            ledger.gauges[self.side].promised.note(bps, most.as_bps());
        }
    }
}

/// The contradiction between the judgement of a window that ended since the last look, and what was acknowledged in it.
fn contradiction(
    looks: &VecDeque<Look>,
    look: Look,
    oldest: Option<Instant>,
    explained: &Explanation,
    adu_bytes: u64,
) -> Option<String> {
    let last = looks.back()?;
    let (kept, broken) = (look.kept - last.kept, look.broken - last.broken);
    // A node that was suspended has not observed the end of the window.
    if kept + broken != 1 || look.at.since(last.at) > 2 * TICK {
        return None;
    }
    let guarantee: Guarantee = explained.guarantee;
    let needed = guarantee.required().bytes_in(guarantee.window);
    // The window ended between the two looks.
    let begins_after = last.at - guarantee.window;
    let begins_before = look.at - guarantee.window;
    let outer = looks.iter().rev().find(|look| look.at <= begins_after)?;
    let inner = looks.iter().find(|look| look.at >= begins_before)?;
    let most = look.acked_bytes - outer.acked_bytes + look.open_bytes + 2 * adu_bytes;
    let least = (last.acked_bytes).saturating_sub(inner.acked_bytes + inner.open_bytes);
    let waits = oldest.map_or(Duration::ZERO, |at| look.at.since(at));
    if kept == 1 && most < needed && waits > LATE_MAX {
        return Some(format!(
            "kept with {most} of {needed} bytes, the oldest of the rest for {waits:?}"
        ));
    }
    // Of ADUs that end in the window, parts may have arrived in the one before.
    (broken == 1 && least >= needed + 2 * adu_bytes)
        .then(|| format!("broken with {least} bytes of {needed} acknowledged"))
}
