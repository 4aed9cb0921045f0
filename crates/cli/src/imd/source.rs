//! `anabranch imd source`.

use std::time::Duration;

use anabranch::base::{Rate, text::printable};
use anabranch_visualise::source::{Asking, Report, Settings, Source};
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};

use super::{NAME, failure, line, parse_name, parse_percent};
use crate::{
    attach,
    exit::{Failure, Outcome, note, stopped},
};

/// Pause before the simulation is connected to again.
const PAUSE: Duration = Duration::from_secs(1);
/// Reports that wait to be printed.
const REPORTS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
GROMACS (IMD-version = v3), LAMMPS (fix imd … version 3) and NAMD (IMDversion 3) listen at a port for one client, which is this \
command. When the simulation ends, the next one at the same address is waited for.

Positions and box are sent with a promise, energies and time before all; velocities and forces take what is left. What the paths do not \
carry is skipped by whole frames, for each viewer by itself; the simulation is not held up, unless --wait is given.

A peer needs the right use-service in the node's configuration: services = [\"imd/1/watch/NAME\"] to watch, and \
\"imd/1/steer/NAME\" to pause the simulation, to change its rate of frames, or to end it (--allow-steer, --allow-kill).")]
pub(super) struct Arguments {
    /// Address at which the simulation listens for IMD.
    #[arg(value_name = "HOST:PORT", value_parser = parse_address)]
    simulation: String,
    /// Name by which viewers ask for it.
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,
    /// Have the simulation wait: for the first viewer to begin, and for the slowest of them at every frame.
    #[arg(long)]
    wait: bool,
    /// Let peers with the right imd/1/steer/NAME pause the simulation and change its rate of frames.
    #[arg(long)]
    allow_steer: bool,
    /// Let peers with the right imd/1/steer/NAME end the simulation.
    #[arg(long)]
    allow_kill: bool,
    /// Rate that is asked for as a promise for positions and box, such as 20Mbit/s; 'measured': that at which they arrive from the
    /// simulation; or 'none'.
    #[arg(long, value_name = "RATE", default_value = "measured", value_parser = parse_promise)]
    promise: Promise,
    /// Share of the time windows in which the promised rate is to be there, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = parse_percent)]
    share: f64,
    /// End with the simulation, or if it cannot be reached.
    #[arg(long)]
    once: bool,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: attach::Place,
}

/// Promise that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    Nothing,
    Measured,
    Rate(Rate),
}

fn parse_address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0)) {
        true => Ok(text.to_owned()),
        false => Err("give HOST:PORT, such as 127.0.0.1:8888".to_owned()),
    }
}

fn parse_promise(text: &str) -> Result<Promise, String> {
    match text {
        "none" => Ok(Promise::Nothing),
        "measured" => Ok(Promise::Measured),
        rate => match rate.parse::<Rate>() {
            Ok(rate) => Ok(Promise::Rate(rate)),
            Err(error) => Err(format!("{error}; or give 'measured' or 'none'")),
        },
    }
}

impl Arguments {
    fn settings(&self) -> Settings {
        let share = self.share;
        Settings {
            name: self.name.clone(),
            address: self.simulation.clone(),
            is_waiting: self.wait,
            may_steer: self.allow_steer,
            may_kill: self.allow_kill,
            asking: match self.promise {
                Promise::Nothing => Asking::Nothing,
                Promise::Measured => Asking::Measured { share },
                Promise::Rate(rate) => Asking::Fixed { rate, share },
            },
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let source = Source::new(arguments.settings(), reports);
    let stopped = stopped();
    let serving = attach::keep(async |is_first| serve(arguments, &source, is_first).await);
    let simulating = simulate(arguments, &source);
    let reporting = async {
        while let Some(report) = reported.recv().await {
            show(arguments, &report)?;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        failure = serving => Err(failure),
        ended = simulating => ended,
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
    source: &std::sync::Arc<Source>,
    is_first: bool,
) -> Result<Failure, Failure> {
    let client = (arguments.place.attach("anabranch imd source").await).map_err(attach::failure)?;
    let services = source.register(&client).await.map_err(attach::failure)?;
    if is_first {
        let event =
            json!({"kind": "serving", "name": arguments.name, "simulation": arguments.simulation});
        let words = format!(
            "Serving the simulation at {} as {}.",
            arguments.simulation, arguments.name
        );
        line(arguments.json, &event, &words)?;
    }
    Ok(attach::failure(source.serve(&services).await))
}

/// One session with the simulation after the other.
async fn simulate(arguments: &Arguments, source: &Source) -> Outcome {
    let mut before = String::new();
    loop {
        let words = match source.simulate().await {
            Ok(_) if arguments.once => {
                // Viewers get what is on its way.
                source.idle().await;
                return Ok(());
            }
            Ok(_) => String::new(),
            Err(error) if arguments.once => return Err(failure(error)),
            Err(error) => error.to_string(),
        };
        if words != before && !words.is_empty() {
            note(&format!("{words}; trying again"));
        }
        before = words;
        sleep(PAUSE).await;
    }
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Begun(info) => (
            json!({"kind": "begun", "sections": info.sections.to_string(), "byte_order": info.order}),
            format!("The simulation sends {}.", info.sections),
        ),
        Report::First { atoms } => (
            json!({"kind": "first", "atoms": atoms}),
            match atoms {
                Some(atoms) => format!("The first frame has {atoms} atoms."),
                None => "The first frame is there.".to_owned(),
            },
        ),
        Report::Ended { why, frames } => {
            let why = printable(why, 200);
            (
                json!({"kind": "ended", "why": why, "frames": frames}),
                format!("After {frames} frames: {why}."),
            )
        }
        Report::Left {
            peer,
            sections,
            sent,
            skipped,
        } => (
            json!({"kind": "left", "peer": peer.to_string(), "sections": sections, "sent": sent, "skipped": skipped}),
            format!("{peer} got {sent} frames with {sections}; {skipped} were skipped."),
        ),
        Report::Steered { peer, command } => (
            json!({"kind": "steered", "peer": peer.to_string(), "command": command}),
            format!("{peer} sent a command: {command}."),
        ),
        _ => return Ok(()),
    };
    line(arguments.json, &event, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        assert!(parse_address("localhost:8888").is_ok() && parse_address("[::1]:8888").is_ok());
        for wrong in ["localhost", ":8888", "localhost:0", "localhost:99999", ""] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_promise("none"), Ok(Promise::Nothing));
        assert_eq!(
            parse_promise("20Mbit/s"),
            Ok(Promise::Rate(Rate::from_bps(20_000_000)))
        );
        assert!(parse_promise("much").unwrap_err().contains("measured"));
        assert_eq!(parse_percent("95 %"), Ok(0.95));
        for wrong in ["100", "0.95", "49", "x", "NaN"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
