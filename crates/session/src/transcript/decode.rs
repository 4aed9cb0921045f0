//! Reader of a transcript.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_sched::{ChannelView, StreamView};
use anabranch_spec::{
    Assignment, ChannelChoice, ChannelMask, Claim, LABEL_BYTES_MAX, Plan, Priority,
};

use super::{
    MAGIC, VERSION,
    codec::Input,
    encode,
    record::{ChannelChange, Fragment, Outcome, Record},
};

/// Channels in a view.
const CHANNELS_MAX: usize = 64;
/// Bytes of the text of a policy.
const POLICY_BYTES_MAX: usize = 256;

/// Reason why a transcript cannot be read, or not beyond a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first bytes are those of something else.
    #[error("this is no transcript of a session; 'anabranch record' writes one")]
    Magic,
    /// Another version of the format.
    #[error(
        "version {0} of the format, which this program does not know (it knows {VERSION}); replay it with the release that recorded it"
    )]
    Version(u64),
    /// The file ends within a record, or before its end mark.
    #[error("the file is truncated")]
    Truncated,
    /// A value that no recorder writes.
    #[error("it is damaged: {0}")]
    Value(&'static str),
}

/// Records of a file, one after the other. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    input: Input<'a>,
    at: Instant,
    channels: Vec<ChannelView>,
    read: u64,
    is_over: bool,
}

