//! Players play.

use super::{
    film::{Seen, film, has, probe},
    setting::{GOOD, Setting, ready},
};

/// Over a pipe without losses every frame arrives, both ways of playing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ffmpeg_plays_every_frame() {
    if !has("ffprobe") {
        println!("skipped: ffprobe is not installed");
        return;
    }
    let film = film(20);
    let setting = Setting::new(&film, GOOD);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let expected = probe(film.to_str().unwrap()).await;
    assert!(expected.bidirectional > 0 && expected.sound > 0);
    for path in ["/v/film.mp4", "/v/film/master.m3u8"] {
        let seen = probe(&proxy.url(path)).await;
        // The frame of sound that only prepares the decoder is shown where no edit list says how long to cut.
        let sound = seen.sound.min(expected.sound);
        assert_eq!(
            Seen { sound, ..seen },
            expected,
            "{path}; {}",
            proxy.stats().await
        );
        assert!(seen.sound <= expected.sound + 1);
    }
    proxy.stop().await;
}
