//! Catalogue of the store, and the order of eviction.
//!
//! A video's popularity is the number of its plays, each counting half as much after [`HALF_LIFE_PLAYS`] plays of any video; so
//! it needs no clock, and a proxy that is idle overnight forgets nothing. When there is no space, bodies go before prefixes,
//! then unpopular videos before popular ones, then enhanced before essential data, then the end of a video before its
//! beginning.

use std::collections::BTreeMap;

use super::{Class, Part, StoreStats, VideoKey};

/// Half-life of a play: number of plays after which it counts half.
const HALF_LIFE_PLAYS: f64 = 500.0;
/// Bound on weights: they are scaled down before they overflow.
const WEIGHT_MAX: f64 = 1e100;

#[derive(Debug)]
pub(super) struct Catalogue {
    videos: BTreeMap<VideoKey, Video>,
    bytes: u64,
    limit_bytes: u64,
    /// Current weight of a play; it grows, which is equivalent to a decay of earlier plays.
    weight: f64,
}

#[derive(Debug, Default)]
struct Video {
    score: f64,
    parts: BTreeMap<Part, Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    class: Class,
    bytes: u64,
    /// True if its file exists; otherwise it is being written, and is not evicted.
    is_settled: bool,
}

/// Order of eviction: the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Worth {
    class: Class,
    score: f64,
    kind: u8,
    /// Smaller for later chunks.
    place: i64,
}

fn worth(score: f64, part: Part, class: Class) -> Worth {
    let (kind, place) = match part {
        Part::Enhanced(chunk) => (0, -i64::from(chunk)),
        Part::Essential(chunk) => (1, -i64::from(chunk)),
        Part::Index => (2, 0),
    };
    Worth {
        class,
        score,
        kind,
        place,
    }
}

