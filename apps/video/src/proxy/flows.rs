//! Flows that viewers share: assignment of viewers to flows, and the deadlines of chunks. Pure: time is an argument.

use std::time::{Duration, Instant};

use crate::video::Video;

/// Maximum number of flows of one video at a time: viewers at different positions.
const FLOWS_MAX: usize = 8;
/// Time without a request after which a viewer is gone, or has paused.
const INTEREST: Duration = Duration::from_secs(20);
/// Maximum distance ahead of a flow at which a viewer waits for it, rather than for another flow.
pub(super) const REACH: Duration = Duration::from_secs(12);
/// Least time by which data is late for a player that has run dry: less is in its decoder.
const STALL_MIN: Duration = Duration::from_millis(100);
/// Maximum number of viewers remembered at one position: the most recent are enough.
const VIEWERS_MAX: usize = 64;

/// The flows of a video.
#[derive(Debug, Default)]
pub(super) struct Flows {
    all: Vec<Flow>,
    next: u64,
}

/// State of a flow, for its viewers.
#[derive(Debug)]
struct Flow {
    number: u64,
    /// The chunk that it works on.
    next: u32,
    /// Chunks for which requests wait, and the times of the requests.
    waiting: Vec<(u32, Instant)>,
    /// Viewers that requested a chunk near it, with the times of their last requests.
    viewers: Vec<(u64, Instant)>,
    /// Time at which data was first handed to the viewer for whom the flow began, and its position in the video: the viewer
    /// plays from then on.
    clock: Option<(Instant, Duration)>,
    /// Time for which that viewer had nothing to play since.
    stalled: Duration,
    is_to_end: bool,
}

/// Demand of viewers on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// True if no viewer wants it any more.
    pub(super) is_to_end: bool,
    /// Time by which a waiting viewer gets the chunk that it works on, complete or not.
    pub(super) deadline: Option<Instant>,
}

/// Request of a viewer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// The chunk.
    pub(super) chunk: u32,
    /// Identifies the viewer as well as possible.
    pub(super) viewer: u64,
    /// The chunk that the viewer has already, and plays.
    pub(super) playing: Option<u32>,
}

impl Flows {
    /// The flow that brings the chunk, and true if it is a new one, to be begun there.
    pub(super) fn join(&mut self, now: Instant, video: &Video, asked: Asked) -> (u64, bool) {
        let Asked {
            chunk,
            viewer,
            playing,
        } = asked;
        let wanted = video.start(chunk);
        let reaches = |flow: &&mut Flow| {
            !flow.is_to_end
                && flow.next <= chunk
                && wanted <= video.start(flow.next).saturating_add(REACH)
        };
        if let Some(flow) = self.all.iter_mut().find(reaches) {
            flow.note(viewer, now);
            return (flow.number, false);
        }
        // The viewer has left the flow that only this viewer watched.
        for flow in &mut self.all {
            let others = flow.viewers.iter().filter(|(other, _)| *other != viewer);
            let mut recent = others.filter(|(_, at)| now.duration_since(*at) < INTEREST);
            if flow.waiting.is_empty() && recent.next().is_none() {
                flow.is_to_end = true;
            }
        }
        if self.all.len() >= FLOWS_MAX
            && let Some(oldest) = self
                .all
                .iter_mut()
                .filter(|flow| flow.waiting.is_empty())
                .min_by_key(|flow| flow.viewers.iter().map(|(_, at)| *at).max())
        {
            oldest.is_to_end = true;
        }
        let number = self.next;
        self.next += 1;
        self.all.push(Flow {
            number,
            next: chunk,
            waiting: Vec::new(),
            viewers: vec![(viewer, now)],
            clock: playing.map(|playing| (now, video.start(playing))),
            stalled: Duration::ZERO,
            is_to_end: false,
        });
        (number, true)
    }

    /// Adds a request that waits for a chunk of a flow.
    pub(super) fn wait(&mut self, now: Instant, number: u64, chunk: u32) {
        if let Some(flow) = self.of(number) {
            flow.waiting.push((chunk, now));
        }
    }

    /// Removes a request that waited.
    pub(super) fn leave(&mut self, number: u64, chunk: u32) {
        if let Some(flow) = self.of(number)
            && let Some(at) = flow
                .waiting
                .iter()
                .position(|(waiting, _)| *waiting == chunk)
        {
            flow.waiting.swap_remove(at);
        }
    }

