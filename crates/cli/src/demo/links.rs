//! Links of the demonstrations: three recorded paths, one of which is cut.

use std::{net::SocketAddr, path::Path as FilePath};

use anabranch::{
    base::Seed,
    net::emulate::{Emulator, PathSpec},
};
use anabranch_link::describe::parse_both;

use crate::{emulate::load_trace, exit::Failure};

/// Paths: name, trace of the rate in both directions, and the other properties of the link.
pub(super) const PATHS: [(&str, &str, &str); 3] = [
    (
        "3g",
        "hsdpa-bus.csv",
        "delay=45 ms, queue=300 ms, jitter=4 ms",
    ),
    (
        "satellite",
        "starlink-up.csv",
        "delay=30 ms, queue=120 ms, jitter=3 ms, loss=0.2 %",
    ),
    ("fixed", "fixed.csv", "delay=12 ms, queue=150 ms"),
];
/// Index of the path that is cut.
pub(super) const CUT: usize = 1;

/// Starts the paths to a target, with the traces of a folder.
///
/// # Errors
/// A trace is missing, or no socket can be opened.
pub(super) fn emulate(
    data: &FilePath,
    target: SocketAddr,
    seed: Seed,
) -> Result<Emulator, Failure> {
    let mut specs = Vec::new();
    for (name, trace, rest) in PATHS {
        let text = format!("rate=trace \"{}\", {rest}", data.join(trace).display());
        let links = parse_both(&text, &mut load_trace).map_err(|error| {
            Failure::file(format!(
                "path {name}: {error}; run this in the repository, or give its data directory with --data"
            ))
        })?;
        specs.push(PathSpec {
            name: name.to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            target,
            links,
        });
    }
    Emulator::start(specs, seed).map_err(Failure::other)
}
