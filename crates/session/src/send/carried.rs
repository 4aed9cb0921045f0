//! Bytes of a stream by the channel that carried them.

use anabranch_base::ChannelId;

use crate::wire::frame::Place;

/// Channels that are remembered; beyond, the one used first is forgotten.
const CHANNELS_MAX: usize = 16;

/// Acknowledged bytes of a stream by channel, copies included; channels in the order of their first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried(Option<Box<Table>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    rows: Vec<(ChannelId, u64)>,
}

impl Carried {
    /// The first fragment of a stream does not count: most idle streams have carried one message, and need no memory for it.
    /// O([`CHANNELS_MAX`]); the channels of a session are few.
    pub(crate) fn add(&mut self, channel: ChannelId, place: Place, bytes: usize) {
        if (place.sequence, place.offset) == (0, 0) {
            return;
        }
        let rows = &mut self.0.get_or_insert_default().rows;
        match rows.iter_mut().find(|(known, _)| *known == channel) {
            Some((_, sum)) => *sum += bytes as u64,
            None => {
                if rows.len() >= CHANNELS_MAX {
                    rows.remove(0);
                }
                rows.push((channel, bytes as u64));
            }
        }
    }

    pub(crate) fn by_channel(&self) -> &[(ChannelId, u64)] {
        self.0.as_ref().map_or(&[], |table| &table.rows)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::StreamId;

    use super::*;

    #[test]
    fn bytes_are_added_by_channel_and_old_channels_are_forgotten() {
        let mut carried = Carried::default();
        let mut place = Place {
            stream: StreamId(0),
            sequence: 0,
            offset: 0,
        };
        carried.add(ChannelId(1), place, 1_000);
        assert_eq!(carried.by_channel(), [], "the first fragment");
        place.offset = 1_000;
        for (channel, bytes) in [(1, 100), (2, 50), (1, 7)] {
            carried.add(ChannelId(channel), place, bytes);
        }
        let expected = [(ChannelId(1), 107), (ChannelId(2), 50)];
        assert_eq!(carried.by_channel(), expected);
        for channel in 3..100 {
            carried.add(ChannelId(channel), place, 1);
        }
        assert_eq!(carried.by_channel().len(), CHANNELS_MAX);
        let oldest = ChannelId(100 - CHANNELS_MAX as u64);
        assert_eq!(carried.by_channel()[0].0, oldest);
    }
}
