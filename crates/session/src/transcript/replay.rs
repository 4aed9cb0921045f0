//! Replay: the policy is built anew, is shown what it was shown, and must decide as it did.

use std::{collections::VecDeque, time::Duration};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{AnyScheduler, Decision, Policy, Scheduler};
use anabranch_spec::ChannelMask;

use super::{
    decode::{Malformed, Transcript},
    record::{Fragment, Record},
    state::{Contradiction, State},
};

/// Records that a difference shows before it.
const CONTEXT: usize = 12;
/// Time for which a policy that is met in the middle of its session is not judged: its memory reaches back a few windows.
pub const WARM_UP: Duration = Duration::from_secs(10);

/// Result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The policy that was asked last.
    pub policy: String,
    /// The transcript begins with the session.
    pub is_from_start: bool,
    /// Times of the first and the last record.
    pub from: Instant,
    /// See above.
    pub until: Instant,
    /// Decisions that are the same.
    pub same: u64,
    /// Fragments that these decisions put on channels.
    pub fragments: u64,
    /// Decisions before the end of the warm-up that differ, and those that are the same.
    pub warm_up: (u64, u64),
    /// Time of the last decision of the warm-up that differs; `None`: none does.
    pub warm_up_differed: Option<Instant>,
    /// Time since which decisions are not compared, because they follow objectives or a scheduler of the application.
    pub unrepeatable: Option<(Instant, Unrepeatable)>,
    /// The first difference.
    pub difference: Option<Box<Difference>>,
    /// The file ends early, or is damaged, after the records that were compared: position in bytes, and the reason.
    pub broken: Option<(usize, Malformed)>,
}

/// Reason for which decisions cannot be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrepeatable {
    /// They follow objectives, whose state is not in the transcript.
    Objectives,
    /// A scheduler of the application takes them.
    Foreign,
}

/// The first decision that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Time.
    pub at: Instant,
    /// Its number among the decisions.
    pub number: u64,
    /// The decision in the transcript: a stream and channels; `None`: it waited.
    pub recorded: Option<(StreamId, Vec<ChannelId>)>,
    /// The decision now.
    pub replayed: Option<(StreamId, Vec<ChannelId>)>,
    /// Fragments that the recorded decision put on its channels.
    pub fragments: Vec<(ChannelId, Fragment)>,
    /// The last records before it.
    pub before: Vec<Record>,
}

struct Replay {
    scheduler: Option<AnyScheduler>,
    state: State,
    phase: Phase,
    has_begun: bool,
    number: u64,
    /// End of the warm-up; `None`: there is none.
    warm_until: Option<Instant>,
    /// The decision that is carried out is compared.
    is_compared: bool,
    /// Records left that state what was known before.
    restated: u64,
    before: VecDeque<Record>,
    result: Replayed,
}

/// Repeats the decisions of a transcript. The result tells how many are the same, the first that differs, and how far the file
/// could be read.
///
/// # Errors
/// It is no transcript, or one of another version.
pub fn replay(file: &[u8]) -> Result<Replayed, Malformed> {
    let mut transcript = Transcript::new(file)?;
    let mut replay = Replay {
        scheduler: None,
        state: State::default(),
        phase: Phase::Between,
        has_begun: false,
        number: 0,
        warm_until: None,
        is_compared: false,
        restated: 0,
        before: VecDeque::with_capacity(CONTEXT + 1),
        result: Replayed {
            policy: String::new(),
            is_from_start: false,
            from: Instant::EPOCH,
            until: Instant::EPOCH,
            same: 0,
            fragments: 0,
            warm_up: (0, 0),
            warm_up_differed: None,
            unrepeatable: None,
            difference: None,
            broken: None,
        },
    };
    loop {
        let position = transcript.position();
        let record = match transcript.next() {
            None => break,
            Some(Ok(record)) => record,
            Some(Err(error)) => {
                replay.result.broken = Some((position, error));
                break;
            }
        };
        replay.result.until = transcript.time();
        if let Some(difference) = &mut replay.result.difference {
            // The fragments of the decision that differs belong to it; the rest is not read.
            match record {
                Record::Packet {
                    channel, fragments, ..
                } => {
                    let those = fragments.into_iter().map(|fragment| (channel, fragment));
                    difference.fragments.extend(those);
                    continue;
                }
                Record::Took { .. } => continue,
                _ => break,
            }
        }
        if replay.step(&record).is_err() {
            let error = Malformed::Value("a record contradicts those before it");
            replay.result.broken = Some((position, error));
            break;
        }
        if replay.before.len() == CONTEXT {
            replay.before.pop_front();
        }
        replay.before.push_back(record);
    }
    Ok(replay.result)
}

/// Position between two records of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No run has begun with the present scheduler.
    Between,
    /// The scheduler is to be asked.
    Asking,
    /// Its decision is carried out.
    Sending,
}

