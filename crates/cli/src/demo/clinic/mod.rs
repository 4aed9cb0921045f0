//! `anabranch demo-clinic`: an ambulance and a hospital over six emulated cellular paths, of which one is cut, and one is away for a while.
//!
//! Both nodes are in this process, and so are the emulated paths. The encoder is ffmpeg.

mod account;
mod record;
mod speech;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anabranch::{AllowList, Host, HostConfig, SecretKey, base::Seed, net::emulate::Emulator};
use anabranch_clinic::{
    ambulance::{self, Ambulance, Film, Output, Source},
    hospital::{self, Hospital, Packets, Pictures, page::serve_page},
    wire::{Contents, Origin},
};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use self::account::Watched;
use super::{
    data::{Data, FILM},
    links::{emulate_paths, rows, table},
    stage::{Narrator, until_ctrl_c},
};
use crate::{
    exit::{Failure, Outcome, print_line},
    page,
    planning::Planning,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,
    /// Header of the record to play (WFDB) [default: a generated record].
    #[arg(long, value_name = "RECORD.hea")]
    ekg: Option<PathBuf>,
    /// Length of the demonstration, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(6..=3_600))]
    seconds: u64,
    #[command(flatten)]
    planning: Planning,
    /// Do not send parts of pictures again that were lost.
    #[arg(long)]
    no_repair: bool,
    /// Show the hospital's page in a browser, at this address of this machine; with port 0, at a free one.
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0", value_parser = page::address)]
    http: Option<SocketAddr>,
    /// Time before the begin, to open the page, in seconds.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600))]
    before: u64,
    /// Seed of the random losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the link of the page and the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Paths: name, begin of the part of the recording in seconds, and the other properties of the link.
const PATHS: [(&str, u32, &str); 6] = [
    ("cell-1", 0, "delay=35 ms, queue=300 ms, jitter=5 ms"),
    (
        "cell-2",
        230,
        "delay=45 ms, queue=300 ms, jitter=6 ms, loss=0.2 %",
    ),
    ("cell-3", 460, "delay=40 ms, queue=300 ms, jitter=5 ms"),
    (
        "cell-4",
        690,
        "delay=60 ms, queue=400 ms, jitter=8 ms, loss=0.5 %",
    ),
    ("cell-5", 920, "delay=50 ms, queue=300 ms, jitter=5 ms"),
    (
        "cell-6",
        1_150,
        "delay=55 ms, queue=300 ms, jitter=6 ms, loss=0.2 %",
    ),
];
/// Part of the recorded rate of each path: that of an uplink.
const SCALE: &str = "x0.2";
const TRACE: &str = "hsdpa-bus.csv";
/// Path that is cut for good, and when, as a share of the time; path that is away for a while, and when.
const CUT: (usize, f64) = (0, 0.3);
const AWAY: (usize, f64, f64) = (4, 0.5, 0.75);
/// Lowest and highest rate at which the video is encoded, in bit/s.
const VIDEO_BPS: (u64, u64) = (200_000, 2_000_000);
/// Time from which a picture is sent as a file, as a share of the time.
const STILLS_AT: [f64; 2] = [0.1, 0.6];
/// Reports that wait.
const REPORTS_MAX: usize = 1_024;
/// Time for which the hospital would keep the case, longer than the demonstration.
const KEPT: Duration = Duration::from_secs(86_400);

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    until_ctrl_c(show(&arguments, folder.path())).await
}

fn host(
    seed: u8,
    allowed: AllowList,
    settings: impl FnOnce(&mut HostConfig) -> Outcome,
) -> Result<Host, Failure> {
    let mut config = HostConfig::new(SecretKey::from_seed([seed; 32]), allowed);
    settings(&mut config)?;
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(Host::start(config.bind([loopback]))?)
}

