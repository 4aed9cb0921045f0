//! Set of channels.

/// A set of channels or paths, by index into a list that is at most 64 long, such as the channels of a scheduler's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChannelMask(u64);

impl ChannelMask {
    /// No channel.
    pub const NONE: Self = Self(0);
    /// Every channel.
    pub const ALL: Self = Self(u64::MAX);

    /// Just this channel.
    pub const fn only(index: usize) -> Self {
        Self(1 << index)
    }

    /// Adds a channel.
    pub const fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    /// The channels in this set or in `other`.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The channels in this set and in `other`.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if the channel is in the set.
    pub const fn contains(self, index: usize) -> bool {
        index < 64 && self.0 >> index & 1 == 1
    }

    /// The set as bits: that of value 2ⁿ for index n.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set with these [bits](Self::bits).
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The channels of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                index
            })
        })
    }
}