impl<'a> Transcript<'a> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// It is no transcript, or one of another version.
    pub fn new(file: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(file);
        if input.take(MAGIC.len()) != Ok(MAGIC) {
            return Err(Malformed::Magic);
        }
        match input.number()? {
            // In files of version 1, views have no usual round trip.
            1 | VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        Ok(Self {
            input,
            at: Instant::EPOCH,
            channels: Vec::new(),
            read: 0,
            is_over: false,
        })
    }

    /// Number of records read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Position in the file, in bytes.
    pub fn position(&self) -> usize {
        self.input.position()
    }

    /// Time of the last record with one.
    pub fn time(&self) -> Instant {
        self.at
    }

    fn record(&mut self) -> Result<Option<Record>, Malformed> {
        let tag = self.input.byte()?;
        let record = match tag {
            encode::BEGIN => {
                self.at = Instant::from_nanos(self.input.number()?);
                self.channels.clear();
                Record::Begin {
                    at: self.at,
                    is_start: self.flag()?,
                    restated: self.input.number()?,
                }
            }
            encode::POLICY => {
                let policy = self.input.text(POLICY_BYTES_MAX)?;
                let seed = self.input.take(8)?.first_chunk().copied();
                Record::Policy {
                    policy,
                    seed: u64::from_le_bytes(seed.unwrap_or_default()),
                }
            }
            encode::OPENED => self.opened()?,
            encode::ADU => Record::Adu {
                at: self.advance()?,
                stream: self.stream()?,
                sequence: self.input.number()?,
                bytes: self.input.number()?,
            },
            encode::OVER => Record::Over {
                stream: self.stream()?,
            },
            encode::CHANNEL => {
                let at = self.advance()?;
                let channel = ChannelId(self.input.number()?);
                let change = usize::from(self.input.byte()?);
                let change = ChannelChange::ALL.get(change).copied();
                Record::Channel {
                    at,
                    channel,
                    change: change.ok_or(Malformed::Value("a change of a channel"))?,
                }
            }
            encode::OUTCOME => {
                let at = self.advance()?;
                let channel = ChannelId(self.input.number()?);
                let container = self.input.number()?;
                let outcome = match self.flag()? {
                    true => Outcome::Acked(self.duration()?),
                    false => Outcome::Lost,
                };
                Record::Outcome {
                    at,
                    channel,
                    container,
                    outcome,
                }
            }
            encode::PLAN => self.plan()?,
            encode::RUN => self.run()?,
            encode::DECISION => {
                let stream = self.input.number()?;
                let channels = ChannelMask::from_bits(self.input.number()?);
                let adu = (stream & 1 == 1).then(|| self.input.number()).transpose()?;
                let stream = usize::try_from(stream >> 1);
                Record::Decision {
                    stream: stream.map_err(|_| Malformed::Value("an index"))?,
                    channels,
                    adu,
                }
            }
            encode::TOOK => Record::Took {
                stream: self.input.size()?,
                bytes: self.input.size()?,
            },
            encode::PACKET => self.packet()?,
            encode::FILLED => self.filled()?,
            encode::RESTED => Record::Rested {
                stream: self.input.size()?,
            },
            encode::WAIT => Record::Wait,
            encode::END => {
                if self.input.number()? != self.read {
                    return Err(Malformed::Value("its number of records"));
                }
                if self.input.left() > 0 {
                    return Err(Malformed::Value("something follows its end"));
                }
                return Ok(None);
            }
            _ => return Err(Malformed::Value("a record of an unknown kind")),
        };
        self.read += 1;
        Ok(Some(record))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value("a flag")),
        }
    }

    fn stream(&mut self) -> Result<StreamId, Malformed> {
        Ok(StreamId(self.input.number()?))
    }

    fn duration(&mut self) -> Result<Duration, Malformed> {
        Ok(Duration::from_nanos(self.input.number()?))
    }

    fn time_after(&mut self, base: Instant) -> Result<Instant, Malformed> {
        let difference = self.input.signed()?;
        let nanos = base.as_nanos().checked_add_signed(difference);
        nanos
            .map(Instant::from_nanos)
            .ok_or(Malformed::Value("a time"))
    }

    fn advance(&mut self) -> Result<Instant, Malformed> {
        self.at = self.time_after(self.at)?;
        Ok(self.at)
    }

    fn opened(&mut self) -> Result<Record, Malformed> {
        let at = self.advance()?;
        let stream = self.stream()?;
        let priority = Priority(self.input.byte()?);
        let flags = self.input.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let lifetime = has(encode::STREAM_LIFETIME)
            .then(|| self.duration())
            .transpose()?;
        let guarantee = has(encode::STREAM_GUARANTEE)
            .then(|| Ok((Rate::from_bps(self.input.number()?), self.duration()?)))
            .transpose()?;
        Ok(Record::Opened {
            at,
            stream,
            priority,
            is_reliable: has(encode::STREAM_RELIABLE),
            lifetime,
            guarantee,
            label: self.input.text(LABEL_BYTES_MAX)?,
        })
    }

    fn plan(&mut self) -> Result<Record, Malformed> {
        let at = self.advance()?;
        let mut plan = Plan::default();
        for _ in 0..self.input.count()? {
            let mut assignment = Assignment {
                stream: self.stream()?,
                window: self.duration()?,
                window_bytes: self.input.f64()?,
                constraint: self.input.f64()?,
                may_split: self.flag()?,
                shares: Vec::new(),
            };
            for _ in 0..self.input.count()? {
                let channel = ChannelId(self.input.number()?);
                assignment.shares.push((channel, self.input.f64()?));
            }
            let is_sound = (1..=3600).contains(&assignment.window.as_secs())
                && assignment.window_bytes.is_finite()
                && assignment.constraint.is_finite()
                && assignment.shares.iter().all(|(_, bytes)| bytes.is_finite());
            if !is_sound {
                return Err(Malformed::Value("a mapping of promised streams"));
            }
            plan.assignments.push(assignment);
        }
        Ok(Record::Plan { at, plan })
    }

    fn run(&mut self) -> Result<Record, Malformed> {
        let at = self.advance()?;
        let flags = self.input.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let expected = has(encode::RUN_EXPECTED)
            .then(|| self.time_after(at))
            .transpose()?;
        let is_new = has(encode::RUN_NEW_CHANNELS);
        if is_new {
            let count = self.input.count()?;
            if count > CHANNELS_MAX {
                return Err(Malformed::Value("more than 64 channels"));
            }
            self.channels.clear();
            for _ in 0..count {
                let id = ChannelId(self.input.number()?);
                self.channels.push(empty_view(id));
            }
        }
        for index in 0..self.channels.len() {
            self.channel_view(index)?;
        }
        let changed = match has(encode::RUN_ANY_CHANGED) {
            true => None,
            false => {
                let count = self.input.count()?;
                let changed: Result<Vec<_>, _> = (0..count).map(|_| self.stream()).collect();
                Some(changed?)
            }
        };
        let count = self.input.count()?;
        let views: Result<Vec<_>, _> = (0..count).map(|_| self.stream_view(at)).collect();
        let views = views?;
        let are_all = has(encode::RUN_ALL_VIEWS);
        if are_all && !views.is_sorted_by(|a, b| a.id < b.id) {
            return Err(Malformed::Value("streams out of order"));
        }
        Ok(Record::Run {
            at,
            channels: self.channels.clone(),
            views,
            are_all,
            changed,
            expected,
            is_planned: has(encode::RUN_PLANNED),
        })
    }

    fn channel_view(&mut self, index: usize) -> Result<(), Malformed> {
        let bits = self.input.number()?;
        let mut field = |index: usize| -> Result<Option<u64>, Malformed> {
            (bits >> index & 1 == 1)
                .then(|| self.input.number())
                .transpose()
        };
        let values = [
            field(0)?,
            field(1)?,
            field(2)?,
            field(3)?,
            field(4)?,
            field(5)?,
            field(6)?,
            field(7)?,
            field(8)?,
            field(9)?,
        ];
        let view = &mut self.channels[index];
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let number = |value: u64| f64::from_bits(value.swap_bytes());
        let [
            slots,
            packet,
            smoothed,
            min,
            variation,
            rate,
            window,
            in_flight,
            loss,
            usual,
        ] = values;
        view.slots = slots.map_or(view.slots, size);
        view.packet_bytes = packet.map_or(view.packet_bytes, size);
        view.rtt_smoothed = smoothed.map_or(view.rtt_smoothed, Duration::from_nanos);
        view.rtt_min = min.map_or(view.rtt_min, Duration::from_nanos);
        view.rtt_variation = variation.map_or(view.rtt_variation, Duration::from_nanos);
        view.rate_bytes_per_s = rate.map_or(view.rate_bytes_per_s, number);
        view.window_bytes = window.unwrap_or(view.window_bytes);
        view.in_flight_bytes = in_flight.unwrap_or(view.in_flight_bytes);
        view.loss = loss.map_or(view.loss, number);
        view.rtt_usual = usual.map_or(view.rtt_usual, Duration::from_nanos);
        let is_sound = view.rate_bytes_per_s.is_finite()
            && view.rate_bytes_per_s >= 0.0
            && view.loss.is_finite()
            && view.rtt_smoothed.as_secs() < 1 << 20
            && view.rtt_min.as_secs() < 1 << 20
            && view.rtt_variation.as_secs() < 1 << 20
            && view.rtt_usual.as_secs() < 1 << 20
            && [view.slots as u64, view.packet_bytes as u64]
                .iter()
                .chain([&view.window_bytes, &view.in_flight_bytes])
                .all(|&value| value < 1 << 40);
        match is_sound {
            true => Ok(()),
            false => Err(Malformed::Value("the view of a channel")),
        }
    }

    fn stream_view(&mut self, base: Instant) -> Result<StreamView, Malformed> {
        let id = self.stream()?;
        let flags = self.input.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let priority = Priority(self.input.byte()?);
        let weight = u32::try_from(self.input.number()?).unwrap_or(0);
        if !(1..=anabranch_spec::WEIGHT_MAX).contains(&weight) {
            return Err(Malformed::Value("the weight of a stream"));
        }
        let backlog_bytes = self.input.number()?;
        if backlog_bytes > u64::MAX / 4 {
            return Err(Malformed::Value("the backlog of a stream"));
        }
        let deadline = has(encode::VIEW_DEADLINE)
            .then(|| self.time_after(base))
            .transpose()?;
        let mut mask = || Ok::<_, Malformed>(ChannelMask::from_bits(self.input.number()?));
        let choice = match has(encode::VIEW_CHOICE) {
            true => ChannelChoice {
                preferred: mask()?,
                neutral: mask()?,
                avoided: mask()?,
            },
            false => ChannelChoice::default(),
        };
        let claim = match has(encode::VIEW_CLAIM) {
            true => {
                let claim = Claim {
                    bytes_per_s: self.input.f64()?,
                    window: self.duration()?,
                    rank: u32::try_from(self.input.number()?)
                        .map_err(|_| Malformed::Value("a rank"))?,
                };
                if !claim.bytes_per_s.is_finite() {
                    return Err(Malformed::Value("a promise"));
                }
                Some(claim)
            }
            false => None,
        };
        let pinned = match has(encode::VIEW_PINNED) {
            true => Some(self.input.size()?.checked_sub(1)),
            false => None,
        };
        Ok(StreamView {
            id,
            priority,
            weight,
            backlog_bytes,
            deadline,
            pinned,
            choice,
            redundant: has(encode::VIEW_REDUNDANT),
            claim,
        })
    }

    fn packet(&mut self) -> Result<Record, Malformed> {
        let channel = ChannelId(self.input.number()?);
        let container = self.input.number()?;
        let bytes = self.input.number()?;
        let mut fragments = Vec::new();
        for _ in 0..self.input.count()? {
            let stream = self.stream()?;
            let sequence = self.input.number()?;
            let offset = self.input.number()?;
            let bytes = self.input.number()?;
            fragments.push(Fragment {
                stream,
                sequence,
                offset,
                bytes: bytes >> 1,
                is_copy: bytes & 1 == 1,
            });
        }
        Ok(Record::Packet {
            channel,
            container,
            bytes,
            fragments,
        })
    }

    fn filled(&mut self) -> Result<Record, Malformed> {
        let mut views = Vec::new();
        for _ in 0..self.input.count()? {
            let index = self.input.size()?;
            let backlog_bytes = self.input.number()?;
            let at = self.at;
            let deadline = self.flag()?.then(|| self.time_after(at)).transpose()?;
            views.push((index, backlog_bytes, deadline));
        }
        let count = self.input.count()?;
        let in_flight: Result<Vec<_>, _> = (0..count).map(|_| self.input.number()).collect();
        Ok(Record::Filled {
            views,
            in_flight: in_flight?,
        })
    }
}

impl Iterator for Transcript<'_> {
    type Item = Result<Record, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let record = self.record();
        self.is_over = !matches!(record, Ok(Some(_)));
        record.transpose()
    }
}

fn empty_view(id: ChannelId) -> ChannelView {
    ChannelView {
        id,
        slots: 0,
        packet_bytes: 0,
        rtt_smoothed: Duration::ZERO,
        rtt_min: Duration::ZERO,
        rtt_usual: Duration::ZERO,
        rtt_variation: Duration::ZERO,
        rate_bytes_per_s: 0.0,
        window_bytes: 0,
        in_flight_bytes: 0,
        loss: 0.0,
    }
}
