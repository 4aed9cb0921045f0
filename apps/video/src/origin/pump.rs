//! The task that paces all plays of a session: one timer for all, so that what several flows have to send at a time
//! leaves in small portions [Two-flow §5].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch::{DropOrder, Order, Session, Stream, StreamFailure, StreamSpec};
use anabranch_media::Part;
use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use super::{
    library::Opened,
    play::{Due, Play},
    serve::read,
};
use crate::{
    priority,
    wire::{Flow, From, Refusal, RefusalKind, Reply},
};

/// The timer of the pump.
const TICK: Duration = Duration::from_millis(5);
/// Plays of one session.
const PLAYS_MAX: usize = 1_024;
/// What was not sent, or did not arrive, after this long is given up.
pub(crate) const LIFETIME: Duration = Duration::from_millis(1_000);

/// What a proxy wants of the pump.
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

struct Running {
    play: Play,
    essential: Stream,
    enhanced: Stream,
    advanced: Instant,
}

/// Something was read for a play.
struct Loaded {
    play: u32,
    epoch: u32,
    chunk: u32,
    part: Part,
    result: Result<Bytes, Refusal>,
}

/// Runs until the session is over.
pub(super) async fn run(
    session: &Session,
    control: &Stream,
    mut commands: mpsc::Receiver<Command>,
) -> Result<(), StreamFailure> {
    let mut plays: BTreeMap<u32, Running> = BTreeMap::new();
    let (done, mut loaded) = mpsc::unbounded_channel();
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            command = commands.recv() => {
                let Some(command) = command else { return Ok(()) };
                obey(session, control, &mut plays, command).await?;
            }
            Some(loaded) = loaded.recv() => take(control, &mut plays, loaded).await?,
            _ = timer.tick(), if plays.values().any(|running| !running.play.is_over()) => {}
        }
        for (&number, running) in &mut plays {
            running.advance()?;
            let epoch = running.play.epoch;
            while let Some((chunk, part)) = running.play.wanted() {
                let (opened, done) = (running.play.opened.clone(), done.clone());
                tokio::spawn(async move {
                    let result = read(opened, chunk, part).await;
                    // The pump may be gone.
                    let _ = done.send(Loaded {
                        play: number,
                        epoch,
                        chunk,
                        part,
                        result,
                    });
                });
            }
        }
    }
}

async fn obey(
    session: &Session,
    control: &Stream,
    plays: &mut BTreeMap<u32, Running>,
    command: Command,
) -> Result<(), StreamFailure> {
    match command {
        Command::Play {
            id,
            play,
            opened,
            from,
        } => {
            let reply = if plays.len() >= PLAYS_MAX {
                let words = format!("this proxy has {PLAYS_MAX} plays already");
                let refusal = Refusal {
                    retry_after_s: Some(10),
                    ..Refusal::new(RefusalKind::Full, words)
                };
                Reply::Refused { id, refusal }
            } else {
                let running = Running::start(session, play, opened, from)?;
                plays.insert(play, running);
                Reply::Playing { id }
            };
            control.send(reply.encode()).await?;
        }
        Command::Seek { play, from } => {
            if let Some(running) = plays.get_mut(&play) {
                running.play.seek(from);
                running.advanced = Instant::now();
            }
        }
        Command::Stop { play } => {
            if let Some(running) = plays.remove(&play) {
                // The proxy may have stopped them before.
                let _ = running.essential.reset(0);
                let _ = running.enhanced.reset(0);
            }
        }
    }
    Ok(())
}

async fn take(
    control: &Stream,
    plays: &mut BTreeMap<u32, Running>,
    loaded: Loaded,
) -> Result<(), StreamFailure> {
    let Some(running) = plays.get_mut(&loaded.play) else {
        return Ok(());
    };
    if running.play.epoch != loaded.epoch {
        return Ok(());
    }
    match loaded.result {
        Ok(data) => {
            running.play.loaded(loaded.chunk, loaded.part, data);
            Ok(())
        }
        Err(refusal) => {
            tracing::warn!(error = %refusal, "a play ends");
            plays.remove(&loaded.play);
            let ended = Reply::Ended {
                play: loaded.play,
                refusal,
            };
            control.send(ended.encode()).await?;
            Ok(())
        }
    }
}

impl Running {
    fn start(
        session: &Session,
        play: u32,
        opened: Arc<Opened>,
        from: From,
    ) -> Result<Self, StreamFailure> {
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
            play: Play::new(opened, from),
            essential,
            enhanced,
            advanced: Instant::now(),
        })
    }

    fn advance(&mut self) -> Result<(), StreamFailure> {
        let now = Instant::now();
        let passed = now - self.advanced;
        self.advanced = now;
        let mut failure = None;
        let (essential, enhanced) = (&self.essential, &self.enhanced);
        self.play.advance(passed, |due| {
            let sent = match due {
                Due::Essential(record) => essential.try_send(record.encode()),
                Due::Enhanced(adu, importance) => {
                    let importance = u8::try_from(importance).unwrap_or(u8::MAX);
                    enhanced.try_send_important(adu.encode(), importance)
                }
            };
            match sent {
                Ok(_) => true,
                // Full: later. Stopped: the proxy has let go of the play, and says so soon.
                Err(StreamFailure::Send(_) | StreamFailure::Stopped(_)) => false,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        failure.map_or(Ok(()), Err)
    }
}

/// What the enhanced flow asks of the session: no repair, nothing late, the least important frames dropped first.
fn enhanced_spec() -> StreamSpec {
    StreamSpec {
        weight: priority::ENHANCED_WEIGHT,
        reliable: false,
        order: Order::Unordered,
        lifetime: Some(LIFETIME),
        drop: Some(DropOrder::LeastImportant),
        ..StreamSpec::default()
    }
}
