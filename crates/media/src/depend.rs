//! Which frames need which, from the order of decoding and showing alone.
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

/// Which frames are left out because of others that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dependents {
    /// Any that could depend on a missing frame: when a referenced one is missing, the film stands still until
    /// the next key. Decoders never meet a reference that is not there.
    #[default]
    LeaveOut,
    /// Those that the table of this module names: when a frame between anchors is missing, the next anchor is
    /// shown again. An anchor may refer to that frame, and then shows traces of its loss until the next key.
    /// ffmpeg goes on; Chromium's video element gives up where an H.264 stream names the missing frame
    /// in a marking command, as x264's pyramids do.
    LeaveOutNear,
    /// None: everything that arrived is passed on, and decoders conceal what they miss, if they can.
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

/// How many frames depend on each frame of a track, itself not counted: 0 for those that nobody needs. Complexity
/// O(samples).
pub fn dependents(track: &Track) -> Vec<u32> {
    let roles = roles(track);
    let mut counts = vec![0; roles.len()];
    // Where the next key and the next key or anchor stand.
    let mut key = roles.len();
    let mut anchor = roles.len();
    for (sample, &role) in roles.iter().enumerate().rev() {
        let end = match role {
            Role::Key | Role::Anchor => key,
            Role::Between => anchor,
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

/// Follows the samples of one track in decode order and says which can be shown with what arrived.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    dependents: Dependents,
    roles: Roles,
    is_broken: bool,
    /// A frame between the anchors is missing.
    is_torn: bool,
    /// The group before the last key ended broken.
    was_broken: bool,
}

impl Chain {
    pub(crate) fn new(dependents: Dependents) -> Self {
        Self {
            dependents,
            roles: Roles::default(),
            is_broken: false,
            is_torn: false,
            was_broken: false,
        }
    }

    /// Whether the next sample is usable, given that it arrived or not.
    pub(crate) fn next(&mut self, track: &Track, sample: usize, is_there: bool) -> bool {
        if !track.is_video() || self.dependents == Dependents::Keep {
            return is_there;
        }
        let (role, is_leading) = self.roles.next(track, sample);
        if role == Role::Key {
            self.was_broken = self.is_broken || self.is_torn;
            self.is_broken = !is_there;
            self.is_torn = false;
            return is_there;
        }
        let needs_lost =
            self.is_broken || is_leading && self.was_broken || self.is_torn && role != Role::Anchor;
        let is_usable = is_there && !needs_lost;
        match role {
            Role::Anchor if is_usable => self.is_torn = false,
            Role::Anchor => self.is_broken = true,
            Role::Between if !is_usable => {
                self.is_torn = true;
                // A leading picture's own loss ends with the leading pictures.
                if self.dependents == Dependents::LeaveOut && !is_leading {
                    self.is_broken = true;
                }
            }
            _ => {}
        }
        is_usable
    }
}

/// Where to begin following a track so that all that matters for `sample` is known: the last key but one before it.
pub(crate) fn chain_start(track: &Track, sample: usize) -> usize {
    let before = &track.samples[..sample.min(track.samples.len())];
    let mut keys = (0..before.len()).rev().filter(|&at| before[at].is_sync);
    let last = keys.next();
    keys.next().or(last).unwrap_or(0)
}
