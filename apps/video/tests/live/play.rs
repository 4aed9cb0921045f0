//! Players play.

use std::{path::Path, process::Stdio};

use anabranch::base::Rate;

use super::{
    film::{Seen, film, has, probe},
    setting::{GOOD, PATIENCE, RunningProxy, Setting, get, ready},
};

/// Frames of a type that the proxy says were lost.
async fn lost(proxy: &RunningProxy, letter: &str) -> u64 {
    let stats = proxy.stats().await;
    stats["counters"]["frames"][letter]["lost"]
        .as_u64()
        .unwrap()
}

/// All that must arrive did.
fn check_essential(seen: &Seen, expected: &Seen, about: &str) {
    assert_eq!(seen.intra, expected.intra, "every I frame; {about}");
    assert!(seen.sound >= expected.sound, "all sound; {about}");
}

fn can_probe() -> bool {
    let can = has("ffprobe");
    if !can {
        println!("skipped: ffprobe is not installed");
    }
    can
}

/// Over a pipe without losses every frame arrives, both ways of playing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ffmpeg_plays_every_frame() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let setting = Setting::new(&film, GOOD);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    assert!(expected.intra > 0 && expected.bidirectional > 0);
    for path in ["/v/film.mp4", "/v/film/master.m3u8"] {
        let seen = probe(&proxy.url(path)).await;
        // The frame of sound that only prepares the decoder is shown where no edit list says how long to cut.
        let sound = seen.sound.min(expected.sound);
        let stats = proxy.stats().await;
        assert_eq!(Seen { sound, ..seen }, expected, "{path}; {stats}");
        assert!(seen.sound <= expected.sound + 1);
    }
    proxy.stop().await;
}

/// An origin that knows what a narrow pipe carries fills no queue: nothing is dropped, although chunks ahead, essential data and
/// enhanced data share it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_pipe_drops_nothing() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let pipe = "rate=4 Mbit/s, delay=10 ms, queue=100 ms";
    let setting = Setting::held(&film, pipe, Some(Rate::from_mbps(4)));
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    let seen = probe(&proxy.url("/v/film.mp4")).await;
    let stats = proxy.stats().await.to_string();
    check_essential(&seen, &expected, &stats);
    let (forward, backward) = setting.emulator.paths()[0].stats();
    assert_eq!(
        (forward.dropped_total(), backward.dropped_total()),
        (Default::default(), Default::default()),
        "{stats}"
    );
    assert!(backward.delivered.bytes > 500_000, "{backward:?}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_percent_of_loss_cost_no_key_frame() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let pipe = "rate=20 Mbit/s, delay=10 ms, queue=200 ms, loss=2 %";
    let setting = Setting::new(&film, pipe);
    let mut config = setting.config();
    // Without what is fetched reliably beforehand.
    config.prefix = std::time::Duration::ZERO;
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    let seen = probe(&proxy.url("/v/film.mp4")).await;
    let stats = proxy.stats().await.to_string();
    println!("{seen:?} of {expected:?}; {stats}");
    check_essential(&seen, &expected, &stats);
    for letter in ["I", "A"] {
        assert_eq!(lost(&proxy, letter).await, 0, "{stats}");
    }
    let dropped = setting.emulator.paths()[0].stats();
    assert!(
        dropped.0.loss.packets + dropped.1.loss.packets > 0,
        "the pipe loses"
    );
    assert!(
        seen.pictures() > expected.intra,
        "more than key frames; {stats}"
    );
    proxy.stop().await;
}

/// The pipe carries less than the film from the middle on: what may be lost is, what must arrive does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halved_pipe_costs_no_key_frame() {
    if !can_probe() {
        return;
    }
    let film = film(30);
    let pipe = "rate=trace \"halved\", delay=10 ms, queue=200 ms";
    let setting = Setting::new(&film, pipe);
    let mut config = setting.config();
    config.prefix = std::time::Duration::ZERO;
    config.lead = std::time::Duration::from_secs(2);
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    let seen = probe(&proxy.url("/v/film.mp4")).await;
    let stats = proxy.stats().await.to_string();
    println!("{seen:?} of {expected:?}; {stats}");
    check_essential(&seen, &expected, &stats);
    for letter in ["I", "A"] {
        assert_eq!(lost(&proxy, letter).await, 0, "{stats}");
    }
    assert!(
        seen.pictures() > expected.intra,
        "more than key frames; {stats}"
    );
    proxy.stop().await;
}

/// Plays from a time on; when the first frames there are shown, in seconds.
async fn seek(input: &str, to: u32) -> Vec<f64> {
    let run = tokio::process::Command::new("ffprobe")
        .args(["-hide_banner", "-loglevel", "error", "-select_streams", "v"])
        .args(["-read_intervals", &format!("{to}%+#20")])
        .args(["-show_entries", "frame=pts_time", "-of", "csv=p=0", input])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(PATIENCE, run)
        .await
        .expect("ffprobe ends");
    let text = String::from_utf8(done.unwrap().stdout).unwrap();
    let times = text
        .lines()
        .filter_map(|line| line.trim_end_matches(',').parse().ok());
    times.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn players_seek() {
    if !can_probe() {
        return;
    }
    let film = film(60);
    let setting = Setting::new(&film, GOOD);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    if film.starts_with(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        println!("skipped: the film of the repository is too short to seek in");
        return;
    }
    for to in [41, 13, 50] {
        let times = seek(&proxy.url("/v/film.mp4"), to).await;
        let expected = seek(film.to_str().unwrap(), to).await;
        let stats = proxy.stats().await;
        assert_eq!(times.len(), expected.len(), "at {to}; {stats}");
        let first = times.first().copied().unwrap();
        assert!(
            (f64::from(to) - 4.1..f64::from(to) + 0.1).contains(&first),
            "at {to}: {times:?}"
        );
    }
    // ffmpeg cannot seek in fragmented HLS; players that can ask for segments in any order.
    let init = get(proxy.address, "/v/film/0/init.mp4", "").await.body;
    let frames = probe(film.to_str().unwrap()).await;
    for number in [11, 3, 7] {
        let segment = get(proxy.address, &format!("/v/film/0/{number}.m4s"), "").await;
        let path = setting.folder.path().join("segment.mp4");
        std::fs::write(&path, [init.clone(), segment.body].concat()).unwrap();
        let seen = probe(path.to_str().unwrap()).await;
        // Fifteen chunks of the same length.
        assert_eq!(seen.pictures() * 15, frames.pictures(), "{number}");
    }
    proxy.stop().await;
}