impl Replay {
    fn step(&mut self, record: &Record) -> Result<(), Contradiction> {
        if self.restated > 0 {
            self.restated -= 1;
            return Ok(());
        }
        match record {
            Record::Begin {
                at,
                is_start,
                restated,
            } => self.begin(*at, *is_start, *restated),
            Record::Policy { policy, seed } => {
                self.phase = Phase::Between;
                self.set_policy(policy, *seed);
            }
            Record::Plan { at, plan } => {
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.remap(*at, plan);
                }
            }
            Record::Over { stream } => {
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.forget(*stream);
                }
            }
            Record::Run { is_planned, .. } => {
                self.state.begin(record)?;
                self.phase = Phase::Asking;
                if *is_planned {
                    self.give_up(Unrepeatable::Objectives);
                }
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.begin(&self.state.view(), self.state.changes());
                    scheduler.expect(self.state.expected);
                }
            }
            Record::Decision {
                stream, channels, ..
            } => {
                self.pass(Phase::Asking, Phase::Sending)?;
                self.state.decide(*stream, *channels)?;
                self.compare(Some((*stream, *channels)));
            }
            Record::Wait => {
                self.pass(Phase::Asking, Phase::Asking)?;
                self.compare(None);
            }
            Record::Took { stream, bytes } => {
                self.pass(Phase::Sending, Phase::Sending)?;
                if *stream >= self.state.streams.len() {
                    return Err(Contradiction);
                }
                let on = self.state.decided;
                if let Some(scheduler) = &mut self.scheduler {
                    scheduler.sent(&self.state.view(), *stream, on, *bytes);
                }
            }
            Record::Packet { fragments, .. } => {
                if self.is_compared {
                    self.result.fragments += fragments.len() as u64;
                }
            }
            Record::Filled { views, in_flight } => {
                self.pass(Phase::Sending, Phase::Asking)?;
                self.is_compared = false;
                self.state.fill(views, in_flight)?;
            }
            Record::Rested { stream } => self.state.rest(*stream)?,
            Record::Opened { .. }
            | Record::Adu { .. }
            | Record::Channel { .. }
            | Record::Outcome { .. } => {}
        }
        Ok(())
    }

    /// Schedulers are called in one order: a run begins, they are asked, and are told what was sent.
    fn pass(&mut self, from: Phase, to: Phase) -> Result<(), Contradiction> {
        if self.phase != from {
            return Err(Contradiction);
        }
        self.phase = to;
        Ok(())
    }

    fn begin(&mut self, at: Instant, is_start: bool, restated: u64) {
        if self.has_begun {
            // What a later part states again is known.
            self.restated = restated;
            return;
        }
        self.has_begun = true;
        self.result.from = at;
        self.result.is_from_start = is_start;
        self.warm_until = (!is_start).then(|| at + WARM_UP);
    }

    fn set_policy(&mut self, policy: &str, seed: u64) {
        policy.clone_into(&mut self.result.policy);
        if self.result.unrepeatable.is_some() {
            // It is not asked either, and would be told what it did not decide.
            return;
        }
        match policy.parse::<Policy>() {
            Ok(policy) => self.scheduler = Some(policy.build(Seed(seed))),
            Err(_) => self.give_up(Unrepeatable::Foreign),
        }
    }

    /// Stops the comparison.
    fn give_up(&mut self, cause: Unrepeatable) {
        let now = self.state.now;
        self.result.unrepeatable.get_or_insert((now, cause));
        self.scheduler = None;
    }

    fn compare(&mut self, recorded: Option<(usize, ChannelMask)>) {
        self.is_compared = false;
        if self.result.unrepeatable.is_some() {
            return;
        }
        let Some(scheduler) = &mut self.scheduler else {
            return;
        };
        let view = self.state.view();
        let replayed = match scheduler.next(&view) {
            Decision::Send { stream, channels }
            | Decision::SendAdu {
                stream, channels, ..
            } => Some((stream, channels)),
            Decision::Wait => None,
        };
        self.number += 1;
        let is_same = replayed == recorded;
        if self.warm_until.is_some_and(|until| self.state.now < until) {
            let (differ, same) = &mut self.result.warm_up;
            *if is_same { same } else { differ } += 1;
            if !is_same {
                self.result.warm_up_differed = Some(self.state.now);
            }
            return;
        }
        if is_same {
            self.result.same += 1;
            self.is_compared = recorded.is_some();
            return;
        }
        let named = |decision: Option<(usize, ChannelMask)>| {
            let (stream, channels) = decision?;
            let stream = self.state.streams.get(stream)?.id;
            let channel = |index: usize| self.state.channels.get(index).map(|view| view.id);
            Some((stream, channels.iter().filter_map(channel).collect()))
        };
        self.result.difference = Some(Box::new(Difference {
            at: self.state.now,
            number: self.number,
            recorded: named(recorded),
            replayed: named(replayed),
            fragments: Vec::new(),
            before: self.before.iter().cloned().collect(),
        }));
    }
}
