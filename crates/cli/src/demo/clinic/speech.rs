//! Speech of the demonstration: a tone whose loudness changes, both ways. What the hospital says is given as a page does it.

use std::time::Duration;

use anabranch_clinic::{
    ambulance::Sound,
    hospital::{
        Hospital,
        live::{Refusal, Utterance},
    },
};
use tokio::{sync::mpsc, time::Instant};

use crate::exit::{Failure, Outcome};

/// Packets that wait to be said.
const WAITING_MAX: usize = 64;
/// Time for the ambulance to listen.
const BEGIN_TIME: Duration = Duration::from_secs(2);

/// Sound of so many seconds, encoded by ffmpeg.
pub(super) fn sound(seconds: u64) -> Sound {
    let source =
        format!("aevalsrc=0.3*sin(880*PI*t)*sin(4*PI*t):sample_rate=48000:duration={seconds}");
    let input = ["-re", "-f", "lavfi", "-i", &source].map(str::to_owned);
    Sound::ffmpeg(&input)
}

/// Speaks from the hospital, for two seconds less than the time; returns only on failure.
pub(super) async fn speak(hospital: &Hospital, seconds: u64) -> Outcome {
    let live = hospital.live();
    tokio::time::sleep(BEGIN_TIME).await;
    let (sender, mut packets) = mpsc::channel(WAITING_MAX);
    let seconds = seconds.saturating_sub(2 * BEGIN_TIME.as_secs());
    let playing = tokio::spawn(async move {
        let sound = sound(seconds);
        let give = |packet| {
            // Beyond, it is not said.
            let _ = sender.try_send((Instant::now(), packet));
        };
        sound.play(give).await
    });
    while let Some((at, packet)) = packets.recv().await {
        let age_us = at.elapsed().as_micros() as u64;
        let said = live.speak(Utterance {
            case: live.state().case,
            speaker: 1,
            name: "the demonstration".to_owned(),
            packets: vec![(age_us, packet.into())],
            is_over: false,
        });
        match said {
            Ok(_) | Err(Refusal::NobodyListens) => {}
            Err(why) => return Err(Failure::other(why)),
        }
    }
    match playing.await {
        Ok(played) => played.map_err(Failure::other)?,
        Err(error) => return Err(Failure::other(error)),
    }
    std::future::pending().await
}
