//! Vocabulary of demands and plans: the specification of a stream, its guarantee, the plan that maps promised streams to
//! paths, and the slots in which packets may be sent.
//!
//! Plain data that the crates of the engine exchange: applications declare a [`StreamSpec`], admission turns guarantees into
//! a [`Plan`], estimators describe [`Slot`]s, and scheduling policies read all of them. Nothing here decides anything.
//!
//! | module | holds |
//! |---|---|
//! | [`stream`] | [`StreamSpec`]: the declaration of a stream by its application |
//! | [`guarantee`] | [`Guarantee`] and [`Demand`]: the promise that a stream asks for |
//! | `drop` | [`DropOrder`]: the ADUs that are dropped first when the stream has more than its share |
//! | [`plan`] | [`Plan`]: the rate of each promised stream on each path; [`Claim`] |
//! | [`slot`] | [`Slot`]: the expected outcome of sending one packet, now or soon |
//! | [`correlation`] | [`Correlation`]: correlation of losses of two slots |
//! | [`preference`] | [`Preferences`]: the paths that a stream uses first, last, in need, or never; [`ChannelChoice`] |
//! | [`profile`] | [`Profile`]: presets of a spec by name |
//! | `tenant` | [`Tenant`]: the user or rule that a stream belongs to on this side; [`Share`] of what can be promised |
//! | `channel_mask` | [`ChannelMask`]: a set of channels |

mod channel_mask;
pub mod correlation;
mod drop;
pub mod guarantee;
mod levels;
mod on_warning;
pub mod plan;
pub mod preference;
pub mod profile;
pub mod slot;
pub mod stream;
mod tenant;

pub use channel_mask::ChannelMask;
pub use correlation::Correlation;
pub use drop::DropOrder;
pub use guarantee::{Demand, Grade, Guarantee, GuaranteeError};
pub use levels::{Levels, LevelsError};
pub use on_warning::OnWarning;
pub use plan::{Assignment, Claim, Plan};
pub use preference::{
    ChannelChoice, PathPrice, PathRule, PathTraits, Preferences, Selector, Treatment,
};
pub use profile::{ParseProfileError, Profile};
pub use slot::Slot;
pub use stream::{
    ADU_BYTES_MAX, CAP_MIN, LABEL_BYTES_MAX, LIFETIME_SHORT, LIFETIME_TIGHT, Order, Priority,
    SpecError, StreamSpec, WEIGHT_MAX,
};
pub use tenant::{ParseShareError, Share, Shares, Tenant};