    /// Notes that a flow has finished a chunk, which begins at `start`. The result: the time for which the viewer for whom the
    /// flow began had nothing to play and waited for it; zero if the chunk came in time.
    pub(super) fn finished(
        &mut self,
        now: Instant,
        number: u64,
        chunk: u32,
        start: Duration,
    ) -> Duration {
        let Some(flow) = self.of(number) else {
            return Duration::ZERO;
        };
        flow.next = chunk + 1;
        let Some((at, begun)) = flow.clock else {
            // The viewer that waited for the first chunk plays from now on.
            flow.clock = Some((now, start));
            return Duration::ZERO;
        };
        let waiting = flow.waiting.iter().filter(|(waiting, _)| *waiting == chunk);
        let Some(asked) = waiting.map(|(_, asked)| *asked).min() else {
            return Duration::ZERO;
        };
        let due = at + start.saturating_sub(begun) + flow.stalled;
        // A viewer that paused asks late, and is not held up before.
        let stalled = now.saturating_duration_since(due.max(asked));
        if stalled < STALL_MIN {
            return Duration::ZERO;
        }
        flow.stalled += stalled;
        stalled
    }

    /// Removes a flow that is over.
    pub(super) fn ended(&mut self, number: u64) {
        self.all.retain(|flow| flow.number != number);
    }

    /// Ends all flows.
    pub(super) fn end_all(&mut self) {
        for flow in &mut self.all {
            flow.is_to_end = true;
        }
    }

