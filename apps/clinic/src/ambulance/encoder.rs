//! Encoder that follows a rate: raw pictures of one process are encoded by another, which is replaced when the rate changes.
//!
//! The process at the new rate is started while the old one encodes. Once it has had time to begin, pictures go to it; the old one gets no
//! more, and ends with what it has. So every picture is encoded once, in order, and the first at the new rate is one at which a decoder can
//! begin. A wish for such a picture is answered in the same way, at the same rate.

use std::{collections::VecDeque, ops::RangeInclusive, process::Stdio, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

use super::film::{Input, Wishes, ended, last_words, words};
use crate::{ambulance::y4m, annexb::AccessUnit, error::ClinicError};

/// Pictures between two at which a decoder can begin.
const GROUP: u32 = 50;
/// Time for a process to begin.
const BEGIN_TIME: Duration = Duration::from_millis(300);
/// Shortest time from a change to one to a lower rate, and to one to a higher rate: what the paths have for a stream comes and goes, and
/// each change costs a key picture.
const CHANGE_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Shortest time between two key pictures on request.
const KEY_TIME: Duration = Duration::from_secs(1);
/// Smallest change that is worth another process: one in so many.
const CHANGE: u64 = 6;
/// Raw pictures that wait for an encoder, and access units that come from it.
const WAITING_MAX: (usize, usize) = (4, 64);
/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Input of ffmpeg that is encoded, at a rate that is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Name or path of ffmpeg.
    pub program: String,
    /// Its arguments for the input.
    pub input: Vec<String>,
    /// Lowest and highest rate, in bit/s; the first is half of the highest, or the lowest.
    pub rates_bps: RangeInclusive<u64>,
}

impl Source {
    /// Rate to begin with, in bit/s.
    pub(super) fn first_bps(&self) -> u64 {
        self.held(self.rates_bps.end() / 2)
    }

    /// The nearest rate between the lowest and the highest.
    pub(super) fn held(&self, rate_bps: u64) -> u64 {
        rate_bps
            .min(*self.rates_bps.end())
            .max(*self.rates_bps.start())
    }

    fn failed(&self, why: std::io::Error) -> ClinicError {
        ClinicError::File {
            file: self.program.clone(),
            why,
        }
    }

    /// Plays it to its end as it is wished, and gives each picture; `changed` is called with the rate of each encoder.
    pub(super) async fn play(
        &self,
        wishes: Wishes<'_>,
        changed: impl Fn(u64),
        mut give: impl FnMut(AccessUnit),
    ) -> Result<(), ClinicError> {
        let arguments = [
            words(&["-nostdin", "-loglevel", "error", "-re"]),
            self.input.clone(),
            words(&["-an", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]),
        ];
        let mut process = Command::new(&self.program)
            .args(arguments.concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| self.failed(why))?;
        let mut output = process.stdout.take().expect("it is piped");
        let said = process.stderr.take().expect("it is piped");
        let said = tokio::spawn(last_words(said));
        let mut reader = y4m::Reader::default();
        // The first gives units; the last is the next, or the same.
        let mut encoders = VecDeque::<Encoder>::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut is_over = false;
        let mut key_at = None;
        loop {
            let front = encoders.front_mut();
            let has_front = front.is_some();
            tokio::select! {
                biased;
                unit = async { front?.units.recv().await }, if has_front => match unit {
                    Some(unit) => {
                        let unit = unit?;
                        if unit.is_key {
                            key_at = Some(Instant::now());
                        }
                        give(unit);
                    }
                    None => {
                        let ended = encoders.pop_front();
                        if ended.is_some_and(|ended| ended.input.is_some()) {
                            let why = "it ended before the pictures did";
                            return Err(self.failed(std::io::Error::other(why)));
                        }
                        if encoders.is_empty() {
                            break;
                        }
                    }
                },
                read = output.read(&mut piece), if !is_over => {
                    let read = read.map_err(|why| self.failed(why))?;
                    is_over = read == 0;
                    if is_over {
                        // One that has not had its turn has nothing to give.
                        if encoders.front().is_some_and(|first| first.input.is_some()) {
                            encoders.truncate(1);
                        }
                        encoders.iter_mut().for_each(|encoder| encoder.input = None);
                        if encoders.is_empty() {
                            break;
                        }
                    }
                    let pictures = reader.push(&piece[..read]);
                    let pictures = pictures.map_err(|why| self.failed(std::io::Error::other(why)))?;
                    let Some(head) = reader.head() else { continue };
                    for picture in pictures {
                        let wanted = self.held(*wishes.rate.borrow());
                        let last = encoders.back();
                        let is_other = last.is_none_or(|last| {
                            last.is_other(wanted)
                                || wishes.keys.is_wanted() && last.may_be_followed(key_at)
                        });
                        if encoders.len() < 2 && is_other {
                            encoders.push_back(Encoder::start(self, wanted, head)?);
                            changed(wanted);
                        }
                        turn(&mut encoders);
                        let fed = encoders.iter().find_map(|encoder| encoder.input.clone());
                        if let Some(fed) = fed {
                            // One that has ended is seen by its units.
                            let _ = fed.send(picture.into()).await;
                        }
                    }
                }
            }
        }
        ended(&self.program, process, None, said).await
    }
}

