//! `anabranch overlay`, and the use of an overlay by `anabranch send`.

pub(crate) mod follow;
mod graph;
pub(crate) mod table;

use anabranch::control::Request;

use crate::{
    control,
    exit::{Outcome, print_line},
    show::{self, Subject},
};

#[derive(Debug, clap::Args)]
#[group(id = "overlay")]
pub(crate) struct Arguments {
    #[command(flatten)]
    show: show::Arguments,
    /// Print a graph for Graphviz: `anabranch overlay --dot | dot -Tsvg`.
    #[arg(long, conflicts_with_all = ["json", "watch", "wide"])]
    dot: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    if !arguments.dot {
        return show::run(Subject::Overlay, &arguments.show).await;
    }
    let answer = arguments.show.node().ask(&Request::Overlay {}).await?;
    for line in graph::lines(control::rows(&answer)) {
        print_line(&line)?;
    }
    Ok(())
}
