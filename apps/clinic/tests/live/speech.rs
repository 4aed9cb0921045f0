//! Speech of both sides.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_clinic::{
    ambulance::{self, Output, Sound},
    hospital::{
        Report,
        live::{Item, Live, Utterance},
    },
    speech::{Source, Track},
    wire::{Data, Purpose, Speech, encode},
};
use tokio::time::{sleep, timeout};

use crate::setting::{Car, Running, begin, case, greet, loopback, nothing, open};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A file of so many packets, each with its number in it.
fn file(folder: &Path, packets: u8) -> PathBuf {
    let path = folder.join("said.opus");
    let mut track = Track::open(&path, 1).unwrap();
    for number in 0..packets {
        track.append(number.into(), &[8, number]).unwrap();
    }
    path
}

fn packets(path: &Path) -> Vec<Vec<u8>> {
    Source::default().push(&fs::read(path).unwrap()).unwrap()
}

async fn until_heard(live: &Live) {
    while !live.state().speech.is_heard {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut hospital = Running::start(&store, loopback());
    let heard = folder.path().join("heard.opus");
    let (ambulance, mut told) = begin(ambulance::Settings {
        sound: Some(Sound::of_file(&file(folder.path(), 150)).unwrap()),
        output: Some(Output::File(heard.clone())),
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    let mut viewer = hospital.live.view().unwrap();
    let mut seen = Vec::new();
    let watching = async {
        loop {
            if let Item::Speech { number, bytes, .. } = viewer.next().await {
                assert_eq!(bytes[..], [8, number as u8]);
                seen.push(number);
            }
        }
    };
    let speaking = async {
        until_heard(&hospital.live).await;
        let of = Utterance {
            case: 1,
            speaker: 1,
            name: "A".to_owned(),
            packets: (0..10).map(|at| (0, vec![8, 200 + at].into())).collect(),
            is_over: false,
        };
        hospital.live.speak(of).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = timeout(LONG, ambulance.run(&session)) => ended.unwrap().unwrap(),
        () = watching => {}
        () = speaking => {}
    }
    let mut counts = None;
    while counts.is_none() {
        match timeout(LONG, hospital.reports.recv())
            .await
            .unwrap()
            .unwrap()
        {
            Report::Speech(packets) => counts = Some(packets),
            Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            _ => {}
        }
    }
    // On a busy machine packets are late, and so they are lost; what came is as it was sent, and where it was.
    let counts = counts.unwrap();
    assert!(counts.received > 0 && counts.received <= 150, "{counts:?}");
    assert!(!seen.is_empty() && seen.len() as u64 <= counts.received);
    let table = fs::read_to_string(case(&store).join("speech.csv")).unwrap();
    let kept = packets(&case(&store).join("speech.opus"));
    let mut lines = 0;
    for line in table.lines().skip(1) {
        let words: Vec<usize> = line
            .split(',')
            .take(2)
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(kept[words[1]], [8, words[0] as u8], "{line}");
        lines += 1;
    }
    assert!(lines > 0 && lines <= counts.received);
    let silence = kept.iter().filter(|packet| packet.len() == 1).count();
    assert_eq!(kept.len(), lines as usize + silence);
    let heard = packets(&heard);
    assert!(
        heard
            .iter()
            .all(|packet| packet.len() == 1 || packet[1] >= 200),
        "{heard:?}"
    );
    let mut came = 0;
    while let Ok(report) = told.try_recv() {
        match report {
            ambulance::Report::Heard { received, .. } => came = received,
            ambulance::Report::Spoken { packets, .. } => assert_eq!(packets, 150),
            ambulance::Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            _ => {}
        }
    }
    assert_eq!(
        came as usize,
        heard.iter().filter(|packet| packet.len() > 1).count()
    );
    hospital.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_are_gaps_and_what_is_no_speech_ends_its_stream_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut hospital = Running::start(folder.path(), loopback());
    let session = Car::new(2).call(&hospital.ticket).await;
    let _case = greet(&session, &hospital.ticket, false).await;
    let speech = open(&session, Purpose::SpeechUp);
    let packet = |number: u64| Speech {
        captured_us: 20_000 * number,
        number,
        bytes: vec![8, number as u8].into(),
    };
    for number in [0, 2, 1, 5] {
        speech
            .send(Data::Speech(packet(number)).to_adu())
            .await
            .unwrap();
    }
    // 60 ms.
    let long = Speech {
        bytes: vec![24, 1].into(),
        ..packet(6)
    };
    speech.send(Data::Speech(long).to_adu()).await.unwrap();
    let vitals = open(&session, Purpose::Vitals);
    let mut counts = None;
    let why = loop {
        match timeout(LONG, hospital.reports.recv())
            .await
            .unwrap()
            .unwrap()
        {
            Report::Speech(packets) => counts = Some(packets),
            Report::Failed { purpose, why } => {
                assert_eq!(purpose, Purpose::SpeechUp);
                break why;
            }
            _ => {}
        }
    };
    assert!(why.contains("no packet of Opus of 20 ms"), "{why}");
    let counts = counts.unwrap();
    assert_eq!((counts.received, counts.missing), (4, 2));
    let vital = anabranch_clinic::wire::Request::Vital {
        number: 0,
        at_us: 0,
        heart_rate: None,
    };
    vitals.send(encode(&vital)).await.unwrap();
    while !matches!(
        timeout(LONG, hospital.reports.recv()).await.unwrap(),
        Some(Report::Vital { .. })
    ) {}
    let kept = packets(&case(folder.path()).join("speech.opus"));
    assert_eq!(kept, [&[8, 0][..], &[8, 1], &[8, 2], &[8], &[8], &[8, 5]]);
    hospital.stop().await;
}
