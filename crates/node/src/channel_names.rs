//! Channels in texts for people: their interfaces, in place of numbers.

use std::collections::BTreeMap;

use anabranch_base::ChannelId;
use anabranch_net::{Host, SessionReport};

/// Beginning of a channel's number in a text.
const PREFIX: &str = "channel-";

/// Names of the channels that there are: the interface, and the peer's address where a session has several channels of one interface.
/// Channels without an interface have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChannelNames(BTreeMap<ChannelId, String>);

impl ChannelNames {
    pub(crate) fn of(sessions: &[SessionReport]) -> Self {
        let mut names = BTreeMap::new();
        for session in sessions {
            let interfaces = || session.channels.iter().map(|channel| &channel.interface);
            for channel in &session.channels {
                let Some(interface) = &channel.interface else {
                    continue;
                };
                let others = interfaces().filter(|other| other.as_ref() == Some(interface));
                let name = match others.count() {
                    1 => interface.to_string(),
                    _ => format!("{interface} → {}", channel.remote),
                };
                names.insert(channel.channel, name);
            }
        }
        Self(names)
    }

    /// The names for texts of which one has a channel in it; reports are only made if one has.
    pub(crate) fn for_texts<'a>(host: &Host, mut texts: impl Iterator<Item = &'a str>) -> Self {
        match texts.any(|text| text.contains(PREFIX)) {
            true => Self::of(&host.sessions()),
            false => Self::default(),
        }
    }

    /// The text with names in place of the numbers of channels that have one.
    pub(crate) fn put(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(PREFIX) {
            let (before, found) = rest.split_at(at);
            let number = &found[PREFIX.len()..];
            let digits = number.len()
                - number
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            let (word, after) = found.split_at(PREFIX.len() + digits);
            let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
            let number = number[..digits].parse().ok().map(ChannelId);
            let name = number.and_then(|number| self.0.get(&number));
            named += before;
            named += name.filter(|_| is_word).map_or(word, String::as_str);
            rest = after;
        }
        named + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_channels_become_names() {
        let names = [(1, "wlan0"), (12, "eth0 → 10.0.0.2:4433")];
        let names = names.map(|(number, name)| (ChannelId(number), name.to_owned()));
        let names = ChannelNames(names.into());
        for (text, named) in [
            ("", ""),
            ("channel-1 provides less", "wlan0 provides less"),
            (
                "channel-1, channel-2 and channel-12 together",
                "wlan0, channel-2 and eth0 → 10.0.0.2:4433 together",
            ),
            ("on channel-1", "on wlan0"),
            ("channel-", "channel-"),
            ("channel-x; sub-channel-1", "channel-x; sub-channel-1"),
            (
                "channel-99999999999999999999999",
                "channel-99999999999999999999999",
            ),
        ] {
            assert_eq!(names.put(text), named);
        }
    }
}
