//! Frames that come in any order: the hospital fills what it lacks, also after an interruption.

use std::time::Duration;

use anabranch::Stream;
use anabranch_clinic::{
    hospital::Report,
    wfdb::Hole,
    wire::{Data, Notice, Purpose, Request, Samples, decode, encode},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::setting::{Car, Running, greet, kept, loopback, steady};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Two leads of the same samples: the numbers of their frames, and five more.
const HEADER: &str = "ekg 2 500\nekg.dat 16 1000 16 0 0 0 0 i\nekg.dat 16 1000 16 0 0 0 0 ii\n";

async fn put(stream: &Stream, frames: std::ops::Range<u64>) {
    let samples = frames.clone().flat_map(|frame| [frame as i16 + 5; 2]);
    let samples = Samples {
        captured_us: 0,
        first: frames.start,
        samples: samples.collect(),
    };
    stream.send(Data::Samples(samples).to_adu()).await.unwrap();
}

/// Begins the record, and returns what the hospital has of it.
async fn begin(stream: &Stream, newest_first: bool) -> (u64, Vec<Hole>) {
    let leads = Request::Leads {
        header: HEADER.to_owned(),
        first: 0,
        newest_first,
    };
    stream.send(encode(&leads)).await.unwrap();
    match decode(&stream.recv().await.unwrap().unwrap().data).unwrap() {
        Notice::Begun { next, holes } => (next, holes),
        other => panic!("{other:?}"),
    }
}

/// Waits until the hospital states that it has this.
async fn until_held(stream: &Stream, expected: (u64, Vec<Hole>)) {
    loop {
        match decode(&stream.recv().await.unwrap().unwrap().data).unwrap() {
            Notice::Held { next, holes } if (next, holes.clone()) == expected => return,
            Notice::Held { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Ends the record; the hospital states its frames, and those that it lacks.
async fn end(stream: &Stream, frames: u64, lacking: u64) {
    let ended = Request::Ended { frames };
    stream.send(encode(&ended)).await.unwrap();
    loop {
        match decode(&stream.recv().await.unwrap().unwrap().data).unwrap() {
            Notice::Held { .. } => {}
            Notice::Ended {
                frames: kept,
                missing,
            } => return assert_eq!((kept, missing), (frames, Some(lacking))),
            other => panic!("{other:?}"),
        }
    }
}

fn holes(reports: &mut mpsc::Receiver<Report>) -> Vec<Hole> {
    let reports = std::iter::from_fn(|| reports.try_recv().ok());
    reports
        .filter_map(|report| match report {
            Report::Hole(hole) => Some(hole),
            _ => None,
        })
        .collect()
}

fn hole(first: u64, frames: u64) -> Hole {
    Hole { first, frames }
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_filled_as_their_frames_come() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let at = &store;
    let mut hospital = Running::start(at, steady());
    let car = Car::new(2);
    let all = async move {
        let session = car.call(&hospital.ticket).await;
        let _case = greet(&session, &hospital.ticket, false).await;
        let ekg = open_both_ways(&session);
        assert_eq!(begin(&ekg, true).await, (0, vec![]));
        put(&ekg, 40..60).await;
        until_held(&ekg, (60, vec![hole(0, 40)])).await;
        put(&ekg, 20..40).await;
        put(&ekg, 80..100).await;
        until_held(&ekg, (100, vec![hole(0, 20), hole(60, 20)])).await;
        // A hospital that is started again lacks the same.
        let ticket = hospital.ticket.clone();
        let reported = holes(&mut hospital.reports);
        assert_eq!(reported, [], "they may still be filled");
        let address = hospital.stop().await;
        let mut hospital = Running::start(at, address);
        let session = car.call(&ticket).await;
        let _case = greet(&session, &ticket, false).await;
        let ekg = open_both_ways(&session);
        let lacks = (100, vec![hole(0, 20), hole(60, 20)]);
        assert_eq!(begin(&ekg, true).await, lacks);
        put(&ekg, 60..80).await;
        put(&ekg, 10..20).await;
        until_held(&ekg, (100, vec![hole(0, 10)])).await;
        end(&ekg, 100, 10).await;
        while hospital.live.state().ekg.is_none_or(|ekg| !ekg.has_ended) {
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            holes(&mut hospital.reports),
            [hole(0, 10)],
            "the end is final"
        );
        assert_eq!(hospital.live.state().ekg.unwrap().missing, 10);
        hospital.stop().await;
    };
    timeout(LONG, all).await.unwrap();
    let (samples, comments) = kept(&store);
    let valid = (10..100).flat_map(|frame| [frame as i16 + 5; 2]);
    let expected: Vec<i16> = [i16::MIN; 20].into_iter().chain(valid).collect();
    assert_eq!(
        (samples, comments),
        (expected, vec!["hole 0 10".to_owned()])
    );
}

/// An ambulance of an earlier version sends frames in their order, and what it leaves out never comes.
#[tokio::test(flavor = "multi_thread")]
async fn in_order_a_hole_is_final_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut hospital = Running::start(&store, loopback());
    let car = Car::new(2);
    let all = async {
        let session = car.call(&hospital.ticket).await;
        let _case = greet(&session, &hospital.ticket, false).await;
        let ekg = open_both_ways(&session);
        assert_eq!(begin(&ekg, false).await, (0, vec![]));
        put(&ekg, 20..40).await;
        put(&ekg, 0..20).await;
        until_held(&ekg, (40, vec![])).await;
        assert_eq!(holes(&mut hospital.reports), [hole(0, 20)]);
        end(&ekg, 40, 20).await;
        assert_eq!(holes(&mut hospital.reports), []);
    };
    timeout(LONG, all).await.unwrap();
    hospital.stop().await;
    assert_eq!(kept(&store).1, ["hole 0 20"]);
}

fn open_both_ways(session: &anabranch::Session) -> Stream {
    let spec = anabranch::StreamSpec {
        duplex: true,
        label: Purpose::Ekg.label().to_owned(),
        ..anabranch::StreamSpec::default()
    };
    session.open_stream(spec).unwrap()
}
