//! The task that sends what the plays of a session have due, and holds the pipe to the rate that they need. All decisions are
//! elsewhere: `plays` schedules, `governor` divides the capacity.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch::{
    DropOrder, Order, Session, Stream, StreamFailure, StreamSpec,
    base::text::{REASON_CHARS, printable},
    base::{self, Rate, ids::ChannelId},
    net::limited,
    net::session::ChannelStatus,
};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, watch},
    time::MissedTickBehavior,
};

use super::{
    counters::{FlowCounters, FlowStats},
    governor::{Besides, Governor, most_of_path},
    library::Opened,
    memory::MemoryShare,
    monitor::{Reporter, SessionState},
    paths,
    play::{Due, Need},
    plays::{PLAYS_MAX, Plays, Wanted},
    promise::Promised,
    reading::read,
};
use crate::{
    clock::Clock,
    priority,
    wire::{Flow, From, Refusal, RefusalKind, Reply},
};

/// Interval between looks at the statistics of plays.
const LOOK: Duration = Duration::from_secs(1);
/// Tolerance within which the rate of a channel is left as it is.
const NEAR: f64 = 0.01;
/// Maximum number of concurrent reads of parts of chunks, including those for plays that have ended or sought since; other
/// reads wait.
const READS_MAX: usize = 64;
/// Time after which data that was not sent, or did not arrive, is given up. Streams whose ADUs live for a second or less have a
/// channel keep its queue at two milliseconds; then a channel that is held to a rate does not find out that its path carries
/// more.
const LIFETIME: Duration = Duration::from_millis(1_200);

/// Request of a proxy to the pump.
pub(super) enum Command {
    Play {
        id: u32,
        play: u32,
        opened: Arc<Opened>,
        from: From,
    },
    Seek {
        play: u32,
        from: From,
    },
    Stop {
        play: u32,
    },
}

/// The streams of a play.
struct Running {
    opened: Arc<Opened>,
    essential: Stream,
    enhanced: Stream,
    promised: Promised,
}

/// Data that was read for a play.
struct Loaded {
    wanted: Wanted,
    result: Result<Bytes, Refusal>,
}

/// The pump of one session.
pub(super) struct Pump<'a> {
    session: &'a Session,
    control: &'a Stream,
    clock: Clock,
    capacity: Option<Rate>,
    begun: Instant,
    plays: Plays,
    running: BTreeMap<u32, Running>,
    memory_share: MemoryShare,
    reading: usize,
    governor: Governor,
    counters: FlowCounters,
    looked: Instant,
    /// Rate that the pipe is held to, and of each channel.
    total: Rate,
    held: BTreeMap<ChannelId, Rate>,
    /// Number of requests for data besides plays that are in progress; and whether their data may still wait.
    fetching: watch::Receiver<usize>,
    is_fetching: bool,
    reporter: Reporter,
    /// Statistics of the last interval.
    seen: FlowStats,
}

impl<'a> Pump<'a> {
    /// `capacity`: rate that each path carries, where it is known.
    pub(super) fn new(
        session: &'a Session,
        control: &'a Stream,
        (clock, capacity): (Clock, Option<Rate>),
        fetching: watch::Receiver<usize>,
        memory_share: MemoryShare,
        reporter: Reporter,
    ) -> Self {
        let begun = clock.now();
        Self {
            session,
            control,
            clock,
            capacity,
            begun,
            plays: Plays::new(),
            running: BTreeMap::new(),
            memory_share,
            reading: 0,
            governor: Governor::new(capacity),
            counters: FlowCounters::default(),
            looked: begun,
            total: Rate::ZERO,
            held: BTreeMap::new(),
            fetching,
            is_fetching: false,
            reporter,
            seen: FlowStats::default(),
        }
    }

