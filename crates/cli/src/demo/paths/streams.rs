//! Both ends of the demo's three streams.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    Order, Priority, Session, Stream, StreamFailure, StreamSpec,
    base::{Instant, Seed},
    net::{Clock, session::SendError},
};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::report::StreamRow;
use crate::exit::Failure;

/// Interval of the control stream: 50 messages a second, each of no use after 150 ms.
const CONTROL_EVERY: Duration = Duration::from_millis(20);
const CONTROL_LIFETIME: Duration = Duration::from_millis(150);
const CONTROL_BYTES: usize = 200;
/// Interval of the video stream: 25 frames of 7,500 bytes a second, which is 1.5 Mbit/s.
const FRAME_EVERY: Duration = Duration::from_millis(40);
const FRAME_LIFETIME: Duration = Duration::from_millis(400);
const FRAME_BYTES: usize = 7_500;
/// Size of the ADUs in which the file is sent.
const PIECE_BYTES: usize = 64 << 10;
/// Time allowed after the last message for those still in flight.
const GRACE: Duration = Duration::from_millis(800);

const CONTROL: &str = "control";
const VIDEO: &str = "video";
const FILE: &str = "file";

pub(super) struct Plan {
    pub(super) film: Bytes,
    pub(super) file_bytes: u64,
    pub(super) time: Duration,
    pub(super) clock: Clock,
    pub(super) seed: u64,
}

/// Counts of the messages and bytes sent and received so far, shared by both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    control: Live,
    video: Live,
    file_bytes: u64,
    file_sent_bytes: u64,
    file_time: Duration,
}

#[derive(Debug, Default)]
struct Live {
    sent: u64,
    /// Messages that the engine refused because they would have been late.
    refused: u64,
    arrived_bytes: u64,
    delays: Vec<Duration>,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live<T>(&self, label: &str, change: impl FnOnce(&mut Live) -> T) -> T {
        let mut counts = self.lock();
        change(if label == CONTROL {
            &mut counts.control
        } else {
            &mut counts.video
        })
    }

    /// Formats the end of a progress line.
    pub(super) fn line(&self, file_bytes: u64) -> String {
        let counts = self.lock();
        format!(
            "| control {}/{} | video {}/{} | file {:.0} %",
            counts.control.delays.len(),
            counts.control.sent,
            counts.video.delays.len(),
            counts.video.sent,
            100.0 * counts.file_bytes as f64 / file_bytes as f64,
        )
    }

    pub(super) fn rows(&self) -> Vec<StreamRow> {
        let counts = self.lock();
        let live = |name: &str, asked: &str, live: &Live, lifetime: Duration, time: Duration| {
            let mut delays = live.delays.clone();
            delays.sort_unstable();
            StreamRow {
                name: name.to_owned(),
                asked: asked.to_owned(),
                sent: live.sent,
                refused: live.refused,
                in_time: delays.iter().filter(|&&delay| delay <= lifetime).count() as u64,
                arrived: delays.len() as u64,
                bytes: live.arrived_bytes,
                time,
                delays,
            }
        };
        let time = counts.file_time;
        vec![
            live(
                CONTROL,
                "50 messages/s within 150 ms",
                &counts.control,
                CONTROL_LIFETIME,
                time,
            ),
            live(
                VIDEO,
                "1.5 Mbit/s within 400 ms",
                &counts.video,
                FRAME_LIFETIME,
                time,
            ),
            StreamRow {
                name: FILE.to_owned(),
                asked: "the rest".to_owned(),
                sent: counts.file_sent_bytes.div_ceil(PIECE_BYTES as u64),
                refused: 0,
                in_time: counts.file_bytes.div_ceil(PIECE_BYTES as u64),
                arrived: counts.file_bytes.div_ceil(PIECE_BYTES as u64),
                bytes: counts.file_bytes,
                time,
                delays: Vec::new(),
            },
        ]
    }
}

