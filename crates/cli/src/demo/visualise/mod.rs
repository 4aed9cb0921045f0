//! `anabranch demo-visualise`: a molecule shown over three emulated paths, 25 frames a second: the live form of Table III of IQ-Paths.
//!
//! Two nodes are separate processes, `anabranch node`. The source and the viewer are in this process, attached to them as applications; so are
//! the emulated links.

mod account;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::base::{Rate, Seed, text::printable};
use anabranch_visualise::{
    molecule::Trajectory,
    promise::Asking,
    smartpointer::{
        frame::Part,
        page::serve_page,
        source::{self, Source},
        view::View,
        viewer::{self, Arrived, Viewer},
    },
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use self::account::Account;
use super::{
    data::Data,
    links::{emulate_paths, rows, table},
    nodes::{self, Nodes},
    stage::{Narrator, until_ctrl_c},
};
use crate::{
    attach,
    exit::{Failure, Outcome, print_line},
    page,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,
    /// Topology of the molecule, a PSF file [default: a generated molecule of the size of adenylate kinase].
    #[arg(long, value_name = "PSF", requires = "trajectory")]
    topology: Option<PathBuf>,
    /// Its trajectory, a DCD file.
    #[arg(long, value_name = "DCD", requires = "topology")]
    trajectory: Option<PathBuf>,
    /// Time that is counted, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=3_600))]
    seconds: u64,
    /// Time before it, for the promises, in seconds.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(0..=600))]
    before: u64,
    /// Multiplies the recorded rates of the paths.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=20))]
    scale: u64,
    /// Begin each recording at a place that the seed chooses, in place of its beginning.
    #[arg(long)]
    anywhere: bool,
    /// Show the molecule in a browser, too, at this address of this machine; with port 0, at a free one.
    #[arg(long, value_name = "IP:PORT", value_parser = page::address)]
    http: Option<SocketAddr>,
    /// Seed of the random losses, and of the places of --anywhere.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

const NAME: &str = "molecule";
/// Atoms of the generated molecule.
const ATOMS: u32 = 3_341;
/// Frames a second, as in the paper.
const FRAMES: u32 = 25;
/// Share of windows of the promises, as in the paper.
const SHARE: f64 = 0.95;
/// Paths: name, trace of the rate, and the other properties of the link.
const PATHS: [(&str, &str, &str); 3] = [
    (
        "satellite",
        "starlink-up.csv",
        "delay=30 ms, queue=120 ms, jitter=3 ms, loss=0.2 %",
    ),
    (
        "3g",
        "hsdpa-bus.csv",
        "delay=45 ms, queue=300 ms, jitter=4 ms",
    ),
    ("fixed", "fixed.csv", "delay=12 ms, queue=150 ms"),
];
/// Frames and reports that wait.
const WAITING_MAX: usize = 4_096;
/// Time for the first frame.
const FIRST: Duration = Duration::from_secs(60);

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let outcome = until_ctrl_c(show(&arguments, folder.path())).await;
    nodes::remove(folder).await;
    outcome
}

/// The half of space in which about half of the bonds are: from the middle of the first frame on.
fn half(trajectory: &mut Trajectory) -> Result<View, Failure> {
    let first = trajectory.frame(0).map_err(Failure::file)?;
    let mut middle: Vec<f64> = first.iter().map(|at| f64::from(at[0])).collect();
    middle.sort_by(f64::total_cmp);
    let middle = middle.get(middle.len() / 2).copied().unwrap_or_default();
    View::new(vec![[1.0, 0.0, 0.0, -middle]]).map_err(Failure::other)
}

async fn show(arguments: &Arguments, folder: &std::path::Path) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let mut trajectory = match (&arguments.topology, &arguments.trajectory) {
        (Some(topology), Some(trajectory)) => Trajectory::open(topology, trajectory),
        _ => Trajectory::generated(ATOMS),
    }
    .map_err(Failure::file)?;
    let view = half(&mut trajectory)?;
    let (atoms, bonds) = (
        trajectory.topology().atoms(),
        trajectory.topology().bonds.len(),
    );
    narrator.say(format!(
        "{atoms} atoms, {bonds} bonds, {FRAMES} frames a second; the view is half of space"
    ))?;
    let (archive, at) = Nodes::start(folder, "smartpointer/1/watch/*").await?;
    let paths = links(arguments)?;
    let emulator = emulate_paths(&arguments.data, &paths, at, Seed(arguments.seed))?;
    let emulated = Instant::now();
    let nodes = archive.join(folder, emulator.addresses()).await?;
    for path in emulator.paths() {
        let rate = path.rates().1.map(|rate| rate.to_string());
        let rate = rate.unwrap_or_default();
        narrator.say(format!("path {:<10} {rate} at first", path.name()))?;
    }
    let settings = source::Settings {
        name: NAME.to_owned(),
        rate: FRAMES,
        is_looping: true,
        asking: Asking::Measured { share: SHARE },
    };
    let source = Source::new(settings, trajectory, mpsc::channel(1).0);
    let service = source.register(&nodes.archive).await;
    let service = service.map_err(attach::failure)?;
    let (reports, mut reported) = mpsc::channel(WAITING_MAX);
    let (sender, mut arrived) = mpsc::channel(WAITING_MAX);
    let settings = viewer::Settings {
        name: NAME.to_owned(),
        arrived: Some(sender),
    };
    let viewer = Viewer::new(settings, reports);
    viewer.look(view);
    let served = arguments.http.map(|at| serve_page(at, viewer.clone()));
    let served = served.transpose().map_err(page::failed)?;
    if let Some(served) = &served {
        let link = served.link().map_err(Failure::other)?;
        narrator.say(format!(
            "\nOpen this link in a browser; a view that is turned there changes what is counted:\n\n    {link}\n"
        ))?;
    }
    let session = nodes.connect(PATHS.len()).await?;
    let reporting = async {
        while let Some(report) = reported.recv().await {
            if let viewer::Report::Promise {
                part,
                rate_bps,
                why,
            } = report
            {
                let words = match rate_bps {
                    Some(bps) => format!("{} are promised", Rate::from_bps(bps)),
                    None => format!("no promise: {}", printable(&why, 100)),
                };
                narrator.say(format!("  {part}: {words}"))?;
            }
        }
        std::future::pending::<Outcome>().await
    };
    let account = tokio::select! {
        account = count(arguments, &mut arrived, narrator) => account?,
        failed = reporting => return failed,
        ended = source.serve(&service) => return Err(attach::failure(ended)),
        played = source.play() => return Err(Failure::other(format!("{played:?}"))),
        watched = viewer.watch(&session) => return Err(Failure::other(match watched {
            Ok(why) => why,
            Err(error) => error.to_string(),
        })),
    };
    let links = paths.map(|(name, link)| json!({ "name": name, "link": link }));
    let report = json!({
        "seed": arguments.seed,
        "is_generated": arguments.topology.is_none(),
        "scale": arguments.scale,
        "before_s": arguments.before,
        "seconds": arguments.seconds,
        // From the beginning of the recordings' playback to that of the first window.
        "begin_s": account.begin().saturating_duration_since(emulated).as_secs_f64(),
        "links": links,
        "streams": account.report(),
        "promised_bps": Part::ALL.map(|part| viewer.state()["parts"][part.index()]["promised_bps"].clone()),
        "paths": rows(emulator.paths()),
    });
    if arguments.json {
        return print_line(&report.to_string());
    }
    narrator.say_all(account::table(&report["streams"]))?;
    narrator.say_all(table(&report["paths"]))
}

