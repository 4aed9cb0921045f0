//! Dependencies between frames, from decode and presentation order alone.
//!
//! The frames that a frame really refers to are coded in every block of it; reading them would mean decoding. The index
//! suffices for a rule that errs on the safe side for most, whatever the codec:
//!
//! | role | frames | affected when it is missing |
//! |---|---|---|
//! | [`Role::Key`] | sync samples | everything to the next key |
//! | [`Role::Anchor`] | referenced, shown after everything decoded before it (P, and B used as P) | everything to the
//! next key |
//! | [`Role::Between`] | referenced, shown before something decoded before it (B in a pyramid) | everything decoded
//! before the next anchor |
//! | [`Role::Disposable`] | not referenced | nothing |
//!
//! Frames that are decoded after a key and shown before it (leading pictures of an open group) also need the group
//! before.

use crate::index::Track;

/// Role of a frame for others, ordered by importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Decoding can begin here.
    Key,
    /// Part of the chain of frames on which all later ones depend.
    Anchor,
    /// Referenced between two anchors.
    Between,
    /// Not referenced.
    Disposable,
}

/// Treatment of frames that depend on missing ones.
///
/// A referenced frame that is missing or left out is replaced by its stand-in ([`StandIns`](crate::StandIns)), so that
/// the decoder meets no gap. Where it has none (H.265, AV1, H.264 with fields), everything is left out up to the next
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dependents {
    /// The frames in the table of this module are left out. A lost frame between anchors costs its neighbours; an
    /// anchor may refer to it, and then shows traces of its loss until the next key.
    #[default]
    LeaveOutNear,
    /// All frames that could depend on a missing frame are left out: whichever referenced frame is missing, the picture
    /// freezes until the next key. No wrong picture is ever shown.
    LeaveOut,
    /// None is left out: the film continues, with traces of the loss until the next key.
    PassOn,
    /// None is left out and none is replaced: decoders get what arrived, with gaps. ffmpeg conceals them; Chromium's
    /// video element stops with a decoding error.
    Keep,
}

/// Follows the samples of one track in decode order and determines the role of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roles {
    /// Latest presentation time since the last key.
    shown_max: i64,
    /// Presentation time of the last key.
    key: Option<i64>,
}

impl Roles {
    /// Returns the role of the next sample, and whether it is a leading picture.
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

/// Role of every sample of a track.
pub fn roles(track: &Track) -> Vec<Role> {
    let mut roles = Roles::default();
    (0..track.samples.len())
        .map(|sample| roles.next(track, sample).0)
        .collect()
}

/// Number of frames that cannot be shown when one of a track is missing, itself not counted; 0 for those that are not
/// referenced. O(samples).
pub fn dependents(track: &Track) -> Vec<u32> {
    let roles = roles(track);
    let has_stand_ins = !track.stand_ins.is_empty();
    let mut counts = vec![0; roles.len()];
    // Positions of the next key, and of the next key or anchor.
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

/// Treatment of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The sample is written.
    Whole,
    /// Its stand-in is written.
    StandIn,
    /// Nothing is written.
    Out,
}

/// Follows the samples of one track in decode order and determines the treatment of each, given what arrived.
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
    /// True if the group before the last key ended with a loss between its anchors.
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

    /// Treatment of the next sample, given whether it arrived and has a stand-in that fits.
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
        // The loss of a leading picture has no effect beyond the leading pictures.
        let is_lasting = !is_leading;
        self.is_torn = true;
        self.is_frozen |= role == Role::Anchor
            || is_lasting && (self.dependents == Dependents::LeaveOut || outcome == Outcome::Out);
        self.is_broken |= is_lasting && outcome == Outcome::Out;
        outcome
    }
}

/// Sample at which following a track must begin so that everything relevant to `sample` is known: the last key but one
/// before it.
pub(crate) fn chain_start(track: &Track, sample: usize) -> usize {
    let before = &track.samples[..sample.min(track.samples.len())];
    let mut keys = (0..before.len()).rev().filter(|&at| before[at].is_sync);
    let last = keys.next();
    keys.next().or(last).unwrap_or(0)
}