async fn show(arguments: &Arguments, folder: &Path) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let record = record::write(arguments.ekg.as_deref(), arguments.seconds, folder)?;
    let film = film(arguments, folder).await?;
    narrator.say(match &arguments.ekg {
        Some(path) => format!(
            "ECG    {} leads, replayed: {}",
            record.leads,
            path.display()
        ),
        None => format!("ECG    {} leads, generated", record.leads),
    })?;
    narrator.say(match film {
        Some(_) => "speech generated, both ways: encoded by ffmpeg at 24 kbit/s".to_owned(),
        None => "speech none: there is no ffmpeg here".to_owned(),
    })?;
    narrator.say(match film {
        Some(_) => format!("video  replayed: {FILM}, encoded without B pictures by ffmpeg"),
        None => "video  none: there is no ffmpeg here".to_owned(),
    })?;
    let (sender, reports) = mpsc::channel(REPORTS_MAX);
    let store = folder.join("store");
    let key = SecretKey::from_seed([1; 32]);
    let hospital = Hospital::open(&store, KEPT, &key, sender).map_err(Failure::file)?;
    let host_of_hospital = host(1, AllowList::everyone(), |_| Ok(()))?;
    let ticket = hospital.ticket(&host_of_hospital);
    let paths = PATHS.map(|(name, from, rest)| {
        (
            name,
            format!("rate=trace {TRACE} {SCALE} from {from} s, {rest}"),
        )
    });
    let target = ticket.addresses[0];
    let emulator = emulate_paths(&arguments.data, &paths, target, Seed(arguments.seed))?;
    for path in emulator.paths() {
        let rate = path.rates().0.map(|rate| rate.to_string());
        narrator.say(format!(
            "path   {:<8} {} at first",
            path.name(),
            rate.unwrap_or_default()
        ))?;
    }
    let served = arguments.http.map(|at| serve_page(at, hospital.live()));
    let served = served.transpose().map_err(page::failed)?;
    if let Some(served) = &served {
        let link = served.link().map_err(Failure::other)?;
        match arguments.json {
            true => crate::events::print(&json!({"kind": "listening", "link": link}))?,
            false => narrator.say(format!("\nOpen this link in a browser:\n\n    {link}\n"))?,
        }
    }
    sleep(Duration::from_secs(arguments.before)).await;
    let stills = folder.join("pictures");
    std::fs::create_dir(&stills).map_err(Failure::file)?;
    let settings = ambulance::Settings {
        run: 1,
        secret: ticket
            .secret
            .ok_or_else(|| Failure::other("the ticket has no secret"))?,
        ekg: Some(record.header.clone()),
        is_looping: false,
        contents: Contents {
            ekg: match record.is_generated {
                true => Origin::Generated,
                false => Origin::Replayed,
            },
            video: Origin::Replayed,
            speech: Origin::Generated,
        },
        consent: KEPT,
        stills: film.is_some().then(|| stills.clone()),
        sound: film.is_some().then(|| speech::sound(arguments.seconds)),
        output: film
            .is_some()
            .then(|| Output::File(folder.join("heard.opus"))),
        film,
        is_video_repaired: !arguments.no_repair,
    };
    let has_video = settings.film.is_some();
    let (sender, told) = mpsc::channel(REPORTS_MAX);
    let ambulance = Ambulance::begin(settings, sender).map_err(Failure::other)?;
    let car = host(2, AllowList::default(), |config| {
        arguments.planning.apply(config)
    })?;
    let session = car.connect(ticket.node, emulator.addresses()).await?;
    let mut viewer = hospital
        .live()
        .view()
        .ok_or_else(|| Failure::other("no viewer"))?;
    let mut watched = Watched::default();
    let begin = Instant::now();
    let at = |share: f64| begin + Duration::from_secs_f64(arguments.seconds as f64 * share);
    let ended = tokio::select! {
        ended = ambulance.run(&session) => ended.map_err(Failure::other),
        never = watched.watch(&mut viewer) => match never {},
        failed = play(arguments, &emulator, begin, narrator) => failed,
        failed = photograph(arguments, &stills, begin), if has_video => failed,
        failed = speech::speak(&hospital, arguments.seconds), if has_video => failed,
        () = hospital.serve(&host_of_hospital) => Err(Failure::other("the hospital has ended")),
    };
    ended?;
    car.shutdown().await;
    let (case, (counts, packets), files) = reported(reports)?;
    let cuts = [(PATHS[CUT.0].0, at(CUT.1)), (PATHS[AWAY.0].0, at(AWAY.1))];
    let (skipped, rates, spoken) = sent(told);
    let spoken_down = hospital.live().state().speech.spoken;
    let report = json!({
        "seed": arguments.seed,
        "seconds": arguments.seconds,
        "ekg": account::compare(&record, &case)?,
        "policy": arguments.planning.policy.map(|policy| policy.to_string()),
        "objectives": arguments.planning.objectives,
        "is_repaired": !arguments.no_repair,
        "video": has_video.then(|| watched.report(counts, skipped, &cuts)),
        "encoders_bps": rates,
        "speech": has_video.then(|| account::speech(packets, spoken, spoken_down)),
        "files": files,
        "paths": forward(rows(emulator.paths()), &emulator),
    });
    host_of_hospital.shutdown().await;
    match arguments.json {
        true => print_line(&report.to_string()),
        false => {
            narrator.say_all(account::lines(&report))?;
            narrator.say_all(table(&report["paths"]))
        }
    }
}

/// The rows of paths with the direction from the ambulance to the hospital.
fn forward(mut rows: Vec<Value>, emulator: &Emulator) -> Vec<Value> {
    for (row, path) in rows.iter_mut().zip(emulator.paths()) {
        let stats = path.stats().0;
        row["bytes"] = json!(stats.delivered.bytes);
        row["queue_full"] = json!(stats.queue_full.packets);
        row["lost"] = json!(stats.loss.packets);
        row["cut"] = json!(stats.down.packets);
    }
    rows
}

