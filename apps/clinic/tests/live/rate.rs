//! Cameras: an encoder that follows the rate of the paths, and what is left when one is unplugged.

use std::{fs, time::Duration};

use anabranch::base::Rate;
use anabranch_clinic::ambulance::{self, Film, Report, Source};
use tokio::time::timeout;

use crate::setting::{
    Car, FREQUENCY, Running, begin, carry, film_of, has_ffmpeg, kept, loopback, nothing, record,
};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);
const RATES_BPS: (u64, u64) = (100_000, 2_000_000);
/// Rate of the only channel, first and later.
const CHANNEL_BPS: [u64; 2] = [600_000, 250_000];

#[tokio::test(flavor = "multi_thread")]
async fn the_video_is_encoded_at_what_the_paths_have_for_it() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let video = "testsrc2=size=320x180:rate=25:duration=60";
    let camera = Source {
        program: "ffmpeg".to_owned(),
        input: ["-f", "lavfi", "-i", video].map(str::to_owned).to_vec(),
        rates_bps: RATES_BPS.0..=RATES_BPS.1,
    };
    let (ambulance, mut reports) = begin(ambulance::Settings {
        film: Some(Film::Encoded(camera)),
        ..nothing(&hospital.ticket)
    });
    let car = Car::at_rate(2, &Rate::from_bps(CHANNEL_BPS[0]).to_string());
    let session = car.call(&hospital.ticket).await;
    let mut rates = Vec::new();
    let following = async {
        let mut held = CHANNEL_BPS.into_iter().peekable();
        while let Some(report) = reports.recv().await {
            match report {
                Report::Rate { rate_bps } => {
                    rates.push(rate_bps);
                    if held.next_if(|held| rate_bps < *held).is_none() {
                        continue;
                    }
                    match held.peek() {
                        None => return,
                        Some(next) => session.set_channel_rate(Rate::from_bps(*next)).unwrap(),
                    }
                }
                Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
                _ => {}
            }
        }
    };
    tokio::select! {
        ended = ambulance.run(&session) => panic!("{ended:?}"),
        followed = timeout(LONG, following) => followed.unwrap(),
    }
    assert_eq!(rates[0], RATES_BPS.1 / 2, "{rates:?}");
    hospital.stop().await;
}

/// The record is longer than the pictures of the camera.
#[tokio::test(flavor = "multi_thread")]
async fn a_camera_that_is_unplugged_harms_no_other_stream() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let program = folder.path().join("camera");
    let text = "#!/bin/sh\ncase \"$*\" in\n*yuv4mpegpipe\\ -) ffmpeg \"$@\"; echo No such device >&2; exit 1;;\n*) exec ffmpeg \"$@\";;\nesac\n";
    fs::write(&program, text).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&program, executable).unwrap();
    let video = "testsrc2=size=320x180:rate=25:duration=2";
    let camera = Source {
        program: program.to_str().unwrap().to_owned(),
        input: ["-f", "lavfi", "-i", video].map(str::to_owned).to_vec(),
        rates_bps: RATES_BPS.0..=RATES_BPS.1,
    };
    let hospital = Running::start(&store, loopback());
    let (ekg, samples) = record(folder.path(), 6 * FREQUENCY);
    let (ambulance, mut reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        film: Some(Film::Encoded(camera)),
        ..nothing(&hospital.ticket)
    });
    timeout(LONG, carry(&Car::new(2), &ambulance, &hospital.ticket))
        .await
        .unwrap();
    let (mut failed, mut made) = (Vec::new(), 0);
    while let Ok(report) = reports.try_recv() {
        match report {
            Report::Failed { purpose, why } => failed.push((purpose.to_string(), why)),
            Report::Film { pictures, .. } => made = pictures,
            _ => {}
        }
    }
    let [(purpose, why)] = &failed[..] else {
        panic!("{failed:?}");
    };
    assert_eq!((&**purpose, made), ("video", 50));
    assert!(why.ends_with("No such device"), "{why}");
    assert_eq!(kept(&store), (samples, vec![]));
    hospital.stop().await;
}

/// A film of 1 Mbit/s for 24 s, over a channel of half of that: once the paths are known, ends of its groups are left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_film_that_does_not_fit_is_sent_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let (film, _) = film_of(folder.path(), 600, 5_000, 25.0);
    let (ambulance, mut reports) = begin(ambulance::Settings {
        film: Some(film),
        is_video_repaired: true,
        ..nothing(&hospital.ticket)
    });
    let car = Car::at_rate(2, "500 kbit/s");
    let session = car.call(&hospital.ticket).await;
    timeout(LONG, ambulance.run(&session))
        .await
        .unwrap()
        .unwrap();
    let mut counts = None;
    while let Ok(report) = reports.try_recv() {
        match report {
            Report::Film {
                pictures, skipped, ..
            } => counts = Some((pictures, skipped)),
            Report::Failed { purpose, why } => panic!("{purpose}: {why}"),
            _ => {}
        }
    }
    let (pictures, skipped) = counts.unwrap();
    assert_eq!(pictures, 600);
    // Nothing is left out in the first ten seconds. A busy machine skips more.
    assert!((100..600).contains(&skipped), "{skipped}");
    hospital.stop().await;
}