/// The first encoder gets no more once the next one has begun.
fn turn(encoders: &mut VecDeque<Encoder>) {
    let is_ready = (encoders.get(1)).is_some_and(|next| next.begun.elapsed() >= BEGIN_TIME);
    if is_ready && let Some(first) = encoders.front_mut() {
        first.input = None;
    }
}

/// An encoder process.
#[derive(Debug)]
struct Encoder {
    rate_bps: u64,
    begun: Instant,
    /// Raw pictures; `None`: no more come.
    input: Option<mpsc::Sender<Arc<[u8]>>>,
    units: mpsc::Receiver<Result<AccessUnit, ClinicError>>,
    _tasks: JoinSet<()>,
}

impl Encoder {
    fn start(source: &Source, rate_bps: u64, head: &[u8]) -> Result<Self, ClinicError> {
        let mut process = Command::new(&source.program)
            .args(arguments(rate_bps))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| source.failed(why))?;
        let stdin = process.stdin.take().expect("it is piped");
        let output = process.stdout.take().expect("it is piped");
        let said = process.stderr.take().expect("it is piped");
        let (input, pictures) = mpsc::channel(WAITING_MAX.0);
        let (sender, units) = mpsc::channel(WAITING_MAX.1);
        let mut tasks = JoinSet::new();
        tasks.spawn(feed(stdin, head.to_vec(), pictures));
        let program = source.program.clone();
        tasks.spawn(async move {
            let said = tokio::spawn(last_words(said));
            let wrong = read(output, &sender).await;
            if let Err(error) = ended(&program, process, wrong, said).await {
                // Without a receiver, the video has ended.
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Self {
            rate_bps,
            begun: Instant::now(),
            input: Some(input),
            units,
            _tasks: tasks,
        })
    }

    /// True if it has given a key picture, and one of an encoder that is started now would be late enough after the last one.
    fn may_be_followed(&self, key_at: Option<Instant>) -> bool {
        key_at.is_some_and(|at| at >= self.begun && at.elapsed() + BEGIN_TIME >= KEY_TIME)
    }

    /// True if the rate is so far from that of this encoder that another one is worth it.
    fn is_other(&self, rate_bps: u64) -> bool {
        let time = match rate_bps < self.rate_bps {
            true => CHANGE_TIME.0,
            false => CHANGE_TIME.1,
        };
        self.begun.elapsed() >= time && rate_bps.abs_diff(self.rate_bps) > self.rate_bps / CHANGE
    }
}

/// Arguments of an encoder without B pictures and without delay.
fn arguments(rate_bps: u64) -> Vec<String> {
    let fixed = [
        "-loglevel",
        "error",
        "-probesize",
        "32",
        "-f",
        "yuv4mpegpipe",
        "-i",
        "-",
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-tune",
        "zerolatency",
        "-pix_fmt",
        "yuv420p",
        "-bf",
        "0",
    ];
    let rate = rate_bps.to_string();
    let buffer = (rate_bps / 2).to_string();
    let group = GROUP.to_string();
    let variable = [
        "-g", &group, "-b:v", &rate, "-maxrate", &rate, "-bufsize", &buffer, "-f", "h264", "-",
    ];
    [words(&fixed), words(&variable)].concat()
}

/// Writes pictures to an encoder until no more come, or it has ended.
async fn feed(mut stdin: ChildStdin, head: Vec<u8>, mut pictures: mpsc::Receiver<Arc<[u8]>>) {
    let mut fed = stdin.write_all(&head).await;
    while fed.is_ok() {
        let Some(picture) = pictures.recv().await else {
            break;
        };
        fed = stdin.write_all(&picture).await;
    }
}

/// Gives the units of an encoder; returns the error of its output.
async fn read(
    output: ChildStdout,
    units: &mpsc::Sender<Result<AccessUnit, ClinicError>>,
) -> Option<ClinicError> {
    let mut input = Input::new(output);
    loop {
        match input.next().await {
            Ok(Some(Ok(more))) => {
                for unit in more {
                    units.send(Ok(unit)).await.ok()?;
                }
            }
            Ok(Some(Err(error))) => return Some(error.into()),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::watch;

    use super::*;
    use crate::ambulance::keys::Keys;

    fn source(seconds: u32) -> Source {
        let video = format!("testsrc2=size=160x120:rate=25:duration={seconds}");
        Source {
            program: "ffmpeg".to_owned(),
            input: words(&["-f", "lavfi", "-i", &video]),
            rates_bps: 100_000..=2_000_000,
        }
    }

    fn has_ffmpeg() -> bool {
        let mut look = std::process::Command::new("ffmpeg");
        let found = look
            .arg("-version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        found.status().is_ok()
    }

    #[test]
    fn rates_are_held_between_the_lowest_and_the_highest() {
        let source = source(1);
        assert_eq!(source.first_bps(), 1_000_000);
        assert_eq!(
            (source.held(1), source.held(u64::MAX)),
            (100_000, 2_000_000)
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_picture_is_encoded_once_and_a_change_begins_with_a_key() {
        if !has_ffmpeg() {
            return;
        }
        let (rate, followed) = watch::channel(1_000_000);
        let (changes, mut units) = (Mutex::new(Vec::new()), Vec::new());
        let source = source(8);
        let keys = Keys::new(true);
        let wishes = Wishes {
            rate: followed,
            keys: &keys,
        };
        let played = source.play(
            wishes,
            |rate_bps| changes.lock().unwrap().push(rate_bps),
            |unit| {
                units.push((unit.is_key, unit.bytes.len()));
                // A small change is not worth another encoder.
                match units.len() {
                    30 => drop(rate.send_replace(1_100_000)),
                    60 => drop(rate.send_replace(150_000)),
                    _ => {}
                }
            },
        );
        played.await.unwrap();
        assert_eq!(*changes.lock().unwrap(), [1_000_000, 150_000]);
        assert_eq!(units.len(), 200);
        let keys = (0..200).filter(|at| units[*at].0).collect::<Vec<_>>();
        assert_eq!(keys[..2], [0, 50]);
        let change = keys.iter().copied().find(|at| at % 50 != 0);
        let change = change.unwrap();
        assert!(change > 60, "{keys:?}");
        let bytes = |units: &[(bool, usize)]| {
            units.iter().map(|(_, bytes)| bytes).sum::<usize>() as f64 / units.len() as f64
        };
        assert!(
            bytes(&units[change + 1..]) < 0.5 * bytes(&units[1..50]),
            "{units:?}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_key_picture_is_made_on_request_a_second_after_the_last() {
        if !has_ffmpeg() {
            return;
        }
        let (_rate, followed) = watch::channel(300_000);
        let keys = Keys::new(true);
        let wishes = Wishes {
            rate: followed,
            keys: &keys,
        };
        let (starts, mut made) = (Mutex::new(0), Vec::new());
        let mut number = 0;
        let source = source(8);
        let played = source.play(
            wishes,
            |_| *starts.lock().unwrap() += 1,
            |unit| {
                if unit.is_key {
                    keys.made(number);
                    made.push((number, Instant::now()));
                }
                // More than can be answered, for a while.
                if (60..110).contains(&number) {
                    keys.request(number);
                }
                number += 1;
            },
        );
        played.await.unwrap();
        assert_eq!((number, made[0].0, made[1].0), (200, 0, 50));
        let answers = *starts.lock().unwrap() - 1;
        assert!((1..=3).contains(&answers), "{answers}: {made:?}");
        assert!((61..=110).contains(&made[2].0), "{made:?}");
        // One that comes after 50 pictures in any case may be next to an answer that had begun before.
        let (mut before, mut answer_at) = made[0];
        for &(number, at) in &made[1..] {
            if number != before + 50 {
                let time = at - answer_at;
                assert!(time >= KEY_TIME - BEGIN_TIME, "{time:?}: {made:?}");
                answer_at = at;
            }
            before = number;
        }
        assert!(!keys.is_wanted());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_process_that_is_no_ffmpeg_fails_in_words() {
        let other = |program: &str| Source {
            program: program.to_owned(),
            ..source(1)
        };
        let play = async |source: Source| {
            let (_rate, followed) = watch::channel(1_000_000);
            let keys = Keys::new(true);
            let wishes = Wishes {
                rate: followed,
                keys: &keys,
            };
            let played = source.play(wishes, |_| {}, |_| {}).await;
            played.unwrap_err().to_string()
        };
        let words = play(other("no-such-program")).await;
        assert!(words.starts_with("no-such-program: "), "{words}");
        // It takes no options of ffmpeg.
        let words = play(other("false")).await;
        assert!(words.contains("it ended with"), "{words}");
    }
}
