//! Key pictures on request of a hospital.

use std::time::Duration;

use anabranch_clinic::{
    ambulance::{self, Film, Report, Requests, Source},
    annexb::PictureType,
    hospital::live::{Item, Viewer},
    wire::{Data, Notice, Picture, Purpose, Request, decode, encode},
};
use tokio::time::timeout;

use crate::setting::{Car, Running, begin, film_of, greet, has_ffmpeg, loopback, nothing, open};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

async fn picture(viewer: &mut Viewer) -> (u64, bool) {
    loop {
        if let Item::Picture { number, is_key, .. } = viewer.next().await {
            return (number, is_key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_camera_answers_a_viewer_with_a_key_picture() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let video = "testsrc2=size=160x120:rate=25:duration=60";
    let camera = Source {
        program: "ffmpeg".to_owned(),
        input: ["-f", "lavfi", "-i", video].map(str::to_owned).to_vec(),
        rates_bps: 300_000..=300_000,
    };
    let (ambulance, _reports) = begin(ambulance::Settings {
        film: Some(Film::Encoded(camera)),
        is_video_repaired: true,
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    let mut viewer = hospital.live.view().unwrap();
    let watching = async {
        let mut wanted = None;
        loop {
            let (number, is_key) = picture(&mut viewer).await;
            match wanted {
                // One that was made before does not count.
                None if number >= 55 => {
                    hospital.live.want_key(1, 40);
                    hospital.live.want_key(1, number);
                    wanted = Some(number);
                }
                Some(after) if is_key => return (after, number),
                _ => {}
            }
        }
    };
    let (after, number) = tokio::select! {
        ended = ambulance.run(&session) => panic!("{ended:?}"),
        seen = timeout(LONG, watching) => seen.unwrap(),
    };
    assert!(number > after && number % 50 != 0, "{after}, {number}");
    assert_eq!(hospital.live.state().video.keys_requested, 1);
    hospital.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_sent_as_it_is_whatever_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let (film, _) = film_of(folder.path(), 75, 500, 25.0);
    let (ambulance, mut reports) = begin(ambulance::Settings {
        film: Some(film),
        is_video_repaired: true,
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    let mut viewer = hospital.live.view().unwrap();
    let watching = async {
        loop {
            let (number, _) = picture(&mut viewer).await;
            hospital.live.want_key(1, number);
        }
    };
    tokio::select! {
        ended = timeout(LONG, ambulance.run(&session)) => ended.unwrap().unwrap(),
        never = watching => never,
    }
    let (mut ignored, mut counts) = (0, Requests::default());
    while let Ok(report) = reports.try_recv() {
        match report {
            Report::KeyIgnored => ignored += 1,
            Report::Film { requests, .. } => counts = requests,
            Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            _ => {}
        }
    }
    // It lasts three seconds, with a request a second at most.
    assert_eq!(ignored, 1);
    assert!((1..=60).contains(&counts.received), "{counts:?}");
    assert_eq!(counts.ignored, counts.received);
    hospital.stop().await;
}

/// An ambulance that sends pictures 0, 1 and 3; the notices that it gets on the way, up to `clocks` questions about the clock after them.
async fn notices(hospital: &Running, seed: u8, takes_key: bool, clocks: usize) -> Vec<Notice> {
    let session = Car::new(seed).call(&hospital.ticket).await;
    let case = greet(&session, &hospital.ticket, takes_key).await;
    let notice = async || -> Notice { decode(&case.recv().await.unwrap().unwrap().data).unwrap() };
    let video = open(&session, Purpose::Video);
    for number in [0, 1, 3] {
        let picture = Picture {
            captured_us: 0,
            number,
            kind: PictureType::Intra,
            is_key: number == 0,
            group: 1,
            bytes: vec![1].into(),
        };
        video.send(Data::Picture(picture).to_adu()).await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < clocks {
        match notice().await {
            Notice::Clock { at_us } => {
                let clock = Request::Clock { at_us, own_us: 0 };
                case.send(encode(&clock)).await.unwrap();
                seen.push(Notice::Clock { at_us });
            }
            other => return vec![other],
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_followed_by_a_request_unless_the_ambulance_is_of_an_earlier_version() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let seen = timeout(LONG, notices(&hospital, 2, true, 100))
        .await
        .unwrap();
    assert_eq!(seen, [Notice::Key { after: 3 }]);
    let seen = timeout(LONG, notices(&hospital, 2, false, 3))
        .await
        .unwrap();
    assert_eq!(seen.len(), 3, "{seen:?}");
    hospital.stop().await;
}
