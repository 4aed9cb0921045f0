//! Simulations that misbehave, as the source sees them.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{pause, resume, sleep},
};

use super::{
    Asking, Report, Settings, Source,
    live::{Live, Watcher},
};
use crate::{
    error::VisualiseError,
    imd::{ByteOrder, Command, Frame, Section, Sections, SessionInfo},
};

const POSITIONS: Sections = Sections::of(&[Section::Positions]);

fn info() -> SessionInfo {
    SessionInfo {
        order: ByteOrder::Little,
        sections: POSITIONS,
        is_wrapped: false,
    }
}

fn frame(atoms: usize, value: f32) -> Frame {
    let mut frame = Frame::default();
    let body = value.to_le_bytes().repeat(3 * atoms);
    frame.set(Section::Positions, body.into());
    frame
}

fn packets(frame: &Frame) -> Vec<u8> {
    frame.packets(POSITIONS).to_vec()
}

async fn source(is_waiting: bool) -> (TcpListener, Arc<Source>, mpsc::Receiver<Report>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (reports, reported) = mpsc::channel(100);
    let settings = Settings {
        name: "adk".to_owned(),
        address: listener.local_addr().unwrap().to_string(),
        is_waiting,
        may_steer: true,
        may_kill: true,
        asking: Asking::Nothing,
    };
    (listener, Source::new(settings, reports), reported)
}

/// The source's side of a simulation that sends these bytes and closes the connection.
async fn sent(bytes: &[u8]) -> Result<String, VisualiseError> {
    let (listener, source, _reported) = source(false).await;
    let simulating = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        // Until the source closes it.
        let _ = socket.read_to_end(&mut Vec::new()).await;
    };
    tokio::join!(source.simulate(), simulating).0
}

async fn go(socket: &mut TcpStream) {
    let mut bytes = [0; 8];
    socket.read_exact(&mut bytes).await.unwrap();
    assert_eq!(bytes, Command::Go.to_bytes());
}

#[tokio::test]
async fn what_is_no_simulation_is_refused_in_words() {
    let hello = info().to_bytes();
    let version_2 = [0, 0, 0, 4, 2, 0, 0, 0];
    let energies = [&hello[..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    let negative = [&hello[..], &[0, 0, 0, 2, 255, 255, 255, 255]].concat();
    for (bytes, says) in [
        (&b"HTTP/1.1 400"[..], "no IMD handshake"),
        (&b""[..], "another receiver"),
        (&version_2[..], "choose IMDv3"),
        (&energies[..], "where positions"),
        (&negative[..], "stated as -1"),
    ] {
        let words = match sent(bytes).await {
            Ok(words) => words,
            Err(error) => error.to_string(),
        };
        // The source is not to hang on what has no handshake.
        let words = words.replace(
            "it does not begin with an IMD handshake",
            "no IMD handshake",
        );
        assert!(words.contains(says), "{words}");
    }
}

#[tokio::test]
async fn a_simulation_that_is_not_there_can_be_tried_again() {
    let (listener, source, _reported) = source(false).await;
    drop(listener);
    let error = source.simulate().await.unwrap_err();
    assert!(error.is_interruption(), "{error}");
}

#[tokio::test]
async fn a_frame_that_breaks_off_is_left_out() {
    let whole = packets(&frame(2, f32::NAN));
    let bytes = [&info().to_bytes()[..], &whole, &whole[..20]].concat();
    assert!(sent(&bytes).await.unwrap().contains("within a frame"));
    let bytes = [&info().to_bytes()[..], &whole].concat();
    assert!(!sent(&bytes).await.unwrap().contains("within a frame"));
}

/// Longer than every limit.
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_simulation_that_stops_within_a_frame_goes_on() {
    let (listener, source, mut reported) = source(false).await;
    let watching = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&info().to_bytes()).await.unwrap();
        go(&mut socket).await;
        let (watcher, ..) = join(&source, POSITIONS);
        for number in 0..2 {
            let whole = frame(1_000, number as f32);
            let bytes = packets(&whole);
            let (half, rest) = bytes.split_at(bytes.len() / 2);
            socket.write_all(half).await.unwrap();
            pause();
            sleep(DAY).await;
            resume();
            socket.write_all(rest).await.unwrap();
            assert_eq!(watcher.queue.take().await, Some((number, whole)));
        }
        socket.shutdown().await.unwrap();
    };
    tokio::join!(source.simulate(), watching).0.unwrap();
    let mut ended = Vec::new();
    while let Ok(report) = reported.try_recv() {
        if let Report::Ended { frames, .. } = report {
            ended.push(frames);
        }
    }
    assert_eq!(ended, [2]);
}

/// Joins the session that there is.
fn join(source: &Source, sections: Sections) -> (Arc<Watcher>, u64, u64) {
    let live = source.live.borrow().clone().unwrap();
    let (watcher, begun) = live.join(sections);
    live.go(&watcher);
    (watcher, begun.session, begun.next)
}

