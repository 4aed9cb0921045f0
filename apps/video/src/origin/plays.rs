//! All plays of a session, behind one pump: one timer, so that what several flows have to send at a time leaves in small
//! portions [Two-flow §5.2]. Knows no clock and no stream.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch::base::Instant;
use anabranch_media::Part;
use anabranch_twoflow::{Pump, Release};
use bytes::Bytes;

use super::play::{Due, Need, Play, play_of};
use crate::{video::Video, wire::From};

/// Timer resolution of the pump.
const TICK: Duration = Duration::from_millis(5);
/// Maximum number of plays of one session.
pub(super) const PLAYS_MAX: usize = 1_024;

/// A part that is to be read from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The play.
    pub(super) play: u32,
    /// The play's epoch, which comes back with the data.
    pub(super) epoch: u32,
    pub(super) chunk: u32,
    pub(super) part: Part,
}

/// The plays by number.
pub(super) struct Plays {
    pump: Pump<Due>,
    plays: BTreeMap<u32, Play>,
}

impl Plays {
    pub(super) fn new() -> Self {
        Self {
            pump: Pump::new(TICK),
            plays: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.plays.len()
    }

    /// Begins a play; an existing one of the same number ends.
    pub(super) fn start(&mut self, now: Instant, number: u32, video: Arc<Video>, from: From) {
        self.stop(number);
        let play = Play::new(now, (number, video), from, &mut self.pump);
        self.plays.insert(number, play);
    }

    /// Continues a play at another position; ignores unknown plays.
    pub(super) fn seek(&mut self, now: Instant, number: u32, from: From) {
        if let Some(play) = self.plays.get_mut(&number) {
            play.seek(now, from, &mut self.pump);
        }
    }

    /// Ends a play; false if there is none.
    pub(super) fn stop(&mut self, number: u32) -> bool {
        let play = self.plays.remove(&number);
        if let Some(play) = &play {
            play.leave(&mut self.pump);
        }
        play.is_some()
    }

    /// Parts that should be read now, at most `most`; every part once. Plays that did not fit are served in a later call.
    pub(super) fn wanted(&mut self, now: Instant, most: usize) -> Vec<Wanted> {
        let mut all = Vec::new();
        for (&number, play) in &mut self.plays {
            while all.len() < most
                && let Some((chunk, part)) = play.wanted(now)
            {
                all.push(Wanted {
                    play: number,
                    epoch: play.epoch,
                    chunk,
                    part,
                });
            }
        }
        all
    }

    /// True if what was read for this is still wanted: the play runs, and has not sought since.
    pub(super) fn wants(&self, wanted: &Wanted) -> bool {
        let play = self.plays.get(&wanted.play);
        play.is_some_and(|play| play.epoch == wanted.epoch)
    }

    /// Takes data that was read.
    pub(super) fn loaded(&mut self, wanted: &Wanted, data: Bytes) {
        if self.wants(wanted)
            && let Some(play) = self.plays.get_mut(&wanted.play)
        {
            play.loaded(wanted.chunk, wanted.part, data);
        }
    }

    /// Prepares what is due, and what will be soon. To be called before [`Plays::poll`] whenever time has passed or something
    /// has changed. True if the needs of the plays have changed. O(plays).
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        let mut has_changed = false;
        for play in self.plays.values_mut() {
            has_changed |= play.advance(now, &mut self.pump);
        }
        has_changed
    }

    /// The next item that is due, and the play that it belongs to.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(u32, Release<Due>)> {
        let release = self.pump.poll(now)?;
        Some((play_of(release.flow), release))
    }

    /// Takes back an item for which there was no capacity: it is due again at the next tick, before what follows in its flow.
    pub(super) fn put_back(&mut self, now: Instant, release: Release<Due>) {
        // Items of a play that has ended are dropped.
        let _ = self.pump.put_back(now, release);
    }

    /// Time at which to call [`Plays::advance`] and [`Plays::poll`] again, unless something happens before; `None`: only then.
    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let plays = self.plays.values();
        let own = plays.filter_map(|play| play.poll_timeout(now, &self.pump));
        own.chain(self.pump.poll_timeout()).min()
    }

    /// Rates that each play needs of the pipe.
    pub(super) fn needs(&self, now: Instant) -> Vec<(u32, Need)> {
        let plays = self.plays.iter();
        plays
            .map(|(&number, play)| (number, play.need(now)))
            .collect()
    }

    /// Sets the share `part` of enhanced data that all plays send, and the extra speed of each over its film, in the order of
    /// [`Plays::needs`].
    pub(super) fn set_capacity(&mut self, now: Instant, part: f64, extras: &[f64]) {
        for (play, &extra) in self.plays.values_mut().zip(extras) {
            play.set_capacity(now, part, extra, &mut self.pump);
        }
    }

    /// True if everything of a play was handed over.
    #[cfg(test)]
    pub(super) fn is_over(&self, number: u32) -> bool {
        self.plays.get(&number).is_none_or(Play::is_over)
    }
}

#[cfg(test)]
mod tests;
