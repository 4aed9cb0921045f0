//! An encoder that follows the rate of the paths.

use std::time::Duration;

use anabranch::base::Rate;
use anabranch_clinic::ambulance::{self, Film, Report, Source};
use tokio::time::timeout;

use crate::setting::{Car, Running, begin, film_of, loopback, nothing};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);
const RATES_BPS: (u64, u64) = (100_000, 2_000_000);
/// Rate of the only channel, first and later.
const CHANNEL_BPS: [u64; 2] = [600_000, 250_000];

#[tokio::test(flavor = "multi_thread")]
async fn the_video_is_encoded_at_what_the_paths_have_for_it() {
    if std::process::Command::new("ffmpeg")
        .arg("-version")
        .output()
        .is_err()
    {
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