    /// Demand of a flow's viewers while it works on `chunk`, which begins at `start`: a player is held up for `delay` at most.
    pub(super) fn demand(
        &self,
        now: Instant,
        number: u64,
        (chunk, start): (u32, Duration),
        delay: Duration,
    ) -> Demand {
        let Some(flow) = self.all.iter().find(|flow| flow.number == number) else {
            return Demand {
                is_to_end: true,
                deadline: None,
            };
        };
        let recent = |(_, at): &(u64, Instant)| now.duration_since(*at) < INTEREST;
        let is_wanted = !flow.waiting.is_empty() || flow.viewers.iter().any(recent);
        let deadline = flow
            .clock
            .filter(|_| flow.waiting.iter().any(|(waiting, _)| *waiting == chunk));
        let deadline = deadline.map(|(at, begun)| at + start.saturating_sub(begun) + delay);
        Demand {
            is_to_end: flow.is_to_end || !is_wanted,
            deadline,
        }
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    fn of(&mut self, number: u64) -> Option<&mut Flow> {
        self.all.iter_mut().find(|flow| flow.number == number)
    }
}

impl Flow {
    fn note(&mut self, viewer: u64, now: Instant) {
        self.viewers
            .retain(|(other, at)| *other != viewer && now.duration_since(*at) < INTEREST);
        if self.viewers.len() >= VIEWERS_MAX {
            self.viewers.remove(0);
        }
        self.viewers.push((viewer, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, samples::film};

    const DELAY: Duration = Duration::from_secs(2);

    /// A film of two minutes in chunks of 2 s, and its flows.
    struct World {
        video: Video,
        flows: Flows,
        begun: Instant,
    }

    impl World {
        fn new() -> Self {
            Self {
                video: film(120),
                flows: Flows::default(),
                begun: Clock::system().now(),
            }
        }

        fn at(&self, secs: u64) -> Instant {
            self.begun + Duration::from_secs(secs)
        }

        fn join(&mut self, secs: u64, viewer: u64, chunk: u32) -> (u64, bool) {
            let asked = Asked {
                chunk,
                viewer,
                playing: None,
            };
            self.flows.join(self.at(secs), &self.video, asked)
        }

        fn wait(&mut self, number: u64, chunk: u32) {
            self.flows.wait(self.begun, number, chunk);
        }

        fn demand(&self, secs: u64, number: u64, chunk: u32) -> Demand {
            let start = self.video.start(chunk);
            self.flows
                .demand(self.at(secs), number, (chunk, start), DELAY)
        }
    }

    #[test]
    fn viewers_at_one_place_share_a_flow() {
        let mut world = World::new();
        assert_eq!(world.join(0, 1, 10), (0, true));
        // Up to 12 s ahead of its position.
        assert_eq!(world.join(1, 2, 16), (0, false));
        assert_eq!(world.join(1, 3, 17), (1, true));
        assert_eq!(world.join(1, 4, 9), (2, true), "a flow does not go back");
        assert_eq!(world.flows.len(), 3);
        // Viewers of other flows do not end a flow.
        assert!((0..3).all(|number| !world.demand(1, number, 10).is_to_end));
        world.flows.ended(1);
        assert_eq!(world.join(2, 3, 17), (3, true));
    }

    #[test]
    fn a_viewer_that_seeks_leaves_a_flow_without_viewers() {
        let mut world = World::new();
        world.join(0, 1, 0);
        let (there, is_new) = world.join(1, 1, 40);
        assert!(is_new && world.demand(1, 0, 0).is_to_end);
        // With a second viewer it continues.
        world.join(2, 2, 40);
        world.join(3, 1, 10);
        assert!(!world.demand(3, there, 40).is_to_end);
    }

    #[test]
    fn a_flow_ends_without_requests() {
        let mut world = World::new();
        let (number, _) = world.join(0, 1, 0);
        assert!(!world.demand(19, number, 0).is_to_end);
        assert!(world.demand(20, number, 0).is_to_end);
        world.wait(number, 3);
        assert!(!world.demand(500, number, 0).is_to_end, "a request waits");
        world.flows.leave(number, 3);
        assert!(world.demand(500, number, 0).is_to_end);
        assert!(world.demand(0, 99, 0).is_to_end, "there is no such flow");
    }

    #[test]
    fn a_player_is_held_up_for_no_longer_than_he_was_promised() {
        let mut world = World::new();
        let (number, _) = world.join(0, 1, 0);
        world.wait(number, 0);
        assert_eq!(
            world.demand(3, number, 0).deadline,
            None,
            "nothing plays yet"
        );
        let start = world.video.start(0);
        world.flows.finished(world.at(4), number, 0, start);
        world.flows.leave(number, 0);
        assert_eq!(
            world.demand(4, number, 1).deadline,
            None,
            "no request waits"
        );
        world.wait(number, 1);
        world.wait(number, 1);
        // The viewer plays from the fourth second on: the second chunk two seconds later, and two more at most.
        assert_eq!(world.demand(5, number, 1).deadline, Some(world.at(8)));
        world.flows.leave(number, 1);
        assert_eq!(world.demand(5, number, 1).deadline, Some(world.at(8)));
        // A viewer that plays already when the flow begins.
        let asked = Asked {
            chunk: 40,
            viewer: 2,
            playing: Some(38),
        };
        let (other, _) = world.flows.join(world.at(10), &world.video, asked);
        world.wait(other, 40);
        assert_eq!(world.demand(10, other, 40).deadline, Some(world.at(16)));
    }

    #[test]
    fn a_player_that_has_run_dry_stalls() {
        let mut world = World::new();
        let (number, _) = world.join(0, 1, 0);
        let finished = |world: &mut World, ms: u64, chunk| {
            let start = world.video.start(chunk);
            let at = world.begun + Duration::from_millis(ms);
            let stalled = world.flows.finished(at, number, chunk, start);
            world.flows.leave(number, chunk);
            stalled
        };
        world.wait(number, 0);
        let none = Duration::ZERO;
        assert_eq!(finished(&mut world, 3_000, 0), none, "it has not begun");
        // It plays from the third second on: the second chunk is due at the fifth.
        world.wait(number, 1);
        assert_eq!(finished(&mut world, 4_900, 1), none, "in time");
        world.wait(number, 2);
        world.wait(number, 2);
        assert_eq!(finished(&mut world, 7_050, 2), none, "nobody sees that");
        world.wait(number, 3);
        let stalled = Duration::from_millis(1_500);
        assert_eq!(finished(&mut world, 10_500, 3), stalled, "due at 9 s");
        // It plays on from there: the next one is due at 12.5 s.
        world.wait(number, 4);
        assert_eq!(finished(&mut world, 12_400, 4), none);
        assert_eq!(finished(&mut world, 30_000, 5), none, "nobody waits");
        // It paused, and asked again at 60 s.
        let asked = world.at(60);
        world.flows.wait(asked, number, 6);
        assert_eq!(finished(&mut world, 61_000, 6), Duration::from_secs(1));
        assert_eq!(world.flows.finished(asked, 99, 0, none), none, "no flow");
    }

    #[test]
    fn there_are_so_many_flows_and_no_more() {
        let mut world = World::new();
        for viewer in 0..8 {
            world.join(viewer, viewer, 7 * viewer as u32);
            world.wait(viewer, 7 * viewer as u32);
        }
        world.flows.leave(3, 21);
        world.flows.leave(5, 35);
        assert_eq!(world.join(9, 9, 57), (8, true));
        let ending: Vec<u64> = (0..9)
            .filter(|&number| world.demand(9, number, 0).is_to_end)
            .collect();
        assert_eq!(
            ending,
            [3],
            "of the flows without waiting requests, the least recently requested"
        );
        world.flows.end_all();
        assert!((0..9).all(|number| world.demand(9, number, 0).is_to_end));
    }
}
