//! Specification of a stream, as its application declares it.

use std::time::Duration;

use anabranch_base::{ChannelId, Rate};

use crate::{DropOrder, Guarantee, GuaranteeError, Preferences, Tenant};

/// Largest application data unit, in bytes.
pub const ADU_BYTES_MAX: usize = 16 << 20;
/// Longest label of a stream, in bytes.
pub const LABEL_BYTES_MAX: usize = 128;
/// A lifetime up to this is short beside the queues that bulk traffic builds.
pub const LIFETIME_SHORT: Duration = Duration::from_secs(1);
/// A stream with a lifetime up to this stays on one path.
pub const LIFETIME_TIGHT: Duration = Duration::from_millis(150);
/// Smallest cap of a stream.
pub const CAP_MIN: Rate = Rate::from_kbps(1);
/// Largest weight of a stream.
pub const WEIGHT_MAX: u32 = 10_000;

/// Order of delivery to the receiving application, and of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// As handed over; an ADU waits for those before it.
    #[default]
    Ordered,
    /// As completed.
    Unordered,
    /// As completed, and of the ADUs that wait to be sent, the newest goes first: after an interruption the receiver has the
    /// present at once, and what it missed after that. Lost parts go before both, and what was begun is finished. To the receiving
    /// node, and for what it sends on a duplex stream, it is [`Order::Unordered`].
    NewestFirst,
}

/// Importance: a larger number goes first, always. Streams of equal priority share by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// Takes only what nobody else wants.
    pub const SCAVENGER: Self = Self(0);
    /// Files and other traffic without hurry.
    pub const BULK: Self = Self(64);
    /// The default.
    pub const NORMAL: Self = Self(128);
    /// Control and conversation: its packets should meet short queues.
    pub const URGENT: Self = Self(192);
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// Specification of a stream. The receiving node learns it when the stream opens, all but the guarantee, the cap,
/// the tenant, the drop order, the path preferences, the redundancy and which ADU goes first, which concern what this side sends.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Lost fragments are sent again, until [`StreamSpec::lifetime`] if there is one.
    pub reliable: bool,
    /// Order of delivery.
    pub order: Order,
    /// An ADU is of no use this long after it was handed over; then it is dropped wherever it is and
    /// its owner notified (`msgLifetime` of RFC 9622). `None`: useful for ever.
    pub lifetime: Option<Duration>,
    /// Importance relative to the session's other streams.
    pub priority: Priority,
    /// Share among streams of equal priority; 1 to 10,000.
    pub weight: u32,
    /// It sends no faster than this, whatever capacity is left: in any time t at most cap · t and
    /// what 50 ms at the cap hold and one packet; copies come on top. `None`: elastic.
    pub cap: Option<Rate>,
    /// Drop order: the ADUs dropped when the application sends more than the stream's share; unreliable streams only.
    /// `None`: nothing, the application is held back when the send buffer is full.
    pub drop: Option<DropOrder>,
    /// The only channel the stream may use; `None`: any.
    pub pinned: Option<ChannelId>,
    /// The paths that the stream uses first, last, in need, or never.
    pub paths: Preferences,
    /// Every packet is sent on every path that has a slot; for small streams that must not be late, and elastic ones only.
    pub redundant: bool,
    /// The promise demanded for the data that this side sends; `None`: it takes its share of what is there.
    /// On the heap, because most streams have none and idle ones are to be small.
    pub guarantee: Option<Box<Guarantee>>,
    /// The tenant on this side, whose streams together are promised a share at most; `None`: none, without a limit.
    pub tenant: Option<Tenant>,
    /// A guaranteed stream may be spread over several paths if none alone suffices. Streams with a
    /// lifetime up to [`LIFETIME_TIGHT`] are not, whatever this value is: parts would wait for each other.
    pub may_split: bool,
    /// The accepting node may send on the stream, too.
    pub duplex: bool,
    /// Of an ADU of which some was lost the receiving application gets the rest, with its gaps marked; what was not sent
    /// yet when some was lost is sent all the same. Unreliable streams only.
    pub partial: bool,
    /// Report every ADU's outcome (`Acked`, `Lost`) to the sender; `Expired` is always reported.
    pub notify: bool,
    /// Report the outcome of every fragment, too, as it becomes known (`Fragment`): an event per packet [Horde §3.2].
    pub notify_fragments: bool,
    /// Words for people and for the accepting application; at most 128 bytes.
    pub label: String,
}

impl Default for StreamSpec {
    /// Reliable, ordered, without deadline: what a byte stream offers.
    fn default() -> Self {
        Self {
            reliable: true,
            order: Order::Ordered,
            lifetime: None,
            priority: Priority::NORMAL,
            weight: 100,
            cap: None,
            drop: None,
            pinned: None,
            paths: Preferences::default(),
            redundant: false,
            guarantee: None,
            tenant: None,
            may_split: true,
            duplex: false,
            partial: false,
            notify: false,
            notify_fragments: false,
            label: String::new(),
        }
    }
}

