//! `anabranch demo-video`: an origin, a link that loses packets, a proxy and a player, on this machine.
//!
//! Origin and proxy are separate processes, `anabranch video origin` and `anabranch video proxy`, as a user would run them.
//! Only the link is emulated, in this process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anabranch::{
    Ticket,
    base::Seed,
    net::emulate::{Emulator, PathSpec},
};
use anabranch_link::describe::parse_both;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

use super::{
    data::{FILM, inside},
    stage::{Narrator, program, until_ctrl_c},
};
use crate::{
    emulate::load_trace,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Video to serve: any MP4 file with H.264, H.265 or AV1 [default: a short one inside this program].
    #[arg(long, value_name = "FILE")]
    film: Option<PathBuf>,
    /// Link between origin and proxy, in the format of `anabranch emulate`.
    #[arg(
        long,
        value_name = "LINK",
        default_value = "rate=8 Mbit/s, delay=20 ms, queue=200 ms, loss=2 %"
    )]
    pipe: String,
    /// File to which the player writes its copy.
    #[arg(long, value_name = "FILE", default_value = "demo-video.mp4")]
    out: PathBuf,
    /// Keep everything running until Ctrl-C, to watch the video in a browser.
    #[arg(long)]
    stay: bool,
    /// Seed of the random losses; the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Timeout for a process to print its address, and for the proxy to find the video.
const STARTED: Duration = Duration::from_secs(30);
/// Timeout for the player.
const PLAYED: Duration = Duration::from_secs(900);
/// Interval between two requests to the proxy.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    until_ctrl_c(show(&arguments)).await
}

async fn show(arguments: &Arguments) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let library = folder.path().join("library");
    std::fs::create_dir(&library).map_err(Failure::file)?;
    let served = library.join("film.mp4");
    match &arguments.film {
        Some(film) => {
            let copied = std::fs::copy(film, &served);
            copied.map_err(|error| {
                Failure::file(format!("cannot read {}: {error}", film.display()))
            })?;
        }
        None => std::fs::write(&served, inside(FILM)?).map_err(Failure::file)?,
    }

    let (_origin, ticket) = origin(folder.path(), &library).await?;
    let mut ticket: Ticket = ticket.parse().map_err(Failure::other)?;
    let links = parse_both(&arguments.pipe, &mut load_trace).map_err(Failure::usage)?;
    let spec = PathSpec {
        name: "pipe".to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        target: ticket.addresses[0],
        links,
    };
    let emulator = Emulator::start(vec![spec], Seed(arguments.seed)).map_err(Failure::other)?;
    ticket.addresses = emulator.addresses().to_vec();
    let (_proxy, page) = proxy(folder.path(), &ticket).await?;
    let address: SocketAddr = page
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .parse()
        .map_err(Failure::other)?;
    narrator.say(format!("origin   {}", ticket.node))?;
    narrator.say(format!("pipe     {}", arguments.pipe))?;
    narrator.say(format!("proxy    {page}"))?;
    let url = format!("{page}v/film.mp4");
    narrator.say(format!("video    {url}, {page}v/film/master.m3u8"))?;
    known(address).await?;

    narrator.say("\nthe player plays …")?;
    let (player, complaints) = play(&url, address, &arguments.out).await?;
    let stats = stats(address).await?;
    let (forward, backward) = emulator.paths()[0].stats();
    let report = json!({
        "player": player,
        "out": arguments.out,
        "complaints": complaints,
        "counters": stats["counters"],
        "pipe": {
            "packets": forward.offered.packets + backward.offered.packets,
            "lost": forward.loss.packets + backward.loss.packets,
            "queue_full": forward.queue_full.packets + backward.queue_full.packets,
        },
    });
    if arguments.json {
        print_line(&report.to_string())?;
    } else {
        narrator.say_all(lines(&report))?;
    }
    if arguments.stay {
        narrator.say(format!("\nOpen {page} in a browser; Ctrl-C ends it."))?;
        std::future::pending::<()>().await;
    }
    let lost = &report["counters"]["frames"]["I"]["lost"];
    if lost.as_u64() != Some(0) {
        return Err(Failure::other("key frames were lost; they must never be"));
    }
    Ok(())
}

fn lines(report: &Value) -> Vec<String> {
    let counters = &report["counters"];
    let mut lines = vec![
        String::new(),
        "frames         sent to the proxy      lost  of them late".to_owned(),
    ];
    let names = [
        ("I", "key"),
        ("P", "predicted"),
        ("B", "bidirectional"),
        ("A", "sound"),
        ("?", "other"),
    ];
    for (letter, name) in names {
        let counts = &counters["frames"][letter];
        if counts["sent"].as_u64() != Some(0) {
            lines.push(format!(
                "{letter}  {name:<14}  {:>13}  {:>8}  {:>12}",
                counts["sent"], counts["lost"], counts["late"]
            ));
        }
    }
    lines.push(format!(
        "parts of frames that arrived too late: {}; frames left out of the player's copy: {}",
        counters["late_adus"], counters["left_out_frames"]
    ));
    let pipe = &report["pipe"];
    lines.push(format!(
        "the link lost {} of {} packets at random, and dropped {} because its queue was full",
        pipe["lost"], pipe["packets"], pipe["queue_full"]
    ));
    lines.push(format!(
        "{} wrote {} and reported {} errors",
        report["player"].as_str().unwrap_or_default(),
        report["out"].as_str().unwrap_or_default(),
        report["complaints"]
    ));
    lines
}

