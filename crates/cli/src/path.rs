//! `anabranch path`: takes paths of a running node out of use, and in again.

use anabranch::control::Request;
use serde_json::Value;

use crate::{control, exit::Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Take a path out of use: it is kept alive and carries no data of streams.
    #[command(after_help = "\
Applies to what this node sends; the peer decides about its own. Promises are placed on the other paths, or their owners are warned. \
It holds for later channels of the same link, and as long as the session. The last path of a session needs --force: its data waits then.")]
    Out {
        #[command(flatten)]
        path: Path,
        /// Time after which it is used again, such as `10 min` [default: until `anabranch path in`].
        #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
        for_ms: Option<u64>,
        /// Even if it is the last path of its session.
        #[arg(long)]
        force: bool,
    },
    /// Use a path again.
    In {
        #[command(flatten)]
        path: Path,
    },
}

#[derive(Debug, clap::Args)]
struct Path {
    /// Path: its interface, such as wlan0, if it has no other one, or its channel, such as channel-2; see `anabranch paths --wide`.
    #[arg(value_name = "PATH")]
    channel: String,
    /// Session of the channel, such as session-0 [default: the one that has it].
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    control: control::Asking,
}

fn milliseconds(text: &str) -> Result<u64, String> {
    let time = anabranch::spec::time_of(text)?;
    Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let (path, request) = match arguments.what {
        What::Out {
            path,
            for_ms,
            force,
        } => {
            let request = Request::PathOut {
                channel: path.channel.clone(),
                session: path.session.clone(),
                for_ms,
                force,
            };
            (path, request)
        }
        What::In { path } => {
            let request = Request::PathIn {
                channel: path.channel.clone(),
                session: path.session.clone(),
            };
            (path, request)
        }
    };
    let words = |rows: &[Value]| rows.iter().map(line).collect();
    control::run(&request, &path.control, words).await
}

fn line(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let name = format!("{} of {}", text("channel"), text("session"));
    match (text("kind"), row["for_ms"].as_u64()) {
        ("path_out", None) => format!("{name}: out of use, until `anabranch path in`"),
        ("path_out", Some(ms)) => format!("{name}: out of use for {} s", ms as f64 / 1e3),
        _ => format!("{name}: in use"),
    }
}
