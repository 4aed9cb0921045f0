//! A case as a hospital keeps it: whole, also after either side was interrupted.

use std::{fs, time::Duration};

use anabranch_clinic::{ClinicError, ambulance, hospital::Report};
use tokio::time::{sleep, timeout};

use crate::setting::{
    Car, FREQUENCY, KEPT, Running, begin, carry, case, film, kept, loopback, nothing, record,
    steady,
};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_case_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    let photo: Vec<u8> = (0..300_000_u32)
        .map(|at| (at.wrapping_mul(at) >> 5) as u8)
        .collect();
    fs::write(pictures.join("wound.jpg"), &photo).unwrap();
    let (ekg, samples) = record(folder.path(), 3 * FREQUENCY);
    let (film, stream) = film(folder.path(), 50);
    let mut hospital = Running::start(&store, loopback());
    let (ambulance, mut reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        film: Some(film),
        stills: Some(pictures),
        ..nothing(&hospital.ticket)
    });
    let car = Car::new(2);
    // The film waits for the session, for longer than it lasts.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    timeout(LONG, carry(&car, &ambulance, &hospital.ticket))
        .await
        .unwrap();
    assert_eq!(kept(&store), (samples, vec![]));
    let case = case(&store);
    assert_eq!(fs::read(case.join("stills/0000-wound.jpg")).unwrap(), photo);
    let vitals = fs::read_to_string(case.join("vitals.csv")).unwrap();
    assert!(
        vitals.starts_with("second,age_ms,heart_rate_per_minute\n"),
        "{vitals}"
    );
    let mut left = None;
    let mut ended = None;
    let mut seen = None;
    while left.is_none() {
        match timeout(LONG, hospital.reports.recv())
            .await
            .unwrap()
            .unwrap()
        {
            Report::Left { why, .. } => left = Some(why),
            Report::Ended { frames, missing } => ended = Some((frames, missing)),
            Report::Pictures(pictures) => seen = Some(pictures),
            Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            _ => {}
        }
    }
    assert_eq!(ended, Some((3 * FREQUENCY as u64, 0)));
    // On a busy machine pictures are late, and so they are lost; what came is as it was sent.
    let seen = seen.unwrap();
    assert!(seen.received > 0);
    let bytes = fs::read(case.join("video.h264")).unwrap();
    let table = fs::read_to_string(case.join("video.csv")).unwrap();
    assert_eq!(table.lines().count() as u64, 1 + seen.received);
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split(',').collect();
        let [number, offset, length] = [0, 4, 5].map(|at| words[at].parse::<usize>().unwrap());
        let picture = &bytes[offset..offset + length];
        assert!(stream.windows(length).any(|part| part == picture), "{line}");
        assert_eq!(words[1], if number % 10 == 0 { "I" } else { "P" });
    }
    let mut held = None;
    while let Ok(report) = reports.try_recv() {
        match report {
            ambulance::Report::Ended { frames, held: at } => held = Some((frames, at)),
            ambulance::Report::Kept { name, why } => assert_eq!((&*name, why), ("wound.jpg", None)),
            ambulance::Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            ambulance::Report::Keeps(time) => assert_eq!(time, Some(KEPT)),
            _ => {}
        }
    }
    assert_eq!(held, Some((3 * FREQUENCY as u64, 3 * FREQUENCY as u64)));
    hospital.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hospital_that_is_started_again_goes_on_with_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    // Longer than it takes until the hospital is stopped, on a busy machine too.
    let (ekg, samples) = record(folder.path(), 15 * FREQUENCY);
    let mut hospital = Running::start(&store, steady());
    let ticket = hospital.ticket.clone();
    let (ambulance, mut reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        ..nothing(&ticket)
    });
    let car = Car::new(2);
    let interrupted = async {
        let session = car.call(&ticket).await;
        ambulance.run(&session).await
    };
    let interrupting = async {
        loop {
            if let Some(Report::Ekg { .. }) = hospital.reports.recv().await {
                break;
            }
        }
        sleep(Duration::from_millis(700)).await;
        let address = hospital.stop().await;
        sleep(Duration::from_millis(500)).await;
        Running::start(&store, address)
    };
    let (ended, hospital) = timeout(LONG, async { tokio::join!(interrupted, interrupting) })
        .await
        .unwrap();
    assert!(ended.unwrap_err().is_interruption());
    assert_eq!(hospital.ticket, ticket, "the ticket is still good");
    timeout(LONG, carry(&car, &ambulance, &ticket))
        .await
        .unwrap();
    assert_eq!(kept(&store), (samples, vec![]));
    let mut begun = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if let ambulance::Report::Begun { next } = report {
            begun.extend(next);
        }
    }
    assert_eq!(begun[0], 0);
    assert!(begun[1] > 0, "the second session goes on: {begun:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_cannot_be_written_does_not_end_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (ekg, samples) = record(folder.path(), 5 * FREQUENCY);
    let mut hospital = Running::start(&store, loopback());
    let (ambulance, _reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    let disturbing = async {
        loop {
            match hospital.reports.recv().await.unwrap() {
                // A folder in the place of the draft.
                Report::Ekg { .. } => fs::create_dir(case(&store).join("ekg.hea.new")).unwrap(),
                Report::Failed { purpose, why } => {
                    assert_eq!(purpose.to_string(), "ekg");
                    return why;
                }
                _ => {}
            }
        }
    };
    let disturbed = async {
        let why = disturbing.await;
        fs::remove_dir(case(&store).join("ekg.hea.new")).unwrap();
        why
    };
    let both = async { tokio::join!(ambulance.run(&session), disturbed) };
    let (ended, why) = timeout(LONG, both).await.unwrap();
    ended.unwrap();
    assert!(why.contains("ekg.hea"), "{why}");
    assert_eq!(kept(&store), (samples, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_ticket_and_a_second_ambulance_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let car = Car::new(2);
    let refused = async |car: &Car, settings| {
        let session = car.call(&hospital.ticket).await;
        let (ambulance, _reports) = begin(settings);
        match timeout(LONG, ambulance.run(&session)).await.unwrap() {
            Err(ClinicError::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let wrong = ambulance::Settings {
        secret: anabranch::ticket::Secret([9; 16]),
        ..nothing(&hospital.ticket)
    };
    let why = refused(&car, wrong).await;
    assert!(why.contains("not of this hospital"), "{why}");
    let (ekg, samples) = record(folder.path(), 100);
    let (ambulance, _reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        ..nothing(&hospital.ticket)
    });
    timeout(LONG, carry(&car, &ambulance, &hospital.ticket))
        .await
        .unwrap();
    assert_eq!(kept(folder.path()).0, samples);
    let why = refused(&Car::new(3), nothing(&hospital.ticket)).await;
    assert!(why.contains("was used by another ambulance"), "{why}");
}

/// The patient does not consent: the case is there while it lasts, and removed when all of it has been sent.
#[tokio::test(flavor = "multi_thread")]
async fn without_consent_nothing_is_kept_after_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (ekg, _) = record(folder.path(), 100);
    let mut hospital = Running::start(&store, loopback());
    let (ambulance, mut reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        consent: Duration::ZERO,
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    timeout(LONG, ambulance.run(&session))
        .await
        .unwrap()
        .unwrap();
    let mut begun = None;
    let removed = loop {
        match timeout(LONG, hospital.reports.recv())
            .await
            .unwrap()
            .unwrap()
        {
            Report::Begun { folder, kept, .. } => begun = Some((folder, kept)),
            Report::Removed { folder, why } => break (folder, why),
            _ => {}
        }
    };
    let (folder, kept) = begun.unwrap();
    assert_eq!((kept, removed), (Duration::ZERO, (folder.clone(), None)));
    assert!(!folder.exists());
    let told = std::iter::from_fn(|| reports.try_recv().ok())
        .find(|report| matches!(report, ambulance::Report::Keeps(_)));
    assert!(matches!(
        told,
        Some(ambulance::Report::Keeps(Some(Duration::ZERO)))
    ));
    hospital.stop().await;
}

/// A note that cannot be written, as on a disk that is full, is reported; the case goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_cannot_be_written_does_not_end_the_case() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (ekg, samples) = record(folder.path(), 100);
    let mut hospital = Running::start(&store, loopback());
    let car = Car::new(2);
    let run = async |ekg| {
        let (ambulance, _reports) = begin(ambulance::Settings {
            ekg,
            ..nothing(&hospital.ticket)
        });
        let session = car.call(&hospital.ticket).await;
        timeout(LONG, ambulance.run(&session))
            .await
            .unwrap()
            .unwrap();
    };
    run(None).await;
    fs::create_dir(case(&store).join("keeping.new")).unwrap();
    run(Some(ekg)).await;
    assert_eq!(kept(&store).0, samples);
    let failed =
        std::iter::from_fn(|| hospital.reports.try_recv().ok()).find_map(|report| match report {
            Report::Failed { why, .. } => Some(why),
            _ => None,
        });
    let why = failed.unwrap();
    assert!(why.contains("cannot be noted"), "{why}");
    hospital.stop().await;
}

/// A disk on which the node is noted late is not the ambulance's delay: what is reported is what the disk says in the end.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_is_not_taken_for_a_missing_greeting() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let hospital = Running::start(&store, loopback());
    // Opening it waits for a reader, and it cannot be made durable.
    let draft = store.join("ambulance.new");
    let made = std::process::Command::new("mkfifo").arg(&draft).status();
    assert!(made.unwrap().success());
    let car = Car::new(2);
    let (ambulance, _reports) = begin(nothing(&hospital.ticket));
    let session = car.call(&hospital.ticket).await;
    let disk = async {
        // Longer than a greeting may take, and less than the ambulance waits.
        sleep(Duration::from_secs(6)).await;
        let reading = tokio::task::spawn_blocking(move || fs::read(draft));
        reading.await.unwrap().unwrap();
    };
    let both = async { tokio::join!(ambulance.run(&session), disk) };
    let (ended, ()) = timeout(LONG, both).await.unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("cannot write to its store"), "{why}");
    hospital.stop().await;
}
