//! Shares of tenants: the most that the streams of a user, or of a rule, may have promised together.
//!
//! A stream of a tenant with the share s is promised a rate r, headers included, if
//!
//! ```text
//! r + h ≤ s · (a + p)
//! ```
//!
//! | | in bits per second, on the paths that the stream may use |
//! |---|---|
//! | a | the largest rate that admission would promise to one stream with this demand, for this term, if its session had promised nothing; beside the promises of other sessions |
//! | p | promises in force of other sessions on the uplinks of these paths, as far as they share the capacity |
//! | h | promises in force of the tenant's other streams, of all sessions: part of p, or on the paths themselves |
//!
//! So a + p is what could be promised if nothing were, with the caution of a new stream; within one session it is a alone. The rule is
//! applied when a promise is made or raised. One that is in force is not taken back when the paths carry less, and may be exchanged for a smaller one.

use crate::mapping::{Offer, Request, alone, offer};
use anabranch_base::Rate;
use anabranch_spec::{ChannelMask, Share, Tenant};

use super::{
    Channels, OVERHEAD, Promises,
    answer::{Reason, Refusal},
    as_displayed,
    beside::Kind,
};

/// Rates within this of each other are equal, in bits per second: demands and offers are whole numbers of them.
const EQUAL_BPS: f64 = 1.0;

/// Share of a tenant on the paths that one stream may use; rates in bits per second, headers included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowance {
    share: Share,
    /// Rate that could be promised if nothing were.
    whole_bps: f64,
    /// Rate that other streams of the tenant have.
    has_bps: f64,
    /// Rate that the stream itself has.
    own_bps: f64,
}

impl Allowance {
    /// The most that the stream may be promised: what is left of the share, or what it has.
    pub(super) fn most_bps(&self) -> f64 {
        (self.share.get() * self.whole_bps - self.has_bps).max(self.own_bps)
    }

    pub(super) fn permits(&self, rate_bps: f64) -> bool {
        rate_bps <= self.most_bps() + EQUAL_BPS
    }

    /// Refusal of a request that exceeds the share, with the largest rate that does not and can be mapped beside `others`.
    pub(super) fn refusal(&self, wanted: &Request, offered: Option<Rate>) -> Refusal {
        Refusal {
            reason: Reason::OverShare {
                share: self.share,
                whole: Rate::from_bps(self.whole_bps as u64),
                has: Rate::from_bps(self.has_bps as u64),
                needed: Rate::from_bps(wanted.rate_bps as u64),
            },
            offer: Offer {
                rate: offered.map(as_displayed).filter(|rate| *rate > Rate::ZERO),
                ..Offer::default()
            },
        }
    }
}

impl Promises {
    /// The share of a tenant for a request of one of its streams; `None`: there is no limit, or too little is known of the paths, for
    /// which the mapping refuses it.
    pub(super) fn allowance(
        &mut self,
        tenant: Option<Tenant>,
        wanted: &Request,
        channels: Channels<'_>,
    ) -> Option<Allowance> {
        let tenant = tenant?;
        let share = *self.shares.get(&tenant)?;
        let usable = wanted.permitted.iter();
        let usable = usable.filter(|&path| channels.get(path).is_some_and(Option::is_some));
        let usable = usable.fold(ChannelMask::NONE, ChannelMask::with);
        let new = Request {
            caution: 1.0,
            ..wanted.clone()
        };
        let alone_bps = alone::largest(&new, &mut self.view(channels))?;
        let (mut others_bps, mut has_bps) = (0.0, 0.0);
        let session = self.uplinks.session();
        for uplink in self.uplinks.all() {
            let mut paths = uplink.paths.and(usable).iter();
            if !paths.any(|path| self.history.is_shared(path)) {
                continue;
            }
            let in_force = uplink.others(session);
            for one in in_force.filter(|one| one.standing.kind != Kind::Waiting) {
                others_bps += one.bps;
                has_bps += if one.tenant == Some(tenant) {
                    one.bps
                } else {
                    0.0
                };
            }
        }
        let mut own_bps = 0.0;
        for (&stream, entry) in self.streams.iter().filter(|(_, entry)| entry.is_in_force()) {
            if stream == wanted.stream {
                own_bps = entry.guarantee.required().as_bps() as f64 * OVERHEAD;
            } else if entry.tenant == Some(tenant) {
                let placed = entry.placement.shares.iter();
                let placed = placed.filter(|(path, _)| usable.contains(*path));
                has_bps += placed.map(|(_, bps)| bps).sum::<f64>();
            }
        }
        Some(Allowance {
            share,
            whole_bps: alone_bps.max(0.0) + others_bps,
            has_bps,
            own_bps,
        })
    }

    /// True if the share of the stream's tenant permits this request.
    pub(super) fn is_within_share(
        &mut self,
        tenant: Option<Tenant>,
        wanted: &Request,
        channels: Channels<'_>,
    ) -> bool {
        let allowance = self.allowance(tenant, wanted, channels);
        allowance.is_none_or(|allowance| allowance.permits(wanted.rate_bps))
    }

    /// The same for a request of a stream that there is.
    pub(super) fn may_have(&mut self, wanted: &Request, channels: Channels<'_>) -> bool {
        let entry = self.streams.get(&wanted.stream);
        let tenant = entry.and_then(|entry| entry.tenant);
        self.is_within_share(tenant, wanted, channels)
    }

    /// True if all streams that wait can be promised what they wait for, as far as the shares of their tenants decide. Where it is not clear
    /// before the one or the other is promised, it is false.
    pub(super) fn may_all_have(&mut self, requests: &[Request], channels: Channels<'_>) -> bool {
        if self.shares.is_empty() {
            return true;
        }
        let mut promised: Vec<(Tenant, f64)> = Vec::new();
        for request in requests {
            let Some(entry) = self.streams.get(&request.stream) else {
                continue;
            };
            let (Some(tenant), false) = (entry.tenant, entry.is_in_force()) else {
                continue;
            };
            let before = promised.iter().filter(|(other, _)| *other == tenant);
            let before_bps: f64 = before.map(|(_, bps)| bps).sum();
            let allowance = self.allowance(Some(tenant), request, channels);
            if allowance.is_some_and(|a| !a.permits(before_bps + request.rate_bps)) {
                return false;
            }
            promised.push((tenant, request.rate_bps));
        }
        true
    }

    /// The refusal of a request that exceeds the share of its tenant; `None`: it does not. `others`: the promises in force.
    pub(super) fn refuse_over_share(
        &mut self,
        tenant: Option<Tenant>,
        wanted: &Request,
        others: &[Request],
        channels: Channels<'_>,
    ) -> Option<Refusal> {
        let allowance = self.allowance(tenant, wanted, channels)?;
        if allowance.permits(wanted.rate_bps) {
            return None;
        }
        let most = Request {
            rate_bps: allowance.most_bps(),
            ..wanted.clone()
        };
        let offered = offer::rate_up_to(&most, others, &mut self.view(channels));
        Some(allowance.refusal(wanted, offered))
    }
}

#[cfg(test)]
mod tests;