async fn start(command: &mut Command) -> Result<(Child, String), Failure> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::other)?;
    let out = child.stdout.take();
    let out = out.ok_or_else(|| Failure::other("the output of a process cannot be read"))?;
    let mut lines = BufReader::new(out).lines();
    let line = tokio::time::timeout(STARTED, lines.next_line()).await;
    let line = line.map_err(|_| Failure::other("a process did not start in time"))?;
    let line = line.map_err(Failure::other)?;
    let line = line.ok_or_else(|| Failure::other("a process ended right after its start"))?;
    Ok((child, line))
}

async fn origin(folder: &Path, library: &Path) -> Result<(Child, String), Failure> {
    let mut command = program()?;
    command.args(["video", "origin", "--quiet", "--listen", "127.0.0.1:0"]);
    command.arg("--library").arg(library);
    command.arg("--key").arg(folder.join("origin.key"));
    start(&mut command).await
}

async fn proxy(folder: &Path, ticket: &Ticket) -> Result<(Child, String), Failure> {
    let mut command = program()?;
    command.args(["video", "proxy", "--quiet", "--http", "127.0.0.1:0"]);
    command.args(["--bind", "127.0.0.1:0", "--prefix", "0 s"]);
    command.env("ANABRANCH_TICKET", ticket.to_string());
    command.arg("--cache").arg(folder.join("cache"));
    command.arg("--key").arg(folder.join("proxy.key"));
    start(&mut command).await
}

/// Waits until the proxy offers the video.
async fn known(address: SocketAddr) -> Outcome {
    let waiting = async {
        loop {
            let head = fetch(address, "HEAD", "/v/film.mp4", &mut tokio::io::sink()).await?;
            if head.starts_with("HTTP/1.1 200") {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let waited = tokio::time::timeout(STARTED, waiting).await;
    waited.map_err(|_| Failure::unreachable("the proxy does not find the origin"))?
}

/// Plays into a file; returns the player's name and the number of errors that it reported.
async fn play(url: &str, address: SocketAddr, out: &Path) -> Result<(String, u64), Failure> {
    // Copies the received data to the file, and decodes all of it.
    let player = Command::new("ffmpeg")
        .args([
            "-hide_banner",
            "-nostdin",
            "-loglevel",
            "error",
            "-y",
            "-i",
            url,
        ])
        .args(["-map", "0", "-c", "copy"])
        .arg(out)
        .args(["-map", "0", "-f", "null", "-"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(PLAYED, player).await {
        Err(_) => Err(Failure::other("the player did not finish in time")),
        Ok(Ok(done)) if done.status.success() => {
            let complaints = String::from_utf8_lossy(&done.stderr).lines().count();
            Ok(("ffmpeg".to_owned(), complaints as u64))
        }
        Ok(Ok(done)) => Err(Failure::other(format!(
            "ffmpeg failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
        Ok(Err(_)) => {
            let file = tokio::fs::File::create(out).await;
            let mut file = file.map_err(Failure::file)?;
            let head = fetch(address, "GET", "/v/film.mp4", &mut file).await?;
            if head.starts_with("HTTP/1.1 200") {
                Ok(("a plain download (there is no ffmpeg here)".to_owned(), 0))
            } else {
                Err(Failure::other(head))
            }
        }
    }
}

async fn stats(address: SocketAddr) -> Result<Value, Failure> {
    let mut text = Vec::new();
    fetch(address, "GET", "/stats.json", &mut text).await?;
    serde_json::from_slice(&text).map_err(Failure::other)
}

/// Makes an HTTP request; writes the body of the response to `out` and returns its head.
async fn fetch(
    address: SocketAddr,
    method: &str,
    path: &str,
    out: &mut (impl tokio::io::AsyncWrite + Unpin),
) -> Result<String, Failure> {
    const HEAD_BYTES_MAX: usize = 16 << 10;
    let mut connection = TcpStream::connect(address)
        .await
        .map_err(Failure::unreachable)?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let sent = connection.write_all(request.as_bytes()).await;
    sent.map_err(Failure::unreachable)?;
    let mut head = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let end = loop {
        let count = connection
            .read(&mut buffer)
            .await
            .map_err(Failure::unreachable)?;
        head.extend_from_slice(&buffer[..count]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if count == 0 || head.len() > HEAD_BYTES_MAX + buffer.len() {
            return Err(Failure::unreachable("the proxy closed the connection"));
        }
    };
    out.write_all(&head[end + 4..])
        .await
        .map_err(Failure::file)?;
    head.truncate(end);
    let body = tokio::io::copy(&mut connection, out).await;
    body.map_err(Failure::unreachable)?;
    out.flush().await.map_err(Failure::file)?;
    String::from_utf8(head).map_err(Failure::other)
}
