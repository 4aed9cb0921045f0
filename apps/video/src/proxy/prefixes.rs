//! Prefixes of videos that the proxy holds already. Without this record every refresh of the catalogue would open all of its
//! videos.

use std::collections::BTreeMap;

use crate::wire::Entry;

/// State of the videos' prefixes.
#[derive(Debug, Default)]
pub(super) struct Prefixes(BTreeMap<String, Known>);

#[derive(Debug)]
struct Known {
    version: String,
    /// Chunks of the prefix; `None`: this version cannot be served.
    chunks: Option<u32>,
}

impl Prefixes {
    /// True if a part of a video's prefix is missing, or nothing is known of it. `holds`: true for a chunk that is stored.
    pub(super) fn is_wanted(&self, entry: &Entry, holds: impl Fn(u32) -> bool) -> bool {
        match self.0.get(&entry.name) {
            Some(known) if known.version == entry.version => {
                known.chunks.is_some_and(|chunks| !(0..chunks).all(holds))
            }
            _ => true,
        }
    }

    /// Records the number of chunks of a video's prefix; `None`: the video cannot be served.
    pub(super) fn note(&mut self, entry: &Entry, chunks: Option<u32>) {
        let version = entry.version.clone();
        self.0.insert(entry.name.clone(), Known { version, chunks });
    }

    /// Forgets videos that are no longer in the catalogue.
    pub(super) fn retain(&mut self, catalogue: &[Entry]) {
        if self.0.len() > catalogue.len() {
            let names: std::collections::BTreeSet<&str> =
                catalogue.iter().map(|entry| &*entry.name).collect();
            self.0.retain(|name, _| names.contains(&**name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, version: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            version: version.to_owned(),
            bytes: 1,
        }
    }

    #[test]
    fn what_is_there_is_not_opened_again() {
        let mut prefixes = Prefixes::default();
        let film = entry("film", "1");
        assert!(prefixes.is_wanted(&film, |_| true), "nothing is known");
        prefixes.note(&film, Some(2));
        assert!(!prefixes.is_wanted(&film, |_| true));
        assert!(prefixes.is_wanted(&film, |chunk| chunk < 1), "given up");
        assert!(prefixes.is_wanted(&entry("film", "2"), |_| true));
        assert!(prefixes.is_wanted(&entry("other", "1"), |_| true));
    }

    /// Its file is not read over and over again in vain.
    #[test]
    fn an_unusable_video_is_not_requested_until_it_changes() {
        let mut prefixes = Prefixes::default();
        prefixes.note(&entry("text", "1"), None);
        assert!(!prefixes.is_wanted(&entry("text", "1"), |_| false));
        assert!(prefixes.is_wanted(&entry("text", "2"), |_| false));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut prefixes = Prefixes::default();
        for name in ["a", "b"] {
            prefixes.note(&entry(name, "1"), Some(1));
        }
        prefixes.retain(&[entry("b", "1")]);
        assert_eq!(prefixes.0.len(), 1);
        assert!(!prefixes.is_wanted(&entry("b", "1"), |_| true));
    }
}
