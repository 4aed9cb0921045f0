//! Bytes of a stream by the channel that carried them.

use anabranch_base::ChannelId;

/// Channels that are remembered; beyond, the one used first is forgotten.
const CHANNELS_MAX: usize = 16;

/// Acknowledged bytes of a stream by channel, copies included; channels in the order of their first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried(Vec<(ChannelId, u64)>);

impl Carried {
    /// O([`CHANNELS_MAX`]); the channels of a session are few.
    pub(crate) fn add(&mut self, channel: ChannelId, bytes: usize) {
        match self.0.iter_mut().find(|(known, _)| *known == channel) {
            Some((_, sum)) => *sum += bytes as u64,
            None => {
                if self.0.len() >= CHANNELS_MAX {
                    self.0.remove(0);
                }
                self.0.push((channel, bytes as u64));
            }
        }
    }

    pub(crate) fn by_channel(&self) -> &[(ChannelId, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_added_by_channel_and_old_channels_are_forgotten() {
        let mut carried = Carried::default();
        for (channel, bytes) in [(1, 100), (2, 50), (1, 7)] {
            carried.add(ChannelId(channel), bytes);
        }
        assert_eq!(
            carried.by_channel(),
            [(ChannelId(1), 107), (ChannelId(2), 50)]
        );
        for channel in 3..100 {
            carried.add(ChannelId(channel), 1);
        }
        assert_eq!(carried.by_channel().len(), CHANNELS_MAX);
        assert_eq!(
            carried.by_channel()[0].0,
            ChannelId(100 - CHANNELS_MAX as u64)
        );
    }
}
