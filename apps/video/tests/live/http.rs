//! HTTP semantics.

use anabranch::base::Rate;
use anabranch_video::proxy::{Admission, Prefix};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    film::film,
    setting::{GOOD, RunningProxy, Setting, ask, get, ready, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_that_players_expect() {
    let setting = Setting::whole(&film(20));
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let at = proxy.address;

    let head = ask(at, "HEAD", "/v/film.mp4", "").await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("video/mp4"));
    assert_eq!(head.header("accept-ranges"), Some("bytes"));
    assert_eq!(head.header("access-control-allow-origin"), Some("*"));
    assert!(head.body.is_empty());
    let total: usize = head.header("content-length").unwrap().parse().unwrap();
    let whole = get(at, "/v/film.mp4", "").await;
    assert_eq!((whole.status, whole.body.len()), (200, total));
    for (from, to) in [(0, 99), (50_000, 70_000), (total - 5, total - 1)] {
        let part = get(at, "/v/film.mp4", &format!("Range: bytes={from}-{to}\r\n")).await;
        assert_eq!(part.status, 206);
        let value = format!("bytes {from}-{to}/{total}");
        assert_eq!(part.header("content-range"), Some(value.as_str()));
        assert!(part.body == whole.body[from..=to], "bytes {from} to {to}");
    }
    let beyond = get(at, "/v/film.mp4", &format!("Range: bytes={total}-\r\n")).await;
    assert_eq!(beyond.status, 416);
    assert_eq!(
        beyond.header("content-range"),
        Some(format!("bytes */{total}").as_str())
    );

    let master = get(at, "/v/film/master.m3u8", "").await;
    assert_eq!(
        master.header("content-type"),
        Some("application/vnd.apple.mpegurl")
    );
    assert!(String::from_utf8_lossy(&master.body).contains("0/index.m3u8"));
    let list = get(at, "/v/film/0/index.m3u8", "").await;
    assert!(String::from_utf8_lossy(&list.body).contains("init.mp4"));
    let init = get(at, "/v/film/0/init.mp4", "").await;
    assert_eq!(&init.body[4..8], b"ftyp");
    let segment = get(at, "/v/film/0/0.m4s", "").await;
    assert_eq!(segment.header("content-type"), Some("video/mp4"));
    assert_eq!(&segment.body[4..8], b"moof");
    let value = segment.header("cmsd-dynamic").unwrap();
    assert!(value.contains("org.anabranch-left-out=0"), "{value}");
    assert!(segment.header("cmsd-static").unwrap().starts_with("ot=v,"));
    let part = get(at, "/v/film/0/0.m4s", "Range: bytes=4-7\r\n").await;
    assert_eq!((part.status, &part.body[..]), (206, &b"moof"[..]));
    let preflight = ask(at, "OPTIONS", "/v/film/0/0.m4s", "").await;
    assert_eq!(preflight.status, 204);
    assert_eq!(ask(at, "POST", "/v/film.mp4", "").await.status, 405);
    proxy.stop().await;
}

/// Only the catalogue's videos can be reached, and nothing is read for addresses that do not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_addresses_lead_nowhere() {
    let setting = Setting::new(&film(20), GOOD);
    std::fs::write(setting.library().join("secret.txt"), b"secret").unwrap();
    std::fs::write(setting.folder.path().join("outside.mp4"), b"secret").unwrap();
    std::os::unix::fs::symlink("../outside.mp4", setting.library().join("link.mp4")).unwrap();
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    for path in [
        "/v/../library/film.mp4",
        "/v/..%2f..%2foutside.mp4",
        "/v/%2e%2e/outside.mp4",
        "/v/link.mp4",
        "/v/secret.txt",
        "/v/secret.mp4",
        "/v//film.mp4",
        "/v/film/9/index.m3u8",
        "/v/film/0/99999.m4s",
        "/v/film/0/4294967295.m4s",
        "/v/film/0/4294967296.m4s",
        "/v/film/18446744073709551615/init.mp4",
        "/v/film%00.mp4",
        "/v/film%ff.mp4",
        "/etc/passwd",
        "/v/etc/passwd",
        "/..",
    ] {
        let answer = get(proxy.address, path, "").await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret\n"));
    }
    let long = format!("/v/{}.mp4", "x".repeat(5_000));
    assert_eq!(get(proxy.address, &long, "").await.status, 404);
    proxy.stop().await;
}

