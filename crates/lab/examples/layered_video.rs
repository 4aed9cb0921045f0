//! Layered video, live: a base layer that must arrive and an enhancement layer that may, over two emulated paths
//! between two nodes on this machine.
//!
//! `cargo run --release -p anabranch-lab --example layered_video -- --help`

mod live;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anabranch_base::Seed;
use anabranch_lab::kit::sources::{LayeredVideo, frames::FrameSizes};
use clap::Parser;

/// Layered video like MPEG-4 FGS, live over two emulated paths of this machine.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    run: live::Run,
    /// Sizes of the base layer's frames: CSV with a header naming bytes and pts_s. Without it, a made film.
    #[arg(long, value_name = "FILE", requires = "enhancement")]
    base: Option<PathBuf>,
    /// Sizes of the enhancement layer's frames, likewise.
    #[arg(long, value_name = "FILE", requires = "base")]
    enhancement: Option<PathBuf>,
}

fn read(file: &Path) -> Result<FrameSizes, Box<dyn Error>> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {name}: {e}"))?;
    Ok(FrameSizes::parse(&name, &text)?)
}

#[tokio::main]
async fn main() -> ExitCode {
    live::exit(show().await)
}

async fn show() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let film = match (&arguments.base, &arguments.enhancement) {
        (Some(base), Some(enhancement)) => {
            LayeredVideo::published(&read(base)?, &read(enhancement)?)
        }
        _ => LayeredVideo::generated(Seed(arguments.run.seed)),
    };
    let paths = [
        "steady: rate=4 Mbit/s, delay=12 ms, queue=50 ms".to_owned(),
        "noisy: rate=10 Mbit/s +- 70 % every 1 s, delay=12 ms, queue=50 ms".to_owned(),
    ];
    live::run(&arguments.run, &paths, Box::new(film)).await
}
