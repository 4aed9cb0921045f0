//! Scheduling policies: which fragment takes which slot.
//!
//! This crate uses neither QUIC nor wire formats nor clocks: the session takes a [`View`] for it, and it answers with
//! [`Decision`]s. Slots come in, assignments go out.
//!
//! | module | holds |
//! |---|---|
//! | [`view`] | [`ChannelView`], [`StreamView`], [`View`]: the input of a policy |
//! | [`scheduler`] | [`Scheduler`]: the interface of a policy; [`PromiseScheduler`], [`PlanScheduler`] |
//! | [`policy`] | every policy, one per file |
//! | [`pick`] | order of streams: strict priority, then weighted fair shares |
//! | [`allocation`] | max–min fair shares: the rate of each stream |
//! | [`objective`] | objective-driven scheduling: planners, and the cycle that they decide about |
//! | [`assign`] | the best assignment of ADUs to slots, kept from cycle to cycle |
//! | [`arrival`] | predicted time of arrival of a packet that is sent now |

pub mod allocation;
pub mod arrival;
pub mod assign;
pub mod objective;
pub mod pick;
pub mod policy;
pub mod scheduler;
pub mod view;

pub use policy::{Callback, Opt, Oracle, Policy, Walk, by_callback};
pub use scheduler::{
    AnyScheduler, Coalesced, Decision, PlanScheduler, PromiseScheduler, Scheduler,
};
pub use view::{Changes, ChannelView, StreamView, View};
