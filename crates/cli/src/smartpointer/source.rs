//! `anabranch smartpointer source`.

use std::{path::PathBuf, sync::Arc};

use anabranch_visualise::{
    molecule::{MoleculeError, Trajectory},
    promise::Asking,
    smartpointer::source::{Report, Settings, Source},
};
use serde_json::json;
use tokio::sync::mpsc;

use super::NAME;
use crate::{
    attach,
    exit::{Failure, Outcome, stopped},
    imd::{failure, line, parse_name, parse_percent},
};

/// Reports that wait to be printed.
const REPORTS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The frames begin with the first viewer. Each is sent in three parts: all atoms, and the bonds in the view of the viewer, with a promise; the \
bonds out of its view with what is left. What the paths do not carry is skipped by whole frames, for each part by itself.

A peer needs the right use-service in the node's configuration: services = [\"smartpointer/1/watch/NAME\"].")]
pub(super) struct Arguments {
    /// Name by which viewers ask for it.
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,
    /// Atoms and bonds: a PSF file of CHARMM, NAMD or X-PLOR.
    #[arg(
        long,
        value_name = "PSF",
        requires = "trajectory",
        required_unless_present = "generate"
    )]
    topology: Option<PathBuf>,
    /// Positions: a DCD file of CHARMM or NAMD, in any byte order.
    #[arg(long, value_name = "DCD", requires = "topology")]
    trajectory: Option<PathBuf>,
    /// Play a generated molecule with so many atoms instead.
    #[arg(long, value_name = "ATOMS", conflicts_with_all = ["topology", "trajectory"])]
    generate: Option<u32>,
    /// Frames a second.
    #[arg(long, value_name = "FRAMES", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=240))]
    rate: u32,
    /// Begin anew at the end of the trajectory; otherwise the command ends there.
    #[arg(long = "loop")]
    is_looping: bool,
    /// Ask for no promise.
    #[arg(long)]
    no_promise: bool,
    /// Share of the time windows in which the rates of atoms and of bonds in view are to be there, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = parse_percent)]
    share: f64,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: attach::Place,
}

impl Arguments {
    fn trajectory(&self) -> Result<Trajectory, MoleculeError> {
        match (&self.topology, &self.trajectory) {
            (Some(topology), Some(trajectory)) => Trajectory::open(topology, trajectory),
            _ => Trajectory::generated(self.generate.unwrap_or_default()),
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let trajectory = arguments.trajectory().map_err(|error| match error {
        MoleculeError::TooMany { .. } => Failure::usage(error),
        error => Failure::file(error),
    })?;
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let settings = Settings {
        name: arguments.name.clone(),
        rate: arguments.rate,
        is_looping: arguments.is_looping,
        asking: match arguments.no_promise {
            true => Asking::Nothing,
            false => Asking::Measured {
                share: arguments.share,
            },
        },
    };
    let atoms = trajectory.topology().atoms();
    let (bonds, frames) = (trajectory.topology().bonds.len(), trajectory.frames());
    let event = json!({"kind": "serving", "name": arguments.name, "atoms": atoms, "bonds": bonds, "frames": frames});
    let words = format!(
        "Serving {}: {atoms} atoms, {bonds} bonds, {frames} frames. They begin with the first viewer.",
        arguments.name
    );
    let source = Source::new(settings, trajectory, reports);
    let stopped = stopped();
    let serving = attach::keep(async |is_first| {
        let told = is_first.then_some((&event, words.as_str()));
        serve(arguments, &source, told).await
    });
    let playing = async {
        let played = source.play().await;
        // Viewers get what is on its way.
        source.idle().await;
        played.map(drop).map_err(failure)
    };
    let reporting = async {
        while let Some(report) = reported.recv().await {
            show(arguments, &report)?;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        failure = serving => Err(failure),
        ended = playing => ended,
        failed = reporting => failed,
        stopped = stopped => stopped,
    };
    while let Ok(report) = reported.try_recv() {
        show(arguments, &report)?;
    }
    ended
}

/// Serves until the connection to the node is over.
async fn serve(
    arguments: &Arguments,
    source: &Arc<Source>,
    told: Option<(&serde_json::Value, &str)>,
) -> Result<Failure, Failure> {
    let place = &arguments.place;
    let client = place.attach("anabranch smartpointer source").await;
    let client = client.map_err(attach::failure)?;
    let service = source.register(&client).await.map_err(attach::failure)?;
    if let Some((event, words)) = told {
        line(arguments.json, event, words)?;
    }
    Ok(attach::failure(source.serve(&service).await))
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Begun => (
            json!({"kind": "begun"}),
            "The frames have begun.".to_owned(),
        ),
        Report::Looking { peer } => (
            json!({"kind": "looking", "peer": peer.to_string()}),
            format!("{peer} looks."),
        ),
        Report::View {
            peer,
            number,
            planes,
        } => {
            if !arguments.json {
                // A person that turns a molecule changes the view ten times a second.
                return Ok(());
            }
            (
                json!({"kind": "view", "peer": peer.to_string(), "number": number, "planes": planes}),
                String::new(),
            )
        }
        Report::Left {
            peer,
            sent,
            skipped,
        } => (
            json!({"kind": "left", "peer": peer.to_string(), "sent": sent, "skipped": skipped}),
            format!(
                "{peer} has left: {} frames of atoms, {} of bonds in view, {} of bonds out of view; skipped here: {}, {}, {}.",
                sent[0], sent[1], sent[2], skipped[0], skipped[1], skipped[2]
            ),
        ),
        _ => return Ok(()),
    };
    line(arguments.json, &event, &words)
}