/// A spec that cannot be honoured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// `weight` is out of range.
    #[error("weight is {0}; it must be from 1 to 10000")]
    Weight(u32),
    /// `lifetime` is out of range.
    #[error("lifetime is {0:?}; it must be from 1 ms to 1 h, or absent")]
    Lifetime(Duration),
    /// `cap` is too small.
    #[error("cap is {0}; it must be at least 1 kbit/s, or absent")]
    Cap(Rate),
    /// `cap` is below what is to be promised.
    #[error(
        "cap is {cap}, less than the {guaranteed} that the guarantee asks for; raise it or leave it out"
    )]
    CapBelowGuarantee {
        /// The cap.
        cap: Rate,
        /// The rate that the guarantee needs.
        guaranteed: Rate,
    },
    /// A reliable stream has a drop order.
    #[error(
        "drop is given, but nothing of a reliable stream is dropped: the application is held back; leave \
         it out, or make the stream unreliable"
    )]
    Drop,
    /// A reliable stream has no ADUs in parts.
    #[error(
        "partial is given, but a reliable stream delivers whole ADUs; leave it out, or make the stream unreliable"
    )]
    Partial,
    /// A promised stream is redundant.
    #[error(
        "redundant cannot be combined with a guarantee, which is mapped to certain paths; leave one of them out"
    )]
    Redundant,
    /// `label` is too long.
    #[error("label has {0} bytes; at most 128 fit")]
    Label(usize),
    /// The guarantee is impossible.
    #[error(transparent)]
    Guarantee(#[from] GuaranteeError),
}

impl StreamSpec {
    /// A file or another transfer without hurry: reliable, ordered, low priority.
    pub fn bulk(label: &str) -> Self {
        Self {
            priority: Priority::BULK,
            label: label.to_owned(),
            ..Self::default()
        }
    }

    /// Messages that must arrive, each as soon as possible, in no particular order.
    pub fn messages(label: &str) -> Self {
        Self {
            order: Order::Unordered,
            priority: Priority::URGENT,
            label: label.to_owned(),
            ..Self::default()
        }
    }

    /// Live data that is worthless after `lifetime`.
    pub fn live(label: &str, lifetime: Duration) -> Self {
        Self {
            order: Order::Unordered,
            lifetime: Some(lifetime),
            priority: Priority::URGENT,
            label: label.to_owned(),
            ..Self::default()
        }
    }

    /// True if the stream is urgent by its priority.
    pub fn is_urgent(&self) -> bool {
        self.priority >= Priority::URGENT
    }

    /// True if the stream's packets should meet short queues, and be repaired before they are known
    /// to be lost: it is urgent, or of no use after [`LIFETIME_SHORT`].
    pub fn is_latency_sensitive(&self) -> bool {
        self.is_urgent() || self.lifetime.is_some_and(|time| time <= LIFETIME_SHORT)
    }

    /// True if a guarantee may be met by several paths together.
    pub fn is_divisible(&self) -> bool {
        self.may_split && self.lifetime.is_none_or(|time| time > LIFETIME_TIGHT)
    }

    /// Asks for `guarantee`.
    #[must_use]
    pub fn with_guarantee(mut self, guarantee: Guarantee) -> Self {
        self.guarantee = Some(Box::new(guarantee));
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(SpecError::Weight(self.weight));
        }
        if let Some(lifetime) = self.lifetime
            && !(Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&lifetime)
        {
            return Err(SpecError::Lifetime(lifetime));
        }
        if let Some(cap) = self.cap
            && cap < CAP_MIN
        {
            return Err(SpecError::Cap(cap));
        }
        if self.reliable && self.drop.is_some() {
            return Err(SpecError::Drop);
        }
        if self.reliable && self.partial {
            return Err(SpecError::Partial);
        }
        if self.redundant && self.guarantee.is_some() {
            return Err(SpecError::Redundant);
        }
        if self.label.len() > LABEL_BYTES_MAX {
            return Err(SpecError::Label(self.label.len()));
        }
        if let Some(guarantee) = &self.guarantee {
            guarantee.validate()?;
            let highest = guarantee.by_level().next();
            let guaranteed = highest.unwrap_or(**guarantee).required();
            if let Some(cap) = self.cap.filter(|&cap| cap < guaranteed) {
                return Err(SpecError::CapBelowGuarantee { cap, guaranteed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        assert_eq!(StreamSpec::default().validate(), Ok(()));
        let with = |change: fn(&mut StreamSpec)| {
            let mut spec = StreamSpec::default();
            change(&mut spec);
            spec.validate()
        };
        assert_eq!(with(|s| s.weight = 0), Err(SpecError::Weight(0)));
        assert!(with(|s| s.lifetime = Some(Duration::from_micros(1))).is_err());
        assert!(with(|s| s.label = "x".repeat(129)).is_err());
        let slow = Rate::from_bps(999);
        assert_eq!(
            with(|s| s.cap = Some(Rate::from_bps(999))),
            Err(SpecError::Cap(slow))
        );
        assert_eq!(with(|s| s.cap = Some(CAP_MIN)), Ok(()));
        assert_eq!(
            with(|s| s.drop = Some(DropOrder::Newest)),
            Err(SpecError::Drop)
        );
        let below = |s: &mut StreamSpec| {
            s.cap = Some(Rate::from_mbps(1));
            let guarantee = Guarantee::rate(Rate::from_mbps(2), 0.95);
            s.guarantee = Some(Box::new(guarantee));
        };
        let refused = with(below).expect_err("less than what is promised");
        assert!(
            refused.to_string().contains("less than the 2.00 Mbit/s"),
            "{refused}"
        );
        let unreliable = |s: &mut StreamSpec| {
            s.reliable = false;
            s.drop = Some(DropOrder::Oldest);
        };
        assert_eq!(with(unreliable), Ok(()));
    }
}