/// Names and descriptions of the links.
fn links(arguments: &Arguments) -> Result<[(&'static str, String); 3], Failure> {
    let mut random = Seed(arguments.seed).stream("places in the recordings");
    let mut links = PATHS.map(|(name, ..)| (name, String::new()));
    for (link, (name, file, rest)) in links.iter_mut().zip(PATHS) {
        let from = match arguments.anywhere {
            true => {
                let trace = arguments.data.trace(file);
                let trace =
                    trace.map_err(|error| Failure::file(format!("path {name}: {error}")))?;
                format!(
                    " from {} s",
                    random.below(trace.duration().as_secs().max(1))
                )
            }
            false => String::new(),
        };
        link.1 = format!("rate=trace {file} x{}{from}, {rest}", arguments.scale);
    }
    Ok(links)
}

/// Counts the frames that arrive, after the time for promises.
async fn count(
    arguments: &Arguments,
    arrived: &mut mpsc::Receiver<Arrived>,
    narrator: Narrator,
) -> Result<Account, Failure> {
    let first = timeout(FIRST, arrived.recv()).await;
    let first = first.ok().flatten();
    let first = first.ok_or_else(|| Failure::other("no frame arrives"))?;
    let begin = first.at + Duration::from_secs(arguments.before);
    let mut account = Account::new(begin, arguments.seconds, FRAMES);
    // Windows begin up to a frame later.
    let end = begin + Duration::from_secs(arguments.seconds) + Duration::from_secs(1) / FRAMES;
    narrator.say(format!(
        "frames come; {} s for promises, then {} s are counted …",
        arguments.before, arguments.seconds
    ))?;
    loop {
        tokio::select! {
            Some(one) = arrived.recv() => account.arrived(&one),
            () = sleep_until(end) => break,
        }
    }
    Ok(account)
}
