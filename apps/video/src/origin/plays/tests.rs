//! Plays in virtual time.

use super::*;
use crate::{
    samples::{SIZES, film},
    wire::{Enhanced, Essential},
};

/// A whole film: from the first chunk on, with neither lead nor prefetch.
const ALL: From = From {
    essential: 0,
    enhanced: 0,
    lead_ms: 0,
    ahead_ms: u32::MAX,
};

struct Sent {
    at: Instant,
    play: u32,
    due: Due,
}

/// Plays with a disk of latency `disk`, a pipe that takes everything, and a record of what was sent.
struct World {
    plays: Plays,
    now: Instant,
    video: Arc<Video>,
    sent: Vec<Sent>,
}

fn secs(seconds: f64) -> Instant {
    Instant::EPOCH + Duration::from_secs_f64(seconds)
}

impl World {
    fn new(seconds: u32) -> Self {
        Self {
            plays: Plays::new(),
            now: secs(10.0),
            video: Arc::new(film(seconds)),
            sent: Vec::new(),
        }
    }

    fn start(&mut self, play: u32, from: From) {
        self.plays.start(self.now, play, self.video.clone(), from);
    }

    fn load(&mut self) {
        for wanted in self.plays.wanted(self.now, usize::MAX) {
            let bytes = self.video.bytes(wanted.chunk, wanted.part) as usize;
            self.plays.loaded(&wanted, vec![7; bytes].into());
        }
    }

    /// Runs until `until`, or until nothing more will happen.
    fn run(&mut self, until: f64) {
        loop {
            self.load();
            self.plays.advance(self.now);
            while let Some((play, release)) = self.plays.poll(self.now) {
                self.sent.push(Sent {
                    at: self.now,
                    play,
                    due: release.item,
                });
            }
            self.plays.advance(self.now);
            self.load();
            match self.plays.poll_timeout(self.now) {
                Some(at) if at <= secs(until) => {
                    // The next group begins at once, but time passes all the same.
                    self.now = at.max(self.now + Duration::from_nanos(1));
                }
                _ => break,
            }
        }
        self.now = self.now.max(secs(until));
    }

    /// Time at which the last byte of each chunk's essential part left, of one play.
    fn whole(&self, play: u32) -> BTreeMap<u32, Instant> {
        let of = self.sent.iter().filter(|sent| sent.play == play);
        of.filter_map(|sent| match &sent.due {
            Due::Essential(Essential::Data {
                chunk,
                offset,
                total,
                data,
            }) if u64::from(*offset) + data.len() as u64 == u64::from(*total) => {
                Some((*chunk, sent.at))
            }
            _ => None,
        })
        .collect()
    }

    fn enhanced(&self, play: u32) -> Vec<(Instant, &Enhanced)> {
        let of = self.sent.iter().filter(|sent| sent.play == play);
        of.filter_map(|sent| match &sent.due {
            Due::Enhanced(adu, _) => Some((sent.at, adu)),
            Due::Essential(_) => None,
        })
        .collect()
    }

    /// Chunk, ADUs and frames left out, of each chunk that was reported as sent.
    fn reports(&self, play: u32) -> Vec<(u32, u32, u32)> {
        let of = self.sent.iter().filter(|sent| sent.play == play);
        of.filter_map(|sent| match sent.due {
            Due::Essential(Essential::Sent {
                chunk,
                adus,
                left_out,
            }) => Some((chunk, adus, left_out)),
            _ => None,
        })
        .collect()
    }
}