    /// Runs until the session is over.
    pub(super) async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
    ) -> Result<(), StreamFailure> {
        let (done, mut loaded) = mpsc::unbounded_channel();
        let mut fetching = self.fetching.clone();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let session = self.session;
        self.govern();
        loop {
            let due = self.plays.poll_timeout(self.now());
            let due = due.map(|at| self.begun + at.since_epoch());
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return Ok(()) };
                    self.obey(command).await?;
                    self.govern();
                    self.report();
                }
                Some(loaded) = loaded.recv() => {
                    self.reading -= 1;
                    self.take(loaded).await?;
                }
                () = until(due) => {}
                _ = look.tick(), if !self.running.is_empty() => self.look(),
                // Paths come and go.
                event = session.next_event() => {
                    event?;
                    self.govern();
                }
                changed = fetching.changed() => {
                    // The request handler lives as long as the session.
                    if changed.is_err() {
                        return Ok(());
                    }
                    self.govern();
                }
            }
            self.send()?;
            let now = self.now();
            let free = READS_MAX.saturating_sub(self.reading);
            for wanted in self.plays.wanted(now, free) {
                let Some(running) = self.running.get(&wanted.play) else {
                    continue;
                };
                self.reading += 1;
                let (opened, done, memory_share) = (
                    running.opened.clone(),
                    done.clone(),
                    self.memory_share.clone(),
                );
                tokio::spawn(async move {
                    let result = read(opened, wanted.chunk, wanted.part, &memory_share).await;
                    // The pump may be gone.
                    let _ = done.send(Loaded { wanted, result });
                });
            }
        }
    }

    fn now(&self) -> base::Instant {
        base::Instant::EPOCH + self.clock.since(self.begun)
    }

    /// Sends everything that is due.
    fn send(&mut self) -> Result<(), StreamFailure> {
        let now = self.now();
        let mut has_changed = self.plays.advance(now);
        while let Some((play, release)) = self.plays.poll(now) {
            let Some(running) = self.running.get(&play) else {
                continue;
            };
            let sent = match &release.item {
                Due::Essential(record) => running.essential.try_send(record.encode()),
                Due::Enhanced(adu, importance) => {
                    let importance = u8::try_from(*importance).unwrap_or(u8::MAX);
                    running
                        .enhanced
                        .try_send_important(adu.encode(), importance)
                }
            };
            match sent {
                Ok(_) => self.reporter.sent(&running.opened.video, &release.item),
                // Full: later. Stopped: the proxy has let go of the play, and its request to stop it follows.
                Err(StreamFailure::Send(_) | StreamFailure::Stopped(_)) => {
                    self.plays.put_back(now, release);
                }
                Err(error) => return Err(error),
            }
        }
        has_changed |= self.plays.advance(now);
        if has_changed {
            self.hold(now);
        }
        Ok(())
    }

    async fn obey(&mut self, command: Command) -> Result<(), StreamFailure> {
        let now = self.now();
        match command {
            Command::Play {
                id,
                play,
                opened,
                from,
            } => {
                let reply = if self.plays.len() >= PLAYS_MAX {
                    self.reporter.played(false);
                    let words = format!("this proxy has {PLAYS_MAX} plays already");
                    let refusal = Refusal {
                        retry_after_s: Some(10),
                        ..Refusal::new(RefusalKind::Full, words)
                    };
                    Reply::Refused { id, refusal }
                } else {
                    let running = Running::start(self.session, play, opened.clone())?;
                    self.running.insert(play, running);
                    self.plays.start(now, play, opened.video.clone(), from);
                    self.reporter.played(true);
                    Reply::Playing { id }
                };
                self.control.send(reply.encode()).await?;
            }
            Command::Seek { play, from } => self.plays.seek(now, play, from),
            Command::Stop { play } => {
                self.plays.stop(play);
                if let Some(running) = self.running.remove(&play) {
                    // The proxy may have stopped them before.
                    let _ = running.essential.reset(0);
                    let _ = running.enhanced.reset(0);
                }
            }
        }
        Ok(())
    }

    async fn take(&mut self, loaded: Loaded) -> Result<(), StreamFailure> {
        let play = loaded.wanted.play;
        if !self.plays.wants(&loaded.wanted) {
            return Ok(());
        }
        match loaded.result {
            Ok(data) => self.plays.loaded(&loaded.wanted, data),
            Err(refusal) => {
                limited!(warn, error = %printable(&refusal.to_string(), REASON_CHARS), "a play ends early");
                self.plays.stop(play);
                self.running.remove(&play);
                self.reporter.failed();
                let ended = Reply::Ended { play, refusal };
                self.control.send(ended.encode()).await?;
                self.govern();
                self.report();
            }
        }
        Ok(())
    }

    /// Evaluates an interval that is over.
    fn look(&mut self) {
        let now = self.now();
        let passed = self.clock.since(self.looked);
        self.looked = self.clock.now();
        let flow_stats = self.counters.look(&self.session.streams(), passed);
        // Data that was read for a request may wait long after it was answered.
        self.is_fetching = self.counters.fetched_backlog_bytes > 0;
        let needs = self.plays.needs(now);
        let before = self.governor.part();
        let plain: Vec<Need> = needs.iter().map(|(_, need)| *need).collect();
        self.governor.observe(now, &plain, &flow_stats);
        self.reporter.saw(&flow_stats);
        self.seen = flow_stats;
        let part = self.governor.part();
        tracing::debug!(part, ?flow_stats, "play statistics");
        if (part < 1.0) != (before < 1.0) {
            tracing::info!(
                part,
                ?flow_stats,
                "enhanced flows began to yield, or stopped yielding"
            );
        }
        self.govern();
        let paths = self.paths().len();
        for (play, need) in needs {
            if let Some(running) = self.running.get_mut(&play) {
                let promised = &mut running.promised;
                promised.look(&running.essential, need.essential_usual, paths);
            }
        }
        self.report();
    }

    /// Shows the state of the session to those who look at the origin.
    fn report(&self) {
        let needs = self.plays.needs(self.now()).into_iter();
        let plays = needs.filter_map(|(play, need)| {
            let running = self.running.get(&play)?;
            Some((running.opened.video.name.clone(), need))
        });
        self.reporter.report(SessionState {
            ticket: String::new(),
            plays: plays.collect(),
            held: self.total,
            part: self.governor.part(),
            seen: if self.running.is_empty() {
                FlowStats::default()
            } else {
                self.seen
            },
        });
    }

    /// Divides the pipe between the active plays, and holds it to the rate that they need.
    fn govern(&mut self) {
        let now = self.now();
        self.is_fetching |= *self.fetching.borrow() > 0;
        let needs: Vec<Need> = self.needs(now);
        let mut extras = self.governor.extras(now, &needs, self.held.len());
        if self.is_fetching && self.capacity.is_some() {
            // The spare capacity is for requests, for which viewers wait.
            extras.fill(0.0);
        }
        self.plays.advance(now);
        self.plays.set_capacity(now, self.governor.part(), &extras);
        self.total = Rate::ZERO;
        self.hold(now);
    }

    fn needs(&self, now: base::Instant) -> Vec<Need> {
        let needs = self.plays.needs(now).into_iter();
        needs.map(|(_, need)| need).collect()
    }

    /// Holds the pipe to the rate that the plays need.
    fn hold(&mut self, now: base::Instant) {
        let mut besides = Besides {
            is_fetching: self.is_fetching,
            backlog_bytes: self.counters.backlog_bytes,
            paths: self.held.len(),
        };
        let needs = self.needs(now);
        let total = self.governor.hold(&needs, besides);
        if is_near(total, self.total) {
            return;
        }
        let paths = self.paths();
        besides.paths = paths.len();
        self.total = self.governor.hold(&needs, besides);
        let carry: Vec<Option<Rate>> = paths.iter().map(|(_, carries)| *carries).collect();
        let shares = paths::divide(self.total, &carry, most_of_path(self.capacity));
        let mut held = BTreeMap::new();
        for ((channel, _), share) in paths.into_iter().zip(shares) {
            let before = self.held.get(&channel).copied();
            if let Some(before) = before.filter(|before| is_near(share, *before)) {
                held.insert(channel, before);
            } else if let Ok(true) = self.session.set_rate_of_channel(channel, share) {
                held.insert(channel, share);
            }
        }
        tracing::debug!(%total, ?held, ?needs, "the rate of the pipe was set");
        self.held = held;
    }

    /// The paths that carry data, and the rate measured on each.
    fn paths(&self) -> Vec<(ChannelId, Option<Rate>)> {
        let reports = self.session.channels().into_iter();
        let active = reports.filter(|report| report.state == ChannelStatus::Active);
        let measured = active.map(|report| {
            let path = report.path.as_ref();
            (report.channel, path.and_then(|path| path.bandwidth_mean))
        });
        measured.collect()
    }
}

fn is_near(rate: Rate, other: Rate) -> bool {
    let ratio = rate.as_bps() as f64 / other.as_bps().max(1) as f64;
    (ratio - 1.0).abs() < NEAR
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

impl Running {
    fn start(session: &Session, play: u32, opened: Arc<Opened>) -> Result<Self, StreamFailure> {
        let essential = session.open_stream(StreamSpec {
            weight: priority::ESSENTIAL_WEIGHT,
            label: Flow::Essential.label(play),
            ..StreamSpec::default()
        })?;
        let enhanced = session.open_stream(StreamSpec {
            label: Flow::Enhanced.label(play),
            ..enhanced_spec()
        })?;
        Ok(Self {
            opened,
            essential,
            enhanced,
            promised: Promised::default(),
        })
    }
}

/// Stream specification of the enhanced flow: no repair, nothing late, the least important frames dropped first.
pub(super) fn enhanced_spec() -> StreamSpec {
    StreamSpec {
        weight: priority::ENHANCED_WEIGHT,
        reliable: false,
        order: Order::Unordered,
        lifetime: Some(LIFETIME),
        drop: Some(DropOrder::LeastImportant),
        ..StreamSpec::default()
    }
}
