//! Dependencies between frames, from the order of decoding and showing alone.
//!
//! Whom a frame really refers to stands in every block of it; reading that is decoding. What the index knows
//! is enough for a rule that errs on the safe side for most, whatever the codec:
//!
//! | role | which frames | what suffers when it is missing |
//! |---|---|---|
//! | [`Role::Key`] | sync samples | everything to the next key |
//! | [`Role::Anchor`] | referenced, shown after all that was decoded before it (P, and B used as P) | everything to the next key |
//! | [`Role::Between`] | referenced, shown before something that was decoded before it (B in a pyramid) | what is decoded before the next anchor |
//! | [`Role::Disposable`] | not referenced | nothing |
//!
//! Frames that are decoded after a key and shown before it (leading pictures of an open group) also need
//! the group before.

use crate::index::Track;

/// What a frame is for others. Ordered by importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Decoding can begin here.
    Key,
    /// The chain of frames that all later ones hang on.
    Anchor,
    /// Referenced between two anchors.
    Between,
    /// Nobody needs it.
    Disposable,
}

/// Outcome of frames that need others which are missing.
///
/// A referenced frame that is missing or left out is replaced by its stand-in ([`StandIns`](crate::StandIns)), so that the
/// decoder meets no gap. Where it has none (H.265, AV1, H.264 with fields) all is left out to the next key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dependents {
    /// Those that the table of this module names are left out. A lost frame between anchors costs its
    /// neighbours; an anchor may refer to it, and then shows traces of its loss until the next key.
    #[default]
    LeaveOutNear,
    /// All that could depend on a missing frame are left out: whatever referenced frame is missing, the film
    /// stands still until the next key. Nothing false is ever shown.
    LeaveOut,
    /// None is left out: the film goes on, with traces of the loss until the next key.
    PassOn,
    /// None is left out and none replaced: decoders get what arrived, gaps and all. ffmpeg conceals them;
    /// Chromium's video element ends with a decoding error.
    Keep,
}

/// Follows the samples of one track in decode order and says each one's role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roles {
    /// Latest time shown since the last key.
    shown_max: i64,
    /// When the last key is shown.
    key: Option<i64>,
}

impl Roles {
    /// The role of the next sample, and whether it is a leading picture.
    pub(crate) fn next(&mut self, track: &Track, sample: usize) -> (Role, bool) {
        let sample = &track.samples[sample];
        let shown = track.presentation_time(sample);
        if sample.is_sync {
            self.key = Some(shown);
            self.shown_max = shown;
            let role = if track.is_video() {
                Role::Key
            } else {
                Role::Disposable
            };
            return (role, false);
        }
        let is_leading = self.key.is_some_and(|key| shown < key);
        let role = if !sample.is_referenced {
            Role::Disposable
        } else if shown >= self.shown_max || self.key.is_none() {
            Role::Anchor
        } else {
            Role::Between
        };
        self.shown_max = self.shown_max.max(shown);
        (role, is_leading)
    }
}

/// The role of every sample of a track.
pub fn roles(track: &Track) -> Vec<Role> {
    let mut roles = Roles::default();
    (0..track.samples.len())
        .map(|sample| roles.next(track, sample).0)
        .collect()
}

/// Number of frames that cannot be shown when one of a track is missing, itself not counted: 0 for those that nobody needs.
/// Complexity O(samples).
pub fn dependents(track: &Track) -> Vec<u32> {
    let roles = roles(track);
    let has_stand_ins = !track.stand_ins.is_empty();
    let mut counts = vec![0; roles.len()];
    // Where the next key and the next key or anchor stand.
    let mut key = roles.len();
    let mut anchor = roles.len();
    for (sample, &role) in roles.iter().enumerate().rev() {
        let end = match role {
            Role::Key | Role::Anchor => key,
            // Without a stand-in the decoder must get nothing until the next key.
            Role::Between if has_stand_ins => anchor,
            Role::Between => key,
            Role::Disposable => sample + 1,
        };
        counts[sample] = (end - sample - 1) as u32;
        match role {
            Role::Key => (key, anchor) = (sample, sample),
            Role::Anchor => anchor = sample,
            Role::Between | Role::Disposable => {}
        }
    }
    counts
}

/// Outcome of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is there.
    Whole,
    /// Its stand-in is there.
    StandIn,
    /// Nothing is there.
    Out,
}

/// Follows the samples of one track in decode order and says what becomes of each, given what arrived.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    dependents: Dependents,
    roles: Roles,
    /// An anchor is missing: nothing can be shown until the next key.
    is_frozen: bool,
    /// A frame between the anchors is missing.
    is_torn: bool,
    /// A referenced frame is missing and has no stand-in: the decoder must get nothing until the next key.
    is_broken: bool,
    /// How the group before the last key ended.
    was_torn: bool,
    was_broken: bool,
}

impl Chain {
    pub(crate) fn new(dependents: Dependents) -> Self {
        Self {
            dependents,
            roles: Roles::default(),
            is_frozen: false,
            is_torn: false,
            is_broken: false,
            was_torn: false,
            was_broken: false,
        }
    }

    /// Outcome of the next sample, given whether it arrived and has a stand-in that fits.
    pub(crate) fn next(
        &mut self,
        track: &Track,
        sample: usize,
        is_there: bool,
        has_stand_in: bool,
    ) -> Outcome {
        if !track.is_video() || self.dependents == Dependents::Keep {
            return if is_there {
                Outcome::Whole
            } else {
                Outcome::Out
            };
        }
        let (role, is_leading) = self.roles.next(track, sample);
        if role == Role::Key {
            self.was_torn = self.is_frozen || self.is_torn;
            self.was_broken = self.is_broken;
            self.is_torn = false;
            self.is_frozen = !is_there;
            self.is_broken = !is_there;
            return if is_there {
                Outcome::Whole
            } else {
                Outcome::Out
            };
        }
        let is_cut = self.is_broken || is_leading && self.was_broken;
        let needs_lost = self.dependents != Dependents::PassOn
            && (self.is_frozen
                || is_leading && self.was_torn
                || self.is_torn && role != Role::Anchor);
        if is_there && !needs_lost && !is_cut {
            if role == Role::Anchor {
                self.is_torn = false;
            }
            return Outcome::Whole;
        }
        if role == Role::Disposable {
            return Outcome::Out;
        }
        let outcome = if has_stand_in && !is_cut {
            Outcome::StandIn
        } else {
            Outcome::Out
        };
        // The loss of a leading picture ends with the leading pictures.
        let is_lasting = !is_leading;
        self.is_torn = true;
        self.is_frozen |= role == Role::Anchor
            || is_lasting && (self.dependents == Dependents::LeaveOut || outcome == Outcome::Out);
        self.is_broken |= is_lasting && outcome == Outcome::Out;
        outcome
    }
}

/// Place where to begin following a track so that all that matters for `sample` is known: the last key but one before it.
pub(crate) fn chain_start(track: &Track, sample: usize) -> usize {
    let before = &track.samples[..sample.min(track.samples.len())];
    let mut keys = (0..before.len()).rev().filter(|&at| before[at].is_sync);
    let last = keys.next();
    keys.next().or(last).unwrap_or(0)
}
