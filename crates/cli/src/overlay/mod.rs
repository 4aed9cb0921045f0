//! `anabranch overlay`, and the use of an overlay by `anabranch send`.

pub(crate) mod follow;
mod graph;
pub(crate) mod table;

use anabranch::control::Request;

use crate::{
    control,
    exit::{Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    control: control::Asking,
    /// Print a graph for Graphviz: `anabranch overlay --dot | dot -Tsvg`.
    #[arg(long, conflicts_with = "json")]
    dot: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let answer = arguments.control.ask(&Request::Overlay {}).await?;
    if arguments.control.json {
        return print_line(&answer.to_string());
    }
    let rows = control::rows(&answer);
    let lines = if arguments.dot {
        graph::lines(rows)
    } else {
        table::lines(rows)
    };
    for line in lines {
        print_line(&line)?;
    }
    Ok(())
}
