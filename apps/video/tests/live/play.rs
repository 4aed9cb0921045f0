//! Playback by real players.

use std::{path::Path, process::Stdio, time::Duration};

use anabranch::base::Rate;
use anabranch_video::proxy::{Config, Prefix};
use serde_json::Value;

use super::{
    film::{Seen, film, has, probe},
    setting::{GOOD, RunningProxy, Setting, TIMEOUT, get, ready, until},
};

/// A film that was played through the whole system.
struct Played {
    setting: Setting,
    proxy: RunningProxy,
    /// Frames in the film, and frames that the player saw.
    expected: Seen,
    seen: Seen,
    stats: Value,
}

impl Played {
    /// Plays the whole film as one file; nothing of it was prefetched. `change` adjusts the settings last, `meanwhile` runs
    /// beside the player.
    async fn play(
        film: &Path,
        setting: Setting,
        change: impl FnOnce(&mut Config),
        meanwhile: impl AsyncFnOnce(&Setting, &RunningProxy),
    ) -> Self {
        let mut config = setting.config();
        config.prefix = Prefix::Fixed(Duration::ZERO);
        change(&mut config);
        let proxy = RunningProxy::start(config, &setting.ticket).await;
        ready(&proxy).await;
        let expected = probe(film.to_str().unwrap()).await;
        let url = proxy.url("/v/film.mp4");
        let (seen, ()) = tokio::join!(probe(&url), meanwhile(&setting, &proxy));
        let stats = proxy.stats().await;
        println!("{seen:?} of {expected:?}; {stats}");
        Self {
            setting,
            proxy,
            expected,
            seen,
            stats,
        }
    }

    /// Checks that all essential frames were played.
    fn check_essential(&self) {
        let (seen, expected, stats) = (&self.seen, &self.expected, &self.stats);
        assert_eq!(seen.intra, expected.intra, "every I frame; {stats}");
        assert!(seen.sound >= expected.sound, "all sound; {stats}");
        for letter in ["I", "A"] {
            assert_eq!(self.count("frames", letter), 0, "{letter}; {stats}");
        }
    }

    /// Checks that more than those were played.
    fn check_more(&self) {
        let more = self.seen.pictures() > self.expected.intra;
        assert!(more, "more than key frames; {}", self.stats);
    }

    /// A counter of the proxy; of `frames` the number of those of a type that were lost.
    fn count(&self, name: &str, letter: &str) -> u64 {
        let counter = &self.stats["counters"][name];
        let found = match letter {
            "" => counter,
            letter => &counter[letter]["lost"],
        };
        found.as_u64().unwrap()
    }

    async fn stop(self) {
        self.proxy.stop().await;
    }
}

async fn nothing(_: &Setting, _: &RunningProxy) {}

fn can_probe() -> bool {
    let can = has("ffprobe");
    if !can {
        println!("skipped: ffprobe is not installed");
    }
    can
}

/// All essential frames are played, as one file and over HLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ffmpeg_plays_every_frame() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let setting = Setting::whole(&film);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    assert!(expected.intra > 0 && expected.bidirectional > 0);
    for path in ["/v/film.mp4", "/v/film/master.m3u8"] {
        let seen = probe(&proxy.url(path)).await;
        // The frame of sound that only prepares the decoder is shown where no edit list specifies the cut.
        let sound = seen.sound.min(expected.sound);
        let stats = proxy.stats().await;
        assert_eq!(Seen { sound, ..seen }, expected, "{path}; {stats}");
        assert!(seen.sound <= expected.sound + 1);
    }
    proxy.stop().await;
}

/// Of the enhanced frames only those that were left out are missing; on an otherwise idle machine there are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ffmpeg_plays_what_comes() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let played = Played::play(&film, Setting::new(&film, GOOD), |_| {}, nothing).await;
    played.check_essential();
    played.check_more();
    let missing = played.expected.pictures() - played.seen.pictures();
    let left_out = played.count("left_out_frames", "");
    assert!(missing as u64 <= left_out, "{}", played.stats);
    played.stop().await;
}

