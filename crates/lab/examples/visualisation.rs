//! A visualisation server, live: all atoms, the bonds in view and those out of view, 25 frames a second, over two
//! emulated paths between two nodes on this machine.
//!
//! `cargo run --release -p anabranch-lab --example visualisation -- --help`

mod live;

use std::{error::Error, path::PathBuf, process::ExitCode};

use anabranch_base::Rate;
use anabranch_lab::kit::sources::{
    Visualisation, view::View, visualisation::PUBLISHED, xyz::Trajectory,
};
use clap::Parser;

/// The server of a molecular-dynamics viewer, live over two emulated paths of this machine.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    run: live::Run,
    /// Send the frames of this trajectory (XYZ, several frames), instead of made ones at the rates of the paper.
    #[arg(long, value_name = "FILE")]
    xyz: Option<PathBuf>,
    /// Of a trajectory: the share of its width that the observer sees.
    #[arg(long, default_value_t = 0.5)]
    seen: f32,
    /// Of made frames: factor on 3.249, 22.148 and 70.34 Mbit/s, and on the rates of the usual paths.
    #[arg(long, default_value_t = 0.25)]
    scale: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    live::exit(show().await)
}

async fn show() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    if !(arguments.scale > 0.0 && arguments.scale <= 10.0) {
        return Err("--scale: give a number above 0, at most 10".into());
    }
    if !(arguments.seen > 0.0 && arguments.seen <= 1.0) {
        return Err("--seen: give a share above 0, at most 1".into());
    }
    let source = match &arguments.xyz {
        Some(file) => {
            let name = file.display().to_string();
            let text =
                std::fs::read_to_string(file).map_err(|e| format!("cannot read {name}: {e}"))?;
            let trajectory = Trajectory::parse(&name, &text)?;
            live::say(&format!("{name}: {trajectory}"))?;
            let view = View::of_middle(trajectory.extent(), arguments.seen);
            Visualisation::of_trajectory(&trajectory, &view)
        }
        None => {
            let scaled =
                |rate: Rate| Rate::from_bps((rate.as_bps() as f64 * arguments.scale) as u64);
            Visualisation::generated(PUBLISHED.map(scaled))
        }
    };
    // What the two paths of the paper had for it: one steady, one that moves.
    let mbps = |rate: f64| rate * arguments.scale;
    let paths = [
        format!(
            "steady: rate={:.3} Mbit/s, delay=12 ms, queue=50 ms",
            mbps(38.6)
        ),
        format!(
            "noisy: rate={:.3} Mbit/s +- 43 % every 1 s, delay=12 ms, queue=50 ms",
            mbps(45.8)
        ),
    ];
    live::run(&arguments.run, &paths, Box::new(source)).await
}