/// Both flows are whole and in order, the enhanced one at the pace of the film, the essential one a segment ahead.
#[test]
fn a_film_leaves_in_two_flows() {
    let mut world = World::new(30);
    // The proxy has the first segment.
    world.start(
        1,
        From {
            essential: 3,
            ..ALL
        },
    );
    world.run(60.0);
    assert!(world.plays.is_over(1));
    let whole = world.whole(1);
    assert_eq!(
        whole.keys().copied().collect::<Vec<_>>(),
        (3..15).collect::<Vec<_>>()
    );
    for (&chunk, &at) in &whole {
        // Segments of 6 s, chunks of 2 s: all of a segment has left before it plays.
        let segment = u64::from(chunk / 3);
        let plays = secs(10.0) + Duration::from_secs(6 * segment);
        assert!(at <= plays, "chunk {chunk} at {at}");
        assert!(
            at + Duration::from_secs(6) >= plays,
            "chunk {chunk} at {at}: not before"
        );
    }
    let enhanced = world.enhanced(1);
    let bytes: usize = enhanced.iter().map(|(_, adu)| adu.data.len()).sum();
    assert_eq!(bytes as u32, 30 * 8 * (SIZES[1] + 2 * SIZES[2]));
    let numbers = enhanced.iter().map(|(_, adu)| adu.sequence);
    assert!(numbers.eq(0..enhanced.len() as u32));
    for (at, adu) in &enhanced {
        // At most a second before or after its frame's own time: groups last a second.
        let film = Duration::from_secs_f64(f64::from(adu.timestamp) / 90_000.0);
        let apart = at.since(secs(9.0) + film);
        assert!(apart <= Duration::from_millis(2_010), "{at}: {film:?}");
        assert!(*at + Duration::from_secs(1) >= secs(10.0) + film);
    }
    let reports = world.reports(1);
    assert_eq!(reports.len(), 15);
    assert!(
        reports
            .iter()
            .all(|&(_, adus, out)| adus == 2 * 8 * (3 + 2) && out == 0)
    );
}

/// In no second more leaves than both flows' rates and a group's unevenness allow.
#[test]
fn it_leaves_evenly() {
    let mut world = World::new(30);
    world.start(
        1,
        From {
            essential: 3,
            ..ALL
        },
    );
    world.run(60.0);
    let mut slots = BTreeMap::<u64, usize>::new();
    for sent in &world.sent {
        let bytes = match &sent.due {
            Due::Enhanced(adu, _) => adu.data.len(),
            Due::Essential(Essential::Data { data, .. }) => data.len(),
            Due::Essential(_) => 0,
        };
        *slots.entry(sent.at.as_nanos() / 100_000_000).or_default() += bytes;
    }
    // 32 kB of enhanced and 10 kB of essential data a second, plus 5 %.
    let most = slots.values().max().copied().unwrap_or_default();
    assert!(most <= 4_260 + 2 * 1_079 + 1_000, "{most} bytes in 100 ms");
}

/// A play begins in the middle of a segment of which nothing was sent ahead: every chunk has left before the enhanced flow has
/// finished it.
#[test]
fn a_play_that_begins_anywhere_has_every_chunk_in_time() {
    for begin in [0, 1, 4, 8, 13] {
        let mut world = World::new(30);
        let from = From {
            essential: begin,
            enhanced: begin,
            ..ALL
        };
        world.start(1, from);
        world.run(60.0);
        let whole = world.whole(1);
        assert_eq!(whole.len() as u32, 15 - begin);
        for (&chunk, &at) in &whole {
            let through = 2.0 * f64::from(chunk + 1 - begin);
            assert!(
                at <= secs(10.0 + through),
                "from {begin}: chunk {chunk} at {at}"
            );
        }
    }
}

/// A viewer seeks: data that waited for the old position is dropped, and the same rules hold at the new one.
#[test]
fn a_seek_begins_anew() {
    let mut world = World::new(60);
    world.start(1, ALL);
    world.run(15.0);
    let before = world.sent.len();
    let from = From {
        essential: 20,
        enhanced: 20,
        ..ALL
    };
    // Data that was being read at that time is not taken for the new position.
    let old = Wanted {
        play: 1,
        epoch: 1,
        chunk: 4,
        part: Part::Essential,
    };
    assert!(world.plays.wants(&old));
    world.plays.seek(world.now, 1, from);
    assert!(!world.plays.wants(&old));
    world.run(80.0);
    let later: Vec<&Sent> = world.sent[before..].iter().collect();
    assert!(later.iter().all(|sent| match &sent.due {
        Due::Enhanced(adu, _) => adu.chunk >= 20,
        Due::Essential(Essential::Data { chunk, .. } | Essential::Sent { chunk, .. }) =>
            *chunk >= 20,
    }));
    for (chunk, at) in world.whole(1).range(20..) {
        let through = 2.0 * f64::from(chunk + 1 - 20);
        assert!(*at <= secs(15.0 + through), "chunk {chunk} at {at}");
    }
    assert!(world.plays.is_over(1));
}

