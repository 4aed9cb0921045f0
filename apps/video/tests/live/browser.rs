//! Playback in a browser: the plain video element, and hls.js.

use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    film::film,
    setting::{RunningProxy, Setting, TIMEOUT, ready},
};

const PAGE: &str = include_str!("../data/player.html");
const HLS: &str = include_str!("../data/hls.light.min.js");

/// The browser's program, where there is one.
fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| {
        let run = std::process::Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        run.is_ok_and(|status| status.success())
    })
}

/// Reads a request: its first line, and its body.
async fn request(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = connection.read(&mut buffer).await.ok()?;
        all.extend_from_slice(&buffer[..count]);
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(all[..end].to_vec()).ok()?;
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            });
            let mut body = all.split_off(end + 4);
            let missing = length.unwrap_or(0).saturating_sub(body.len());
            let mut rest = vec![0; missing];
            connection.read_exact(&mut rest).await.ok()?;
            body.extend_from_slice(&rest);
            return Some((head.lines().next()?.to_owned(), body));
        }
        if count == 0 {
            return None;
        }
    }
}

/// Serves the page from another site than the proxy's, as real sites do, until the page has reported its results.
async fn serve_page(listener: TcpListener) -> Value {
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        let Some((line, body)) = request(&mut connection).await else {
            continue;
        };
        let (status, mime, text) = match line.split(' ').nth(1).unwrap_or("") {
            "/hls.js" => ("200 OK", "text/javascript", HLS),
            path if path.starts_with("/?") => ("200 OK", "text/html", PAGE),
            "/result" => ("204 No Content", "text/plain", ""),
            _ => ("404 Not Found", "text/plain", ""),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {mime}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        let _ = connection.write_all(head.as_bytes()).await;
        let _ = connection.write_all(text.as_bytes()).await;
        let _ = connection.shutdown().await;
        if line.starts_with("POST /result") {
            return serde_json::from_slice(&body).unwrap();
        }
    }
}

/// Has a browser load the page with this query. Returns the results that the page reports at its end.
async fn browse(program: &str, proxy: &RunningProxy, query: &str) -> Value {
    let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = TcpListener::bind(loopback).await.unwrap();
    let page = format!(
        "http://{}/?proxy=http://{}&{query}",
        listener.local_addr().unwrap(),
        proxy.address
    );
    let profile = tempfile::tempdir().unwrap();
    let mut browser = tokio::process::Command::new(program)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--mute-audio",
        ])
        .args(["--no-first-run", "--disable-dev-shm-usage"])
        .arg("--autoplay-policy=no-user-gesture-required")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let results = tokio::time::timeout(TIMEOUT, serve_page(listener)).await;
    let stats = proxy.stats().await;
    let _ = browser.kill().await;
    let results = results.unwrap_or_else(|_| panic!("the browser reports nothing; {stats}"));
    println!("{results}; {stats}");
    results
}

/// A browser and a film of so many seconds, where both are available.
fn can_browse(seconds: u32) -> Option<(&'static str, PathBuf)> {
    let Some(program) = chromium() else {
        println!("skipped: chromium is not installed");
        return None;
    };
    let film = film(seconds);
    if film.ends_with("bikes.mp4") {
        println!("skipped: the film of the repository is too short");
        return None;
    }
    Some((program, film))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_plays_and_seeks() {
    let Some((program, film)) = can_browse(20) else {
        return;
    };
    let pipe = "rate=20 Mbit/s, delay=10 ms, queue=200 ms, loss=2 %";
    let setting = Setting::new(&film, pipe);
    let proxy = setting.proxy().await;
    ready(&proxy).await;
    let results = browse(program, &proxy, "plan=seek&kinds=mp4,hls").await;
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["error"].is_null(), "{result}");
        assert_eq!(result["width"], 480, "{result}");
        let duration = result["duration"].as_f64().unwrap();
        assert!((19.0..21.0).contains(&duration), "{result}");
        assert!(
            result["frames"].as_u64() > result["first"].as_u64(),
            "{result}"
        );
        assert_eq!(result["corrupted"], 0, "{result}");
    }
    let stats = proxy.stats().await;
    assert_eq!(stats["counters"]["frames"]["I"]["lost"], 0, "{stats}");
    proxy.stop().await;
}

/// In the middle of the film the pipe's capacity falls below the film's rate: playback continues to the end, every key frame
/// and all sound arrive, and missing frames are left out in such a manner that the decoder does not fail.
async fn plays_through_a_halved_pipe(kind: &str) {
    let Some((program, film)) = can_browse(30) else {
        return;
    };
    let pipe = "rate=trace \"halved later\", delay=10 ms, queue=200 ms";
    let setting = Setting::new(&film, pipe);
    let mut config = setting.config();
    config.prefix = anabranch_video::proxy::Prefix::Fixed(Duration::ZERO);
    config.lead = Duration::from_secs(2);
    let proxy = RunningProxy::start(config, &setting.ticket).await;
    ready(&proxy).await;
    let results = browse(program, &proxy, &format!("plan=through&kinds={kind}")).await;
    let result = &results[0];
    assert!(result["error"].is_null(), "{result}");
    assert!(result["time"].as_f64() >= Some(28.0), "{result}");
    assert!(
        result["frames"].as_u64() > result["first"].as_u64(),
        "{result}"
    );
    assert_eq!(result["corrupted"], 0, "{result}");
    let stats = proxy.stats().await;
    let frames = &stats["counters"]["frames"];
    for letter in ["I", "A"] {
        assert_eq!(frames[letter]["lost"], 0, "{stats}");
        assert!(frames[letter]["sent"].as_u64() > Some(0), "{stats}");
    }
    // The data that the pipe cannot carry must be missing somewhere: otherwise nothing was tested.
    let lost = |letter: &str| frames[letter]["lost"].as_u64().unwrap();
    assert!(lost("P") + lost("B") > 0, "the pipe is too wide; {stats}");
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_video_element_plays_through_a_halved_pipe() {
    plays_through_a_halved_pipe("mp4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hls_js_plays_through_a_halved_pipe() {
    plays_through_a_halved_pipe("hls").await;
}
