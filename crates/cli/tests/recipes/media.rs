//! ffmpeg by RTP and by SRT through a forward for datagrams; what arrives is decoded, and each picture compared.

use std::{
    collections::HashSet,
    fs,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{Setting, harness::Killed, program, succeeds};

const FILM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/bikes.mp4");
/// The lifetime of datagrams of the preset, a second, would decide on a machine that is busy.
const RULES: &str = "[[rule]]\nmatch = { protocol = \"udp\" }\nservice = { lifetime = \"30 s\", reliable = true }\n";
/// Pictures of the film.
const PICTURES: usize = 250;
/// Pictures that must arrive. Without a forward, ffmpeg loses about as many as with it: the last second when its SRT ends, and by RTP
/// what precedes the first parameter sets that it understands; a busy machine, some more.
const ENOUGH: usize = 150;

/// `None`: ffmpeg is not installed, or knows no such protocol.
fn ffmpeg(protocol: &str) -> Option<PathBuf> {
    let ffmpeg = program("ffmpeg")?;
    let known = succeeds(Command::new(&ffmpeg).args(["-hide_banner", "-protocols"]));
    let is_known = String::from_utf8_lossy(&known)
        .lines()
        .any(|line| line.trim() == protocol);
    if !is_known {
        eprintln!("skipped: this ffmpeg has no {protocol}");
    }
    is_known.then_some(ffmpeg)
}

fn quiet(ffmpeg: &Path) -> Command {
    let mut command = Command::new(ffmpeg);
    command
        .args(["-hide_banner", "-nostdin", "-loglevel", "error"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Hashes of the decoded pictures, without their times.
fn pictures(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit(',').next())
        .map(|hash| hash.trim().to_owned())
        .collect()
}

fn free_udp() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Waits until a socket of this port takes datagrams.
fn wait_for_listener(port: u16) {
    let is_bound = || {
        let table = fs::read_to_string("/proc/net/udp").unwrap();
        table.contains(&format!(":{port:04X} "))
    };
    for _ in 0..600 {
        if is_bound() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nothing listens at port {port}");
}

/// Waits until no picture has come for a while: datagrams on their way still arrive, and their end does not show. The first picture may take
/// longer: the receiver looks at five seconds of a film before it decodes any.
fn wait_until_still(pictures: &Path) {
    let mut bytes = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_secs(3));
        let before = bytes;
        bytes = fs::metadata(pictures).map_or(0, |of| of.len());
        if bytes > 0 && bytes == before {
            return;
        }
    }
}

/// Sends the film to `to(forward)` in real time, and returns how many of its pictures arrive at a receiver that listens at
/// `from`, how many there are, and what the receiver said.
fn carried(
    ffmpeg: &Path,
    target: SocketAddr,
    from: &str,
    format: &str,
    to: impl Fn(SocketAddr) -> String,
) -> (usize, usize, String) {
    let mapping = format!("udp:0:{target}");
    let setting = Setting::with_rules(
        &format!("udp:{target}"),
        RULES,
        &["forward", "--config", "rules.toml", "-L", &mapping],
    );
    let out = setting.path().join("pictures");
    let words = setting.path().join("words");
    let receiver = quiet(ffmpeg)
        .args(["-loglevel", "warning"])
        .stderr(fs::File::create(&words).unwrap())
        // Packets that are sent again may come after others.
        .args(["-max_delay", "5000000"])
        .args(["-i", from, "-map", "0:v", "-fps_mode", "passthrough"])
        .args(["-f", "framemd5", "-flush_packets", "1"])
        .arg(&out)
        .spawn()
        .unwrap();
    let mut receiver = Killed(receiver);
    // The receiver must listen first: ffmpeg prints nothing when it does.
    wait_for_listener(target.port());
    succeeds(
        quiet(ffmpeg)
            .args([
                "-re",
                "-i",
                FILM,
                "-map",
                "0:v",
                "-c",
                "copy",
                // With the first packet by RTP, ffmpeg opens its socket once more, and misses what comes meanwhile: the parameter sets,
                // which are needed to begin later.
                "-bsf:v",
                "h264_mp4toannexb,dump_extra=freq=all",
                "-flush_packets",
                "1",
                "-f",
                format,
            ])
            .arg(to(setting.at)),
    );
    wait_until_still(&out);
    let pid = receiver.0.id().to_string();
    succeeds(Command::new("sh").args(["-c", &format!("kill -INT {pid} || true")]));
    receiver.0.wait().unwrap();
    let seen: HashSet<String> = pictures(&fs::read_to_string(&out).unwrap())
        .into_iter()
        .collect();
    let all = quiet(ffmpeg)
        .args([
            "-i",
            FILM,
            "-map",
            "0:v",
            "-fps_mode",
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ])
        .output()
        .unwrap();
    let all = pictures(&String::from_utf8_lossy(&all.stdout));
    let arrived = all.iter().filter(|hash| seen.contains(*hash)).count();
    let words = fs::read_to_string(&words).unwrap();
    setting.end();
    (arrived, all.len(), words)
}

#[test]
fn ffmpeg_sends_a_film_by_srt() {
    let Some(ffmpeg) = ffmpeg("srt") else { return };
    let target = free_udp();
    // Of what is late, nothing is left out: a machine that is busy is late.
    let options = "latency=1000000&tlpktdrop=0";
    let from = format!("srt://{target}?mode=listener&{options}");
    // What is not acknowledged when the film ends is still sent.
    let to = |at| format!("srt://{at}?mode=caller&{options}&pkt_size=1316&linger=60");
    let (arrived, all, words) = carried(&ffmpeg, target, &from, "mpegts", to);
    assert!(
        all == PICTURES && arrived >= ENOUGH,
        "{arrived} of {all} pictures; {words}"
    );
}

#[test]
fn ffmpeg_sends_a_film_by_rtp() {
    let Some(ffmpeg) = ffmpeg("rtp") else { return };
    let target = free_udp();
    let from = format!("rtp://{target}");
    let to = |at| format!("rtp://{at}?pkt_size=1200");
    let (arrived, all, words) = carried(&ffmpeg, target, &from, "rtp_mpegts", to);
    assert!(
        all == PICTURES && arrived >= ENOUGH,
        "{arrived} of {all} pictures; {words}"
    );
}
