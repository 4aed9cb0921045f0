//! Stream specifications, and the policies that decide which fragment takes which slot.
//!
//! This room knows neither QUIC nor wire formats nor time: it looks at [`View`]s the session draws
//! for it and answers with [`Decision`]s. Slots come in, assignments go out.
//!
//! | module | holds |
//! |---|---|
//! | [`spec`] | [`StreamSpec`]: what an application declares about a stream |
//! | [`allocation`] | max–min fair shares: how much each stream may send |
//! | [`mapping`] | resource mapping: promised streams onto paths, and what could be promised instead |
//! | [`guarantee`] | what a distribution of bandwidth lets one promise: Lemmas 1 and 2, splits, buffers |
//! | [`plan`] | [`Plan`]: which path carries how much of which promised stream |
//! | [`view`] | [`ChannelView`], [`StreamView`], [`View`]: what a policy sees |
//! | [`model`] | what to expect of a packet on a channel, by technology; slots and phantoms |
//! | [`policy`] | [`Scheduler`], the one trait, and every policy behind it, one a file |
//! | [`pick`] | which stream goes next: strict priority, then weighted fair shares |
//! | [`assign`] | the best assignment of ADUs to slots, kept from cycle to cycle |
//! | [`arrival`] | when would a packet sent on this channel arrive? |

pub mod allocation;
pub mod arrival;
pub mod assign;
pub mod guarantee;
pub mod mapping;
pub mod model;
pub mod objective;
pub mod pick;
pub mod plan;
pub mod policy;
pub mod spec;
pub mod view;

pub use plan::{Assignment, Plan};
pub use policy::{
    Callback, Coalesced, Decision, Opt, Oracle, Policy, Scheduler, Walk, by_callback,
};
pub use spec::{
    Demand, DropOrder, Grade, Guarantee, GuaranteeError, Order, Priority, SpecError, StreamSpec,
};
pub use view::{Changes, ChannelMask, ChannelView, Claim, StreamView, View};