/// Requests under a name that was made to resolve here, and pages of other sites, get nothing; no page learns the origin's
/// address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_sites_learn_nothing() {
    let setting = Setting::whole(&film(20));
    let mut config = setting.config();
    config.http.cors.clear();
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let raw = async |request: &str| {
        let mut connection = TcpStream::connect(proxy.address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        let _ = connection.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all).into_owned()
    };
    for path in ["/", "/stats.json", "/v/film.mp4"] {
        let rebound =
            format!("GET {path} HTTP/1.1\r\nHost: evil.example:8080\r\nConnection: close\r\n\r\n");
        let answer = raw(&rebound).await;
        assert!(answer.starts_with("HTTP/1.1 421"), "{path}: {answer}");
        let elsewhere = "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n";
        let answer = get(proxy.address, path, elsewhere).await;
        assert_eq!(answer.status, 403, "{path}");
        let silent = get(proxy.address, path, "Origin: https://evil.example\r\n").await;
        assert_eq!(silent.status, 200, "{path}");
        for answer in [answer, silent] {
            assert_eq!(answer.header("access-control-allow-origin"), None);
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }
    let place = setting.ticket.addresses[0];
    let node = setting.ticket.node.to_string();
    let public_text = async || {
        let stats = get(proxy.address, "/stats.json", "").await.body;
        let missing = get(proxy.address, "/v/film/0/3.m4s", "").await.body;
        String::from_utf8_lossy(&[stats, missing].concat()).into_owned()
    };
    let with_origin = public_text().await;
    assert!(
        with_origin.contains("\"is_connected\":true"),
        "{with_origin}"
    );
    setting.emulator.paths()[0].set_up(false);
    until(&proxy, "the loss is noticed", |stats| {
        stats["origin"]["trouble"].is_string()
    })
    .await;
    for public_text in [with_origin, public_text().await] {
        for secret in [
            place.to_string(),
            place.port().to_string(),
            node.clone(),
            setting.folder.path().display().to_string(),
        ] {
            assert!(!public_text.contains(&secret), "{secret}");
        }
    }
    proxy.stop().await;
}

/// A viewer for whom there is no capacity is refused clearly, with a retry time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pipe_is_a_clear_answer() {
    let film = film(60);
    let setting = Setting::new(&film, GOOD);
    let start_at = async |setting: &Setting, admission| {
        let mut config = setting.config();
        config.admission = admission;
        config.prefix = Prefix::Fixed(std::time::Duration::ZERO);
        let proxy = RunningProxy::start(config, &setting.ticket).await;
        ready(&proxy).await;
        proxy
    };
    let start = async |admission| start_at(&setting, admission).await;
    let proxy = start(Admission::Known(Rate::from_kbps(50))).await;
    let answer = get(proxy.address, "/v/film/0/1.m4s", "").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), None, "it will never fit");
    let words = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(words.contains("50.0 kbit/s"), "{words}");
    proxy.stop().await;

    if film.ends_with("bikes.mp4") {
        return;
    }
    // Capacity for one viewer, not for another one elsewhere in the film.
    let proxy = start(Admission::Known(Rate::from_kbps(1_600))).await;
    let one = get(proxy.address, "/v/film/0/1.m4s", "User-Agent: one\r\n").await;
    assert_eq!(one.status, 200);
    for path in ["/v/film/0/9.m4s", "/v/film.mp4"] {
        let ask = "User-Agent: two\r\nRange: bytes=4000000-\r\n";
        let answer = get(proxy.address, path, ask).await;
        let words = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 503, "{path}: {words}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        assert!(words.contains("no capacity"), "{words}");
    }
    // A second viewer at the same position shares the flow.
    let same = get(proxy.address, "/v/film/0/2.m4s", "User-Agent: three\r\n").await;
    assert_eq!(same.status, 200);
    proxy.stop().await;

    // Nothing is known of the pipe: a play that joins is measured before another may. The pipe is so narrow that the first one is neither
    // complete nor measured when the other comes.
    let setting = Setting::new(&film, "rate=300 kbit/s, delay=10 ms, queue=200 ms");
    let proxy = start_at(&setting, Admission::Measured).await;
    let address = proxy.address;
    // What becomes of it does not matter here.
    let one =
        tokio::spawn(async move { get(address, "/v/film/0/1.m4s", "User-Agent: one\r\n").await });
    until(&proxy, "one plays", |stats| {
        stats["counters"]["plays"].as_u64() > Some(0)
    })
    .await;
    let two = get(address, "/v/film/0/9.m4s", "User-Agent: two\r\n").await;
    one.abort();
    let words = String::from_utf8_lossy(&two.body).into_owned();
    assert_eq!(two.status, 503, "{words}");
    assert!(words.contains("has not been measured yet"), "{words}");
    let retry: u32 = two.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=8).contains(&retry), "{retry}");
    proxy.stop().await;
}