#[tokio::test]
async fn another_number_of_atoms_is_another_session() {
    let (listener, source, mut reported) = source(false).await;
    let watching = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&info().to_bytes()).await.unwrap();
        go(&mut socket).await;
        let (first, session, next) = join(&source, POSITIONS);
        assert_eq!(next, 0);
        for atoms in [2, 2, 3] {
            let bytes = packets(&frame(atoms, 1.0));
            socket.write_all(&bytes).await.unwrap();
        }
        for number in 0..2 {
            let expected = Some((number, frame(2, 1.0)));
            assert_eq!(first.queue.take().await, expected);
        }
        assert_eq!(first.queue.take().await, None);
        let (second, other, _) = join(&source, POSITIONS);
        assert_ne!(session, other);
        socket.write_all(&packets(&frame(3, 2.0))).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut last = None;
        while let Some(taken) = second.queue.take().await {
            last = Some(taken);
        }
        assert_eq!(last.unwrap().1, frame(3, 2.0));
    };
    tokio::join!(source.simulate(), watching).0.unwrap();
    let mut ended = Vec::new();
    while let Ok(report) = reported.try_recv() {
        if let Report::Ended { why, .. } = report {
            ended.push(why);
        }
    }
    assert!(ended[0].contains("from 2 atoms to 3"), "{ended:?}");
    assert_eq!(ended.len(), 2);
}

#[tokio::test]
async fn a_simulation_that_waits_begins_with_a_viewer() {
    let (listener, source, _reported) = source(true).await;
    let simulating = source.simulate();
    tokio::pin!(simulating);
    tokio::select! {
        biased;
        _ = &mut simulating => panic!("it is over"),
        _ = listener.accept() => panic!("nobody watches"),
        () = tokio::task::yield_now() => {}
    }
    source.watching.send_modify(|count| *count += 1);
    let watching = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&info().to_bytes()).await.unwrap();
        let live = source
            .live
            .subscribe()
            .wait_for(Option::is_some)
            .await
            .unwrap()
            .clone()
            .unwrap();
        let (watcher, _) = live.join(POSITIONS);
        live.go(&watcher);
        go(&mut socket).await;
        // More than a queue holds: nothing is skipped.
        let many = frame(1_000_000, 0.5);
        let bytes = packets(&many);
        let sending = async {
            for _ in 0..6 {
                socket.write_all(&bytes).await.unwrap();
            }
            socket.shutdown().await.unwrap();
        };
        let taking = async {
            let mut numbers = Vec::new();
            while let Some((number, taken)) = watcher.queue.take().await {
                assert_eq!(taken, many);
                numbers.push(number);
            }
            numbers
        };
        let ((), numbers) = tokio::join!(sending, taking);
        assert_eq!(numbers, (0..6).collect::<Vec<_>>());
    };
    let (ended, ()) = tokio::join!(simulating, watching);
    ended.unwrap();
}

#[tokio::test]
async fn who_does_not_keep_up_skips_whole_frames_and_holds_up_nobody() {
    let (listener, source, _reported) = source(false).await;
    let watching = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&info().to_bytes()).await.unwrap();
        go(&mut socket).await;
        let (slow, ..) = join(&source, POSITIONS);
        let bytes = packets(&frame(1_000_000, 0.5));
        for _ in 0..6 {
            socket.write_all(&bytes).await.unwrap();
        }
        socket.shutdown().await.unwrap();
        slow
    };
    let (ended, slow) = tokio::join!(source.simulate(), watching);
    ended.unwrap();
    let mut numbers = Vec::new();
    while let Some((number, taken)) = slow.queue.take().await {
        assert_eq!(taken.bytes(), 12_000_000);
        numbers.push(number);
    }
    assert_eq!(numbers, [0, 1]);
    assert_eq!(slow.skipped.load(std::sync::atomic::Ordering::Relaxed), 4);
}

#[tokio::test]
async fn who_watches_a_small_section_holds_whole_frames() {
    let live = Live::new(1, info(), mpsc::channel(1).0);
    let small = Sections::of(&[Section::Energies]);
    let watchers: Vec<_> = (0..40).map(|_| live.join(small).0).collect();
    // 8 MB each.
    let large = frame(670_000, 1.0);
    for _ in 0..10 {
        live.give(&large, false).await;
    }
    let held: Vec<usize> = watchers.iter().map(|one| one.queue.bytes()).collect();
    assert!(
        held.iter()
            .all(|&bytes| bytes >= large.bytes() && bytes <= 32 << 20)
    );
    let most = (256 << 20) + watchers.len() * large.bytes();
    assert!(held.iter().sum::<usize>() <= most, "{held:?}");
    let skipped = |one: &Arc<Watcher>| one.skipped.load(std::sync::atomic::Ordering::Relaxed);
    assert!(watchers.iter().all(|one| skipped(one) >= 6));
}

#[tokio::test]
async fn the_last_who_resumes_resumes() {
    let (listener, source, _reported) = source(false).await;
    let watching = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&info().to_bytes()).await.unwrap();
        go(&mut socket).await;
        let live = source.live.borrow().clone().unwrap();
        assert!(live.hold(1) && live.hold(2) && live.release(1));
        assert!(live.command(Command::Rate(7)) && live.release(2));
        let expected = [Command::Pause, Command::Rate(7), Command::Resume];
        for command in expected {
            let mut bytes = [0; 8];
            socket.read_exact(&mut bytes).await.unwrap();
            assert_eq!(bytes, command.to_bytes());
        }
    };
    tokio::join!(source.simulate(), watching).0.unwrap();
}