/// Sends all three streams and returns the file's hash. Live streams continue until the time is over and the file has arrived.
pub(super) async fn send_all(
    session: &Session,
    plan: &Plan,
    tally: &Tally,
) -> Result<String, Failure> {
    let control = session.open_stream(StreamSpec::live(CONTROL, CONTROL_LIFETIME));
    let control = control.map_err(failed)?;
    let video = session.open_stream(StreamSpec {
        order: Order::Unordered,
        lifetime: Some(FRAME_LIFETIME),
        priority: Priority(160),
        label: VIDEO.to_owned(),
        ..StreamSpec::default()
    });
    let video = video.map_err(failed)?;
    let file = session
        .open_stream(StreamSpec::bulk(FILE))
        .map_err(failed)?;
    let filler = Bytes::from(vec![0x42; CONTROL_BYTES]);
    let (done, is_done) = tokio::sync::watch::channel(false);
    let sending = async {
        let hash = send_file(&file, plan, tally).await?;
        tokio::time::sleep(plan.time.saturating_sub(plan.clock.now().since_epoch())).await;
        done.send_replace(true);
        Ok::<_, Failure>(hash)
    };
    let (hash, (), ()) = tokio::try_join!(
        sending,
        send_live(
            &control,
            CONTROL_EVERY,
            filler,
            CONTROL_BYTES,
            plan.clock,
            tally,
            is_done.clone()
        ),
        send_live(
            &video,
            FRAME_EVERY,
            plan.film.clone(),
            FRAME_BYTES,
            plan.clock,
            tally,
            is_done
        ),
    )?;
    tokio::time::sleep(GRACE).await;
    for stream in [&control, &video] {
        stream.finish().map_err(failed)?;
    }
    Ok(hash)
}

/// Sends messages of repeated `content`, each with its time of origin, until `is_done`.
async fn send_live(
    stream: &Stream,
    every: Duration,
    content: Bytes,
    bytes: usize,
    clock: Clock,
    tally: &Tally,
    is_done: tokio::sync::watch::Receiver<bool>,
) -> Result<(), Failure> {
    let label = stream.spec().label.clone();
    let mut tick = tokio::time::interval(every);
    let mut rest = content.clone();
    while !*is_done.borrow() {
        tick.tick().await;
        let mut message = BytesMut::with_capacity(bytes);
        message.put_u64(clock.now().as_nanos());
        while message.len() < bytes {
            if rest.is_empty() {
                rest = content.clone();
            }
            let piece = rest.split_to(rest.len().min(bytes - message.len()));
            message.extend_from_slice(&piece);
        }
        let result = stream.try_send(message.freeze());
        tally.live(&label, |live| live.sent += 1);
        match result {
            Ok(_) => {}
            Err(StreamFailure::Send(SendError::WouldMiss { .. } | SendError::Full(_))) => {
                tally.live(&label, |live| live.refused += 1);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

async fn send_file(stream: &Stream, plan: &Plan, tally: &Tally) -> Result<String, Failure> {
    let mut random = Seed(plan.seed).stream("file");
    let mut hasher = anabranch::transfer::Hasher::new();
    let mut left = plan.file_bytes;
    while left > 0 {
        let mut piece = vec![0; (PIECE_BYTES as u64).min(left) as usize];
        random.fill(&mut piece);
        hasher.update(&piece);
        left -= piece.len() as u64;
        let bytes = piece.len() as u64;
        stream.send(piece.into()).await.map_err(failed)?;
        tally.lock().file_sent_bytes += bytes;
    }
    stream.finish().map_err(failed)?;
    stream.delivered().await.map_err(failed)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Receives all three streams and returns the file's hash.
pub(super) async fn receive_all(
    session: Session,
    clock: Clock,
    tally: Tally,
) -> Result<String, Failure> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let stream = session
            .accept_stream()
            .await
            .map_err(Failure::interrupted)?;
        tasks.spawn(receive(stream, clock, tally.clone()));
    }
    let mut hash = None;
    while let Some(ended) = tasks.join_next().await {
        hash = ended.map_err(Failure::other)??.or(hash);
    }
    hash.ok_or_else(|| Failure::other("the file did not arrive"))
}

/// Receives a stream to its end; returns the hash if it is the file.
async fn receive(stream: Stream, clock: Clock, tally: Tally) -> Result<Option<String>, Failure> {
    let label = stream.spec().label.clone();
    let mut hasher = anabranch::transfer::Hasher::new();
    while let Some(mut adu) = stream.recv().await.map_err(failed)? {
        let now = clock.now();
        if label == FILE {
            hasher.update(&adu.data);
            let mut counts = tally.lock();
            counts.file_bytes += adu.data.len() as u64;
            counts.file_time = now.since_epoch();
            continue;
        }
        let bytes = adu.data.len() as u64;
        if bytes < 8 {
            return Err(Failure::other(
                "a message arrived without its time of origin",
            ));
        }
        let sent = Instant::from_nanos(adu.data.get_u64());
        tally.live(&label, |live| {
            live.delays.push(now.since(sent));
            live.arrived_bytes += bytes;
        });
    }
    Ok((label == FILE).then(|| hasher.finalize().to_hex().to_string()))
}

fn failed(error: StreamFailure) -> Failure {
    Failure::interrupted(error)
}
