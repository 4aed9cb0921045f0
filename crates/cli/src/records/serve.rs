//! `anabranch records serve`.

use std::path::PathBuf;

use anabranch::base::text::printable;
use anabranch_records::{
    server::Server,
    shelf::{Found, ShelfError, entry},
};
use serde_json::json;

use crate::{
    attach,
    exit::{Failure, Outcome, note, print_line, stopped},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A set is a directory with a manifest, records.toml or records.json (spec/records.md); DIR is one, or has some. Sets that are added, and \
manifests that are changed, are noticed. `python -m anabranch.records` makes manifests from netCDF, HDF5 and Zarr files.

A peer needs the right use-service in the node's configuration: services = [\"records/1/*\"] for everything, or \
\"records/1/list\" for the names and \"records/1/get/climate*\" for one set; \"records/1/put/*\" to send sets (--accept), \"records/1/copy/*\" \
to have sets sent to other peers of this node.")]
pub(super) struct Arguments {
    /// Directory with sets, or of one.
    #[arg(value_name = "DIR")]
    shelf: PathBuf,
    /// Accept sets of peers with the right, as directories in DIR.
    #[arg(long)]
    accept: bool,
    /// Print a line of JSON when it serves.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: attach::Place,
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    if !arguments.shelf.is_dir() {
        return Err(Failure::file(format!(
            "{} is no directory",
            arguments.shelf.display()
        )));
    }
    let stopped = stopped();
    let serving = attach::keep(async |is_first| serve(arguments, is_first).await);
    tokio::select! {
        failure = serving => Err(failure),
        stopped = stopped => stopped,
    }
}

/// Serves until the connection to the node is over.
async fn serve(arguments: &Arguments, is_first: bool) -> Result<Failure, Failure> {
    let client =
        (arguments.place.attach("anabranch records serve").await).map_err(attach::failure)?;
    let (shelf, accept) = (arguments.shelf.clone(), arguments.accept);
    let opening = tokio::task::spawn_blocking(move || Server::open(client, &shelf, accept));
    let opened = opening.await.map_err(Failure::other)?;
    let (server, found) = opened.map_err(|error| match error {
        ShelfError::Read { .. } => Failure::file(error),
        error => Failure::usage(error),
    })?;
    let service = server.register().await.map_err(attach::failure)?;
    if is_first {
        report(&found, arguments)?;
    }
    Ok(attach::failure(server.serve(&service).await))
}

fn report(found: &Found, arguments: &Arguments) -> Outcome {
    for words in &found.left_out {
        note(&format!("left out: {words}"));
    }
    if arguments.json {
        let sets: Vec<_> = found
            .sets
            .values()
            .map(|source| {
                let entry = entry(source);
                json!({"name": entry.name, "records": entry.records, "components": entry.components})
            })
            .collect();
        return print_line(&json!({"kind": "serving", "sets": sets}).to_string());
    }
    let names: Vec<String> = found.sets.keys().map(|name| printable(name, 80)).collect();
    let place = arguments.shelf.display();
    print_line(&match names.len() {
        0 => format!(
            "Serving {place}, which has no set yet: write a manifest, records.toml, into it or a directory in it."
        ),
        1 => format!("Serving the set {} of {place}.", names[0]),
        count => format!("Serving {count} sets of {place}: {}.", names.join(", ")),
    })
}