impl Catalogue {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self {
            videos: BTreeMap::new(),
            bytes: 0,
            limit_bytes,
            weight: 1.0,
        }
    }

    pub(super) fn class_of(&self, key: VideoKey, part: Part) -> Option<Class> {
        let item = self.videos.get(&key)?.parts.get(&part)?;
        item.is_settled.then_some(item.class)
    }

    pub(super) fn touch(&mut self, key: VideoKey) {
        self.weight *= 2f64.powf(1.0 / HALF_LIFE_PLAYS);
        if self.weight > WEIGHT_MAX {
            for video in self.videos.values_mut() {
                video.score /= self.weight;
            }
            self.weight = 1.0;
        }
        let weight = self.weight;
        self.videos.entry(key).or_default().score += weight;
    }

    /// Reserves space for a part that will be written. Returns the parts to evict for it, or `None` when they are worth more.
    pub(super) fn reserve(
        &mut self,
        key: VideoKey,
        part: Part,
        class: Class,
        bytes: u64,
    ) -> Option<Vec<(VideoKey, Part, Class)>> {
        let video = self.videos.get(&key);
        let before = video
            .and_then(|video| video.parts.get(&part))
            .map_or(0, |item| item.bytes);
        let score = video.map_or(0.0, |video| video.score);
        let newcomer = (key, part, worth(score, part, class));
        let excess = self.evict(bytes.saturating_sub(before), Some(newcomer))?;
        let item = Item {
            class,
            bytes,
            is_settled: false,
        };
        let replaced = self.videos.entry(key).or_default().parts.insert(part, item);
        self.bytes = self.bytes - replaced.map_or(0, |item| item.bytes) + bytes;
        Some(excess)
    }

    /// Notes that the part was written, or could not be.
    pub(super) fn settle(&mut self, key: VideoKey, part: Part, is_there: bool) {
        if !is_there {
            self.forget(key, part);
        } else if let Some(item) = self
            .videos
            .get_mut(&key)
            .and_then(|video| video.parts.get_mut(&part))
        {
            item.is_settled = true;
        }
    }

    /// Evicts parts until `bytes` more fit; parts that `newcomer` replaces are not counted, and nothing worth more than it
    /// goes. `None`: they do not fit, and nothing is evicted. Looks at every part while there is no space; a few are evicted at
    /// once, so that this is rare.
    pub(super) fn evict(
        &mut self,
        bytes: u64,
        newcomer: Option<(VideoKey, Part, Worth)>,
    ) -> Option<Vec<(VideoKey, Part, Class)>> {
        let needed = (self.bytes + bytes).saturating_sub(self.limit_bytes);
        if needed == 0 {
            return Some(Vec::new());
        }
        let mut candidates: Vec<(Worth, VideoKey, Part, u64)> = Vec::new();
        for (&key, video) in &self.videos {
            for (&part, item) in &video.parts {
                let own = newcomer.is_some_and(|(k, p, _)| (k, p) == (key, part));
                let worth = worth(video.score, part, item.class);
                let is_less = newcomer.is_none_or(|(_, _, of_new)| worth < of_new);
                if item.is_settled && !own && is_less {
                    candidates.push((worth, key, part, item.bytes));
                }
            }
        }
        candidates.sort_by(|a, b| {
            let by_worth = a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal);
            by_worth.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
        });
        let mut freed = 0;
        let mut count = 0;
        while freed < needed {
            freed += candidates.get(count)?.3;
            count += 1;
        }
        let gone = candidates[..count].iter().map(|&(worth, key, part, _)| {
            self.forget(key, part);
            (key, part, worth.class)
        });
        Some(gone.collect())
    }

    pub(super) fn forget(&mut self, key: VideoKey, part: Part) {
        if let Some(video) = self.videos.get_mut(&key)
            && let Some(item) = video.parts.remove(&part)
        {
            self.bytes -= item.bytes;
        }
    }

    pub(super) fn forget_video(&mut self, key: VideoKey) -> Vec<(VideoKey, Part, Class)> {
        let Some(video) = self.videos.remove(&key) else {
            return Vec::new();
        };
        self.bytes -= video.parts.values().map(|item| item.bytes).sum::<u64>();
        let parts = video.parts.into_iter();
        parts.map(|(part, item)| (key, part, item.class)).collect()
    }

    /// Adds a part of an earlier run; false when it is known already, and then it belongs to the prefix from now on.
    pub(super) fn restore(&mut self, key: VideoKey, part: Part, class: Class, bytes: u64) -> bool {
        let parts = &mut self.videos.entry(key).or_default().parts;
        let item = Item {
            class,
            bytes,
            is_settled: true,
        };
        let kept = match parts.get(&part) {
            Some(known) if known.class == Class::Prefix => *known,
            _ => item,
        };
        let replaced = parts.insert(part, kept);
        self.bytes = self.bytes - replaced.map_or(0, |item| item.bytes) + kept.bytes;
        replaced.is_none()
    }

    /// Popularity as JSON: folder → plays.
    pub(super) fn popularity(&self) -> String {
        let scores = self.videos.iter().filter(|(_, video)| video.score > 0.0);
        let scores = scores.map(|(key, video)| (key.folder(), video.score / self.weight));
        let scores: BTreeMap<_, _> = scores.collect();
        // Numbers and names of digits always serialize.
        serde_json::to_string(&scores).unwrap_or_default()
    }

    /// Restores the output of [`Catalogue::popularity`], as far as it is valid and parts of the video are left.
    pub(super) fn restore_popularity(&mut self, text: &str) {
        let scores: BTreeMap<String, f64> = serde_json::from_str(text).unwrap_or_default();
        for (folder, score) in scores {
            if let Some(key) = VideoKey::of_folder(&folder)
                && let Some(video) = self.videos.get_mut(&key)
                && (0.0..1e9).contains(&score)
            {
                video.score = score;
            }
        }
    }

    pub(super) fn stats(&self) -> StoreStats {
        let items = self.videos.values().flat_map(|video| video.parts.values());
        let prefix = items.filter(|item| item.class == Class::Prefix);
        StoreStats {
            videos: self.videos.values().filter(|v| !v.parts.is_empty()).count() as u64,
            bytes: self.bytes,
            prefix_bytes: prefix.map(|item| item.bytes).sum(),
            limit_bytes: self.limit_bytes,
            ..StoreStats::default()
        }
    }
}