/// The folder of the case, the counts of its pictures and of its speech, and its files, from what the hospital reported.
fn reported(
    mut reports: mpsc::Receiver<hospital::Report>,
) -> Result<(PathBuf, (Pictures, Packets), u64), Failure> {
    let (mut case, mut files) = (None, 0);
    let mut counts = (Pictures::default(), Packets::default());
    while let Ok(report) = reports.try_recv() {
        match report {
            hospital::Report::Begun { folder, .. } => case = Some(folder),
            hospital::Report::Pictures(pictures) => counts.0 = pictures,
            hospital::Report::Speech(packets) => counts.1 = packets,
            hospital::Report::Still { .. } => files += 1,
            hospital::Report::Failed { purpose, why } => {
                return Err(Failure::other(format!("{purpose}: {why}")));
            }
            _ => {}
        }
    }
    let case = case.ok_or_else(|| Failure::other("the hospital has no case"))?;
    Ok((case, counts, files))
}

/// Pictures that no session took, the rates of the encoders, and the packets of speech that the ambulance made and heard, from what it reported.
fn sent(mut reports: mpsc::Receiver<ambulance::Report>) -> (u64, Vec<u64>, [u64; 2]) {
    let (mut skipped, mut rates, mut spoken) = (0, Vec::new(), [0; 2]);
    while let Ok(report) = reports.try_recv() {
        match report {
            ambulance::Report::Film {
                skipped: pictures, ..
            } => skipped = pictures,
            ambulance::Report::Spoken { packets, .. } => spoken[0] = packets,
            ambulance::Report::Heard { received, .. } => spoken[1] = received,
            ambulance::Report::Rate { rate_bps } => rates.push(rate_bps),
            _ => {}
        }
    }
    (skipped, rates, spoken)
}

/// Cuts the paths at their times, with a line every five seconds; returns only on failure.
async fn play(
    arguments: &Arguments,
    emulator: &Emulator,
    begin: Instant,
    narrator: Narrator,
) -> Outcome {
    let seconds = arguments.seconds as f64;
    let paths = emulator.paths();
    let mut steps = [
        (CUT.0, CUT.1, false),
        (AWAY.0, AWAY.1, false),
        (AWAY.0, AWAY.2, true),
    ]
    .into_iter()
    .peekable();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let mut said = 0;
    let carried = |path: &anabranch::net::emulate::Path| path.stats().0.delivered.bytes;
    let mut before: Vec<u64> = paths.iter().map(carried).collect();
    loop {
        tick.tick().await;
        let now = begin.elapsed().as_secs_f64();
        if let Some((path, _, is_up)) = steps.next_if(|(_, share, _)| now >= share * seconds) {
            paths[path].set_up(is_up);
            let what = if is_up { "is back" } else { "is cut" };
            narrator.say(format!("{now:>4.1} s  {} {what}", paths[path].name()))?;
        }
        if now as u64 >= said + 5 {
            let elapsed = Duration::from_secs(now as u64 - said);
            said = now as u64;
            let mut line = format!("{said:>4} s ");
            for (path, before) in paths.iter().zip(&mut before) {
                let mbps = super::links::mbps_since(before, carried(path), elapsed);
                line += &format!("| {} {mbps:.2} ", path.name());
            }
            narrator.say(line + "Mbit/s")?;
        }
    }
}

/// The film, if there is ffmpeg: that of the data, repeated, and encoded without B pictures.
async fn film(arguments: &Arguments, folder: &Path) -> Result<Option<Film>, Failure> {
    let mut look = Command::new("ffmpeg");
    look.arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if !look.status().await.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let film = folder.join(FILM);
    std::fs::write(&film, arguments.data.read(FILM)?).map_err(Failure::file)?;
    let seconds = arguments.seconds.to_string();
    let input = ["-stream_loop", "-1", "-t", &seconds, "-i"].map(str::to_owned);
    let input = [&input[..], &[film.display().to_string()]].concat();
    Ok(Some(Film::Encoded(Source {
        program: "ffmpeg".to_owned(),
        input,
        rates_bps: VIDEO_BPS.0..=VIDEO_BPS.1,
    })))
}

/// Puts pictures of the film into the folder that is watched, at their times; returns only on failure.
async fn photograph(arguments: &Arguments, stills: &Path, begin: Instant) -> Outcome {
    for (number, share) in (1..).zip(STILLS_AT) {
        sleep_until(begin + Duration::from_secs_f64(arguments.seconds as f64 * share)).await;
        let film = stills.with_file_name(FILM);
        let mut make = Command::new("ffmpeg");
        make.args([
            "-nostdin",
            "-loglevel",
            "error",
            "-ss",
            &(3 * number).to_string(),
            "-i",
        ])
        .arg(film)
        .args(["-frames:v", "1"])
        .arg(stills.join(format!("picture-{number}.jpg")))
        .kill_on_drop(true);
        let made = make.status().await.map_err(Failure::other)?;
        if !made.success() {
            return Err(Failure::other(format!("ffmpeg ended with {made}")));
        }
    }
    std::future::pending().await
}
