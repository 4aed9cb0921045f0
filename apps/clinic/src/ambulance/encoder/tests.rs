//! The real ffmpeg, and programs that behave like one that fails.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio, sync::Mutex};

use tokio::sync::watch;

use super::process::{BEGIN_TIME, KEY_TIME};
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
        |event| changes.lock().unwrap().push(event),
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
    assert_eq!(
        *changes.lock().unwrap(),
        [1_000_000, 150_000].map(Event::Rate)
    );
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

/// A program that is ffmpeg, but for `camera` and `encoder`: commands of a shell with the same arguments, of which `first` is true where the
/// encoder is the first one.
struct Wrong {
    folder: tempfile::TempDir,
    source: Source,
}

impl Wrong {
    fn new(seconds: u32, camera: &str, encoder: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let was = folder.path().join("was");
        let text = format!(
            "#!/bin/sh\nfirst() {{ mkdir {was:?} 2>/dev/null; }}\ncase \"$*\" in\n*yuv4mpegpipe\\ -) {camera};;\n*) {encoder};;\nesac\n"
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let source = Source {
            program: program.to_str().unwrap().to_owned(),
            ..source(seconds)
        };
        Self { folder, source }
    }

    /// Plays it; returns whether each picture was a key picture, the events, and the error.
    async fn play(&self) -> (Vec<bool>, Vec<Event>, Option<String>) {
        let (_rate, followed) = watch::channel(300_000);
        let keys = Keys::new(true);
        let wishes = Wishes {
            rate: followed,
            keys: &keys,
        };
        let (events, mut units) = (Mutex::new(Vec::new()), Vec::new());
        let report = |event| events.lock().unwrap().push(event);
        let played = self
            .source
            .play(wishes, report, |unit| units.push(unit.is_key));
        let error = played.await.err().map(|error| error.to_string());
        let program = self.folder.path().join("program");
        let error = error.map(|error| error.replace(program.to_str().unwrap(), "ffmpeg"));
        (units, events.into_inner().unwrap(), error)
    }
}

const FFMPEG: &str = "exec ffmpeg \"$@\"";

/// One failure, and an encoder before and after it.
fn is_replaced(events: &[Event], why: &str) {
    let [
        Event::Rate(300_000),
        Event::Failed(own),
        Event::Rate(300_000),
    ] = events
    else {
        panic!("{events:?}");
    };
    assert!(own.contains(why), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_hangs_is_replaced() {
    if !has_ffmpeg() {
        return;
    }
    let encoder = format!("if first; then exec cat >/dev/null; fi; {FFMPEG}");
    let (units, events, error) = Wrong::new(9, FFMPEG, &encoder).play().await;
    is_replaced(&events, "the encoder: it gave no picture for 5 s");
    assert_eq!(error, None);
    assert!((1..=125).contains(&units.len()) && units[0], "{units:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_does_not_read_is_replaced() {
    if !has_ffmpeg() {
        return;
    }
    let encoder = format!("if first; then exec sleep 1000; fi; {FFMPEG}");
    let (units, events, error) = Wrong::new(9, FFMPEG, &encoder).play().await;
    is_replaced(&events, "the encoder: it gave no picture for 5 s");
    assert_eq!(error, None);
    // A file waits meanwhile.
    assert!((1..=225).contains(&units.len()) && units[0], "{units:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_dies_is_replaced() {
    if !has_ffmpeg() {
        return;
    }
    // After 60 pictures.
    let few = "if first; then head -c 1728500 | ffmpeg \"$@\"; echo of no use >&2; exit 3; fi";
    let encoder = format!("{few}; {FFMPEG}");
    let (units, events, error) = Wrong::new(9, FFMPEG, &encoder).play().await;
    is_replaced(&events, "of no use");
    assert_eq!(error, None);
    let keys: Vec<usize> = (0..units.len()).filter(|at| units[*at]).collect();
    assert!(keys.len() > 3 && keys[..2] == [0, 50], "{keys:?}");
    // The first picture of the next one.
    assert!((51..=60).contains(&keys[2]), "{keys:?}");
    assert!((60..225).contains(&units.len()), "{units:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_floods_is_replaced() {
    if !has_ffmpeg() {
        return;
    }
    let flood =
        "-loglevel error -f lavfi -i testsrc2=size=64x64:rate=1000:duration=1000 -bf 0 -f h264 -";
    let encoder = format!("if first; then exec ffmpeg {flood}; fi; {FFMPEG}");
    let (units, events, error) = Wrong::new(5, FFMPEG, &encoder).play().await;
    is_replaced(
        &events,
        "the encoder: it gives more pictures than it is given",
    );
    assert_eq!(error, None);
    assert!((1..=125).contains(&units.len()) && units[0], "{units:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encoders_that_fail_again_and_again_end_the_video() {
    if !has_ffmpeg() {
        return;
    }
    let (units, events, error) = Wrong::new(20, FFMPEG, "echo no memory >&2; exit 3")
        .play()
        .await;
    assert_eq!(units, [false; 0]);
    let failures = events
        .iter()
        .filter(|event| matches!(event, Event::Failed(_)));
    assert_eq!(failures.count(), FAILURES_MAX.0);
    let error = error.unwrap();
    assert!(
        error.starts_with("the encoder: ") && error.ends_with("no memory"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_camera_that_is_unplugged_ends_the_video_in_words() {
    if !has_ffmpeg() {
        return;
    }
    let camera = "ffmpeg \"$@\"; echo No such device >&2; exit 1";
    let (units, events, error) = Wrong::new(2, camera, FFMPEG).play().await;
    assert_eq!((units.len(), events.len()), (50, 1));
    let error = error.unwrap();
    assert!(
        error.starts_with("ffmpeg: it ended with") && error.ends_with("No such device"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_camera_that_stands_still_ends_the_video_in_words() {
    if !has_ffmpeg() {
        return;
    }
    let camera = "ffmpeg \"$@\"; exec sleep 1000";
    let (units, events, error) = Wrong::new(2, camera, FFMPEG).play().await;
    // The end of the last one is known by the next.
    assert_eq!((units.len(), events.len()), (49, 1));
    assert_eq!(
        error.unwrap(),
        "ffmpeg: no picture came from the camera for 10 s"
    );
}
