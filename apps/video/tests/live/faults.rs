//! Faults: they are reported clearly, or not noticed.

use std::{net::SocketAddr, time::Duration};

use anabranch_video::proxy::Prefix;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    film::film,
    setting::{GOOD, RunningOrigin, RunningProxy, Setting, TIMEOUT, get, ready, until},
};

/// An origin that dies while a viewer watches, and returns, is called again, and the viewer gets the rest of the film.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_go_on_when_the_origin_returns() {
    let mut setting = Setting::new(&film(20), GOOD);
    let mut config = setting.config();
    config.prefix = Prefix::Fixed(Duration::ZERO);
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let address = proxy.address;
    let watching = tokio::spawn(async move { get(address, "/v/film.mp4", "").await });
    until(&proxy, "a chunk has come", |stats| {
        stats["counters"]["frames"]["I"]["sent"].as_u64() > Some(0)
    })
    .await;
    let origin = setting.origin.take().unwrap();
    let place: SocketAddr = origin.host.addresses()[0];
    origin.stop().await;
    until(&proxy, "the loss is noticed", |stats| {
        stats["origin"]["is_connected"] == Value::Bool(false)
            && stats["origin"]["trouble"].is_string()
    })
    .await;
    setting.origin = Some(RunningOrigin::start(
        &setting.library(),
        &setting.key,
        place,
    ));
    let answer = watching.await.unwrap();
    let expected: usize = answer.header("content-length").unwrap().parse().unwrap();
    let stats = proxy.stats().await;
    assert_eq!(answer.body.len(), expected, "{stats}");
    assert!(stats["origin"]["sessions"].as_u64() >= Some(2), "{stats}");
    assert!(stats["origin"]["trouble"].is_null(), "{stats}");
    proxy.stop().await;
}

/// A film that was watched plays from the cache of a restarted proxy, without any origin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_proxy_has_its_cache() {
    let mut setting = Setting::new(&film(20), GOOD);
    // Chunks are stored as they came; a prefix would be fetched once more where frames of it were lost.
    let config = || {
        let mut config = setting.config();
        config.prefix = Prefix::Fixed(Duration::ZERO);
        config
    };
    let proxy = RunningProxy::start(config(), &setting.ticket).await;
    ready(&proxy).await;
    let first = get(proxy.address, "/v/film.mp4", "").await;
    proxy.stop().await;
    let config = config();
    setting.origin.take().unwrap().stop().await;
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let second = get(proxy.address, "/v/film.mp4", "").await;
    assert_eq!(second.status, 200);
    assert!(second.body == first.body, "the same film");
    let missing = get(proxy.address, "/v/other.mp4", "").await;
    assert_eq!(missing.status, 404);
    proxy.stop().await;
}

/// A file that changes while it is served ends in a clear response, and its new version can be watched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_reported() {
    let setting = Setting::new(&film(20), GOOD);
    let mut config = setting.config();
    config.prefix = Prefix::Fixed(Duration::ZERO);
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    assert_eq!(get(proxy.address, "/v/film/0/0.m4s", "").await.status, 200);
    // As tools replace a file: there is never none of this name.
    let new = setting.library().join(".film.mp4.new");
    std::fs::copy(film(30), &new).unwrap();
    std::fs::rename(&new, setting.library().join("film.mp4")).unwrap();
    let last = get(proxy.address, "/v/film/0/4.m4s", "").await;
    // Gone, or the new version already.
    assert!(matches!(last.status, 410 | 200), "{last:?}");
    let waiting = async {
        loop {
            let list = get(proxy.address, "/v/film/0/index.m3u8", "").await;
            let text = String::from_utf8_lossy(&list.body).into_owned();
            if text.contains("\n6.m4s") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .expect("the new version");
    assert_eq!(get(proxy.address, "/v/film/0/6.m4s", "").await.status, 200);
    proxy.stop().await;
}

/// Files that are not videos are refused with a reason; others are served beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_are_refused() {
    let setting = Setting::new(&film(20), GOOD);
    let good = std::fs::read(setting.library().join("film.mp4")).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(setting.library().join(name), bytes).unwrap();
    };
    write("cut.mp4", &good[..good.len() / 2]);
    write("empty.mp4", b"");
    write("text.mp4", b"this is not a film");
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    for name in ["cut", "empty", "text"] {
        let answer = get(proxy.address, &format!("/v/{name}.mp4"), "").await;
        let words = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 422, "{name}: {words}");
        assert!(words.contains(name), "{words}");
    }
    assert_eq!(get(proxy.address, "/v/film/0/0.m4s", "").await.status, 200);
    proxy.stop().await;
}

/// Films play even when the disk accepts no data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_no_player() {
    let setting = Setting::new(&film(20), GOOD);
    let mut config = setting.config();
    config.prefix = Prefix::Fixed(Duration::ZERO);
    let cache = config.cache.clone();
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    // Writes end where nothing more fits.
    for n in 0..500 {
        let _ = std::os::unix::fs::symlink("/dev/full", cache.join(format!("tmp-{n}")));
    }
    ready(&proxy).await;
    let answer = get(proxy.address, "/v/film.mp4", "").await;
    let expected: usize = answer.header("content-length").unwrap().parse().unwrap();
    let stats = proxy.stats().await;
    assert_eq!(answer.body.len(), expected, "{stats}");
    assert_eq!(stats["cache"]["is_disk_usable"], Value::Bool(false));
    assert_eq!(stats["counters"]["frames"]["I"]["lost"], Value::from(0));
    proxy.stop().await;
}

/// Players that stop reading, or hang up, leave nothing running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn players_that_stop_leave_nothing_running() {
    let setting = Setting::new(&film(60), GOOD);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let mut held = Vec::new();
    for n in 0..8 {
        let mut player = TcpStream::connect(proxy.address).await.unwrap();
        let from = n * 300_000;
        let request =
            format!("GET /v/film.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes={from}-\r\n\r\n");
        player.write_all(request.as_bytes()).await.unwrap();
        let mut some = [0; 1_000];
        player.read_exact(&mut some).await.unwrap();
        // Half of them hang up, the others just stop.
        if n % 2 == 0 {
            held.push(player);
        }
    }
    until(&proxy, "the flows have ended", |stats| {
        let videos = stats["videos"].as_array().unwrap();
        videos
            .iter()
            .all(|video| video["flows"].as_u64() == Some(0))
    })
    .await;
    // A player that continues gets the rest.
    let mut last = held.remove(0);
    let mut rest = vec![0; 100_000];
    tokio::time::timeout(TIMEOUT, last.read_exact(&mut rest))
        .await
        .expect("it goes on")
        .unwrap();
    drop(held);
    proxy.stop().await;
}

/// A wrong ticket is reported clearly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_ticket_is_refused() {
    let setting = Setting::new(&film(20), GOOD);
    let mut ticket = setting.ticket.clone();
    ticket.secret = Some(anabranch::ticket::Secret([7; 16]));
    let proxy = RunningProxy::start(setting.config(), &ticket).await;
    let asking = async {
        loop {
            let answer = get(proxy.address, "/v/film.mp4", "").await;
            assert_eq!(answer.status, 404);
            if proxy.stats().await["origin"]["trouble"]
                .as_str()
                .is_some_and(|words| words.contains("ticket"))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, asking)
        .await
        .expect("the reason is reported");
    proxy.stop().await;
}