/// An origin that knows the capacity of a narrow pipe fills no queue: nothing is dropped, although the prefix is fetched, which
/// alone would take the whole capacity, and essential and enhanced data share the pipe. The queue holds the 20 packets that a
/// busy machine may send at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_pipe_drops_nothing() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let pipe = "rate=2 Mbit/s, delay=10 ms, queue=100 ms";
    let setting = Setting::held(&film, pipe, Rate::from_mbps(2));
    let prefix = |config: &mut Config| config.prefix = Prefix::Fixed(Duration::from_secs(8));
    let played = Played::play(&film, setting, prefix, nothing).await;
    played.check_essential();
    let stats = &played.stats;
    let (forward, backward) = played.setting.emulator.paths()[0].stats();
    assert_eq!(
        (forward.dropped_total(), backward.dropped_total()),
        (Default::default(), Default::default()),
        "{stats}"
    );
    assert!(backward.delivered.bytes > 500_000, "{backward:?}");
    played.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_percent_of_loss_cost_no_key_frame() {
    if !can_probe() {
        return;
    }
    let film = film(20);
    let pipe = "rate=20 Mbit/s, delay=10 ms, queue=200 ms, loss=2 %";
    let played = Played::play(&film, Setting::new(&film, pipe), |_| {}, nothing).await;
    played.check_essential();
    played.check_more();
    let dropped = played.setting.emulator.paths()[0].stats();
    assert!(
        dropped.0.loss.packets + dropped.1.loss.packets > 0,
        "the pipe loses"
    );
    played.stop().await;
}

/// The pipe carries less than the film from the middle on: enhanced frames are lost, essential ones arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halved_pipe_costs_no_key_frame() {
    if !can_probe() {
        return;
    }
    let film = film(30);
    let pipe = "rate=trace \"halved\", delay=10 ms, queue=200 ms";
    let lead = |config: &mut Config| config.lead = Duration::from_secs(2);
    let played = Played::play(&film, Setting::new(&film, pipe), lead, nothing).await;
    played.check_essential();
    played.check_more();
    let thinned = played.count("thinned_frames", "");
    assert!(thinned > 0, "the origin sends less; {}", played.stats);
    played.stop().await;
}

/// A film over two paths, one of which is cut for good while it plays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_is_cut_costs_no_key_frame() {
    if !can_probe() {
        return;
    }
    let film = film(30);
    let pipes = [
        "rate=3 Mbit/s, delay=10 ms, queue=100 ms",
        "rate=3 Mbit/s, delay=25 ms, queue=100 ms",
    ];
    let setting = Setting::over(&film, &pipes);
    let cut = async |setting: &Setting, proxy: &RunningProxy| {
        until(proxy, "half of the film has arrived", |stats| {
            stats["counters"]["frames"]["I"]["sent"].as_u64() >= Some(6)
        })
        .await;
        setting.emulator.paths()[0].set_up(false);
    };
    let played = Played::play(&film, setting, |_| {}, cut).await;
    played.check_essential();
    played.check_more();
    for path in played.setting.emulator.paths() {
        let (_, backward) = path.stats();
        let name = path.name();
        assert!(backward.delivered.bytes > 20_000, "{name}: {backward:?}");
    }
    played.stop().await;
}

/// Plays from a time on. Returns the times at which the first frames there are shown, in seconds.
async fn seek(input: &str, to: u32) -> Vec<f64> {
    let run = tokio::process::Command::new("ffprobe")
        .args(["-hide_banner", "-loglevel", "error", "-select_streams", "v"])
        .args(["-read_intervals", &format!("{to}%+#20")])
        .args(["-show_entries", "frame=pts_time", "-of", "csv=p=0", input])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(TIMEOUT, run)
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
    let setting = Setting::whole(&film);
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