/// With spare capacity it runs ahead by its lead, and the chunks keep up with it.
#[test]
fn a_lead_is_gained_with_spare_capacity() {
    let mut world = World::new(60);
    world.start(
        1,
        From {
            lead_ms: 6_000,
            ..ALL
        },
    );
    world.plays.set_capacity(world.now, 1.0, &[1.0]);
    world.run(40.0);
    let last = world.enhanced(1).last().map(|(_, adu)| adu.chunk);
    // 30 s of film have passed, 6 more are sent.
    assert!((17..=18).contains(&last.unwrap_or_default()), "{last:?}");
    for (chunk, at) in world.whole(1) {
        let needed = (2.0 * f64::from(chunk + 1) - 6.0).max(1.0 + f64::from(chunk));
        assert!(at <= secs(10.0 + needed), "chunk {chunk} at {at}");
    }
    let (_, need) = world.plays.needs(world.now)[0];
    assert!(need.ahead <= Duration::from_millis(6_100), "{need:?}");
    assert!(need.pace < 1.1, "{need:?}");
}

/// Without capacity for everything, the least needed frames are left out, their number is reported to the proxy, and
/// the rate falls.
#[test]
fn frames_that_do_not_fit_are_left_out() {
    let mut world = World::new(30);
    world.start(1, ALL);
    world.plays.set_capacity(world.now, 0.8, &[0.0]);
    world.run(60.0);
    let reports = world.reports(1);
    assert_eq!(reports.len(), 15);
    assert!(
        reports.iter().all(|&(_, _, out)| (1..32).contains(&out)),
        "{reports:?}"
    );
    let adus = world.enhanced(1);
    let bytes: usize = adus.iter().map(|(_, adu)| adu.data.len()).sum();
    assert!(bytes < 30 * 8 * 4_000 * 81 / 100, "{bytes}");
    // Of 8 P frames and 16 B frames a second the P frames remain.
    let predicted = adus
        .iter()
        .filter(|(_, adu)| adu.sample % 25 % 3 == 1)
        .count();
    assert_eq!(predicted, 30 * 8 * 3);
}

/// A play begins: the others continue as before.
#[test]
fn an_arrival_changes_nothing_for_those_who_play() {
    let run = |others: u32| {
        let mut world = World::new(60);
        world.start(1, ALL);
        world.run(20.0);
        for other in 0..others {
            let from = From {
                essential: 7 + other,
                enhanced: 7 + other,
                ..ALL
            };
            world.start(2 + other, from);
        }
        world.run(30.0);
        for other in 0..others {
            assert!(world.plays.stop(2 + other));
        }
        world.run(90.0);
        let of = world.sent.into_iter().filter(|sent| sent.play == 1);
        of.map(|sent| (sent.at, sent.due)).collect::<Vec<_>>()
    };
    let alone = run(0);
    let among = run(5);
    assert_eq!(alone.len(), among.len());
    for ((at, due), (other_at, other_due)) in alone.iter().zip(&among) {
        assert_eq!(due, other_due);
        let apart = at.since(*other_at).max(other_at.since(*at));
        assert!(apart <= TICK, "{at} and {other_at}");
    }
}

/// A pipe that takes nothing for a while only delays the data.
#[test]
fn data_that_does_not_fit_comes_later() {
    let mut world = World::new(10);
    world.start(1, ALL);
    for step in 0..200 {
        world.load();
        world.plays.advance(world.now);
        while let Some((play, release)) = world.plays.poll(world.now) {
            assert_eq!(play, 1);
            world.plays.put_back(world.now, release);
        }
        world.now = secs(10.0 + f64::from(step) * 0.01);
    }
    world.run(60.0);
    assert!(world.plays.is_over(1));
    assert_eq!(world.whole(1).len(), 5);
    let bytes: usize = world
        .enhanced(1)
        .iter()
        .map(|(_, adu)| adu.data.len())
        .sum();
    assert_eq!(bytes, 10 * 8 * 4_000);
}

/// A play that has ended leaves nothing behind, and data read for it is not taken.
#[test]
fn a_play_that_ended_is_gone() {
    let mut world = World::new(10);
    world.start(1, ALL);
    world.run(12.0);
    assert!(world.plays.stop(1) && !world.plays.stop(1));
    assert_eq!(world.plays.poll_timeout(world.now), None);
    world.plays.seek(world.now, 1, ALL);
    assert_eq!(
        (world.plays.len(), world.plays.wanted(world.now, usize::MAX)),
        (0, vec![])
    );
}
