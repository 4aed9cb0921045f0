//! Replay: state kept between runs, against queues that are filled anew for each.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use proptest::prelude::*;

use super::*;
use crate::{
    arrival::tests::channel,
    pick::tests::stream,
    view::{ChannelView, StreamView},
};
use anabranch_spec::{Assignment, ChannelChoice, Priority};

const PACKET: u64 = 1400;

/// Numbers below a bound, from a seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * bound) >> 31
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    fn plan(&mut self, streams: usize, paths: u64) -> Plan {
        let mut assignments = Vec::new();
        for stream in (0..streams)
            .filter(|_| self.below(4) > 0)
            .collect::<Vec<_>>()
        {
            let window = Duration::from_millis(self.of(&[20, 100, 500, 1000, 1000]));
            let packets = 1.0 + self.below(40) as f64;
            let window_bytes =
                packets * window.as_secs_f64() * PACKET as f64 * self.of(&[1.0, 20.0]);
            let parts = self.of(&[0, 1, 1, 1, 2, 3]).min(paths);
            let first = self.below(paths);
            let share = |part| ChannelId((first + part) % paths);
            assignments.push(Assignment {
                stream: StreamId(stream as u64),
                window,
                window_bytes,
                constraint: self.of(&[1.0, 1.0, 0.9, 0.5]),
                may_split: self.below(2) == 0,
                shares: (0..parts)
                    .map(|part| (share(part), window_bytes / parts as f64))
                    .collect(),
            });
        }
        for index in (1..assignments.len()).rev() {
            assignments.swap(index, self.below(index as u64 + 1) as usize);
        }
        Plan { assignments }
    }

    fn channels(&mut self, paths: u64) -> Vec<ChannelView> {
        let mut channels = Vec::new();
        for id in 0..paths {
            let (slots, rtt_ms) = (self.below(5) as usize, 10 + self.below(150));
            let mut view = channel(id, slots, rtt_ms, 1.0 + self.below(50) as f64);
            if self.below(4) == 0 {
                view.in_flight_bytes = self.below(300_000);
            }
            if self.below(12) > 0 {
                channels.push(view);
            }
        }
        channels
    }
}

/// The streams in view: those that wait, and of the others those in `spent`.
fn views(backlogs: &[u64], spent: &[bool], channels: &[ChannelView]) -> Vec<StreamView> {
    let view = |id: usize| StreamView {
        pinned: (id % 11 == 3).then(|| channels.iter().position(|c| c.id.0 == id as u64 % 3)),
        choice: ChannelChoice::default(),
        redundant: false,
        ..stream(
            id as u64,
            Priority::NORMAL,
            100 + 50 * (id as u32 % 3),
            backlogs[id],
        )
    };
    (0..backlogs.len())
        .filter(|&id| backlogs[id] > 0 || spent[id])
        .map(view)
        .collect()
}

fn seen<'a>(now: Instant, channels: &'a [ChannelView], streams: &'a [StreamView]) -> View<'a> {
    View {
        now,
        channels,
        streams,
    }
}

/// Two schedulers through the same runs: one is notified of changes, and sees streams that no longer wait; the other
/// empties its queues before each run and sees only those that did when it began. Returns packets sent.
fn replay(seed: u64) -> usize {
    let mut draws = Draws(seed);
    let (streams, paths) = (1 + draws.below(40) as usize, 1 + draws.below(6));
    let rest = 2 + draws.below(5);
    let (mut kept, mut anew) = (Pgos::default(), Pgos::default());
    let mut backlogs = vec![0; streams];
    let mut changed = Vec::new();
    let mut now = Instant::from_millis(draws.below(3000));
    let mut packets = 0;
    for run in 0..100 {
        let pauses = [0, 0, 0, 1000, 3000, 8000, 8000, 60_000, 60_000, 1_500_000];
        now += Duration::from_micros(draws.of(&pauses));
        if run == 0 || draws.below(30) == 0 {
            let plan = draws.plan(streams, paths);
            kept.remap(now, &plan);
            anew.remap(now, &plan);
        }
        for (id, backlog) in backlogs.iter_mut().enumerate() {
            if draws.below(rest) == 0 {
                *backlog += draws.of(&[500, 1400, 6000, 1 << 20]);
                changed.push(StreamId(id as u64));
            }
        }
        let spent: Vec<bool> = (0..streams).map(|_| draws.below(2) == 0).collect();
        let mut channels = draws.channels(paths);
        let mut all = views(&backlogs, &spent, &channels);
        let mut waiting = views(&backlogs, &vec![false; streams], &channels);
        for share in &anew.shares {
            if let Some(path) = anew.paths.get_mut(share.path) {
                path.take(share);
            }
        }
        kept.begin(&seen(now, &channels, &all), Changes::Only(&changed));
        anew.begin(&seen(now, &channels, &waiting), Changes::Any);
        changed.clear();
        for _ in 0..draws.below(60) {
            let one = kept.next(&seen(now, &channels, &all));
            let other = anew.next(&seen(now, &channels, &waiting));
            let (
                Decision::Send {
                    stream: at,
                    channels: mask,
                },
                Decision::Send {
                    stream: there,
                    channels: same,
                },
            ) = (one, other)
            else {
                assert_eq!(one, other);
                break;
            };
            let id = all[at].id;
            assert_eq!((id, mask), (waiting[there].id, same), "run {run}");
            changed.push(id);
            if draws.below(25) == 0 {
                // It had nothing that could be sent after all.
                all[at].backlog_bytes = 0;
                waiting[there].backlog_bytes = 0;
                continue;
            }
            // What is left of the packet goes to another stream.
            let mut left = PACKET;
            let along = draws.below(waiting.len() as u64) as usize;
            for place in [there, along] {
                let id = waiting[place].id;
                let at = all.iter().position(|view| view.id == id).unwrap();
                let bytes = left.min(waiting[place].backlog_bytes);
                if bytes == 0 {
                    continue;
                }
                kept.sent(&seen(now, &channels, &all), at, mask, bytes as usize);
                anew.sent(&seen(now, &channels, &waiting), place, mask, bytes as usize);
                left -= bytes;
                backlogs[id.0 as usize] -= bytes;
                all[at].backlog_bytes -= bytes;
                waiting[place].backlog_bytes -= bytes;
                changed.push(id);
            }
            for index in mask.iter() {
                channels[index].slots -= 1;
                channels[index].in_flight_bytes += PACKET;
            }
            packets += 1;
        }
    }
    packets
}

proptest! {
    #[test]
    fn a_list_of_changes_is_enough(seed in any::<u64>()) {
        replay(seed);
    }
}

#[test]
fn there_is_enough_to_compare() {
    let packets: usize = (0..20).map(replay).sum();
    assert!(packets > 5000, "{packets}");
}
