//! `anabranch ping`: the round trip of every path to a peer, measured again and again.

mod statistics;

use std::time::Duration;

use anabranch::{
    base::{duration, text::printable},
    control::Request,
};
use serde_json::{Value, json};
use tokio::time;

use self::statistics::Statistics;
use crate::{
    attach, control,
    direct::{self, Direct},
    exit::{Failure, Outcome, print_line, stopped},
    show::{millis, path},
};

/// Shortest interval between two rounds.
const EVERY_MIN: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A small packet is sent on every path; a line shows the time until the peer's node acknowledged it, without the time for which that node \
waited before it did, and so the delay of the network and of both nodes. A path whose packet was not acknowledged in time has no reply. At \
the end, each path has a line with its losses and times.")]
pub(crate) struct Arguments {
    /// A peer of the running node by name or id; or without a node, ID@HOST:PORT or the line that `anabranch node` printed.
    peer: String,
    /// Number of rounds [default: until Ctrl-C].
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time from one round to the next, 100 ms at least.
    #[arg(short, long, value_name = "DURATION", default_value = "1 s", value_parser = parse_interval)]
    interval: Duration,
    /// Time to wait for replies, 10 s at most.
    #[arg(long, value_name = "DURATION", default_value = "2 s", value_parser = parse_within)]
    within: Duration,
    /// Print lines of JSON (docs/operations.md, Round trips).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: control::Node,
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text).map_err(|error| error.to_string())?;
    match interval < EVERY_MIN {
        true => Err("give 100 ms or more".to_owned()),
        false => Ok(interval),
    }
}

fn parse_within(text: &str) -> Result<Duration, String> {
    let within = duration::parse(text).map_err(|error| error.to_string())?;
    match (1..=10_000).contains(&within.as_millis()) {
        true => Ok(within),
        false => Err("give 1 ms to 10 s".to_owned()),
    }
}

/// A reply, or its absence, on one path.
#[derive(Clone, Debug, PartialEq)]
struct Reply {
    /// Both ends of the path.
    path: String,
    interface: Option<String>,
    remote: String,
    round_trip_ms: Option<f64>,
}

impl Reply {
    fn of(row: &Value) -> Self {
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        Self {
            path: path(row),
            interface: text("interface"),
            remote: text("remote").unwrap_or_default(),
            round_trip_ms: row["round_trip_ms"].as_f64(),
        }
    }
}

/// Node from which the peer is pinged.
enum Origin {
    /// The running one, with a handle that keeps the session with the peer open.
    Node {
        socket: std::path::PathBuf,
        _session: Option<anabranch::local::client::Session>,
    },
    /// One of this command.
    Own(Box<Direct>),
}

impl Origin {
    async fn open(arguments: &Arguments) -> Result<Self, Failure> {
        let peer = arguments.peer.trim();
        if direct::is_meant_by(peer) {
            let own = Direct::open(peer, &arguments.direct).await?;
            return Ok(Self::Own(Box::new(own)));
        }
        let socket = arguments.node.place().await?;
        let client = match arguments.node.is_named() {
            true => None,
            false => arguments.place.attach("anabranch ping").await.ok(),
        };
        // It tells an unknown peer from one that cannot be reached, and keeps the session.
        let session = match client {
            Some(client) => Some(client.connect(peer).await.map_err(attach::failure)?),
            None => None,
        };
        Ok(Self::Node {
            socket,
            _session: session,
        })
    }

    async fn ping(&self, arguments: &Arguments) -> Result<Vec<Reply>, Failure> {
        let socket = match self {
            Self::Own(own) => return of_own(own, arguments.within).await,
            Self::Node { socket, .. } => socket,
        };
        let request = Request::Ping {
            peer: arguments.peer.trim().to_owned(),
            within_ms: Some(arguments.within.as_millis() as u64),
        };
        let answer = control::ask_at(socket, &request).await?;
        Ok(control::rows(&answer).iter().map(Reply::of).collect())
    }

    async fn close(self) {
        if let Self::Own(own) = self {
            own.close().await;
        }
    }
}

/// Round trips of a session of this command.
async fn of_own(own: &Direct, within: Duration) -> Result<Vec<Reply>, Failure> {
    let answers = own.session().ping(within).await;
    let answers = answers.map_err(Failure::unreachable)?;
    let channels = own.session().channels();
    let reply = |(channel, round_trip): &(_, Option<Duration>)| {
        let report = channels.iter().find(|report| report.channel == *channel)?;
        let row = json!({
            "interface": report.interface.as_deref(),
            "remote": report.remote.to_string(),
            "round_trip_ms": round_trip.map(|time| time.as_secs_f64() * 1e3),
        });
        Some(Reply::of(&row))
    };
    Ok(answers.iter().filter_map(reply).collect())
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let stopped = stopped();
    tokio::pin!(stopped);
    let origin = tokio::select! {
        origin = Origin::open(&arguments) => origin?,
        outcome = &mut stopped => return outcome,
    };
    let mut statistics = Statistics::default();
    let outcome = tokio::select! {
        outcome = rounds(&origin, &arguments, &mut statistics) => outcome,
        outcome = &mut stopped => outcome,
    };
    origin.close().await;
    outcome?;
    statistics.print(arguments.json)?;
    if statistics.has_replies() {
        return Ok(());
    }
    Err(Failure::unreachable(format!(
        "no reply from {}",
        printable(arguments.peer.trim(), 100)
    )))
}

async fn rounds(origin: &Origin, arguments: &Arguments, statistics: &mut Statistics) -> Outcome {
    let rounds = arguments.count.unwrap_or(u64::MAX);
    let mut next = time::interval(arguments.interval);
    next.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    for round in 1..=rounds {
        next.tick().await;
        let replies = origin.ping(arguments).await?;
        if replies.is_empty() && !arguments.json {
            print_line(&format!("{round}  no path to the peer"))?;
        }
        let width = replies.iter().map(|reply| reply.path.chars().count()).max();
        for reply in replies {
            print_line(&match arguments.json {
                true => event(round, &reply).to_string(),
                false => line(round, &reply, width.unwrap_or_default()),
            })?;
            statistics.add(&reply);
        }
    }
    Ok(())
}

fn line(round: u64, reply: &Reply, width: usize) -> String {
    let time = match reply.round_trip_ms {
        Some(ms) => millis(ms),
        None => "no reply".to_owned(),
    };
    let path = printable(&reply.path, usize::MAX);
    format!("{round}  {path:<width$}  {time}")
}

fn event(round: u64, reply: &Reply) -> Value {
    json!({
        "kind": "reply",
        "round": round,
        "interface": reply.interface,
        "remote": reply.remote,
        "round_trip_ms": reply.round_trip_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_a_line() {
        let row =
            json!({"interface": "wlan0", "remote": "192.0.2.7:4433", "round_trip_ms": 31.246});
        let reply = Reply::of(&row);
        assert_eq!(line(3, &reply, 22), "3  wlan0 → 192.0.2.7:4433  31.2 ms");
        let lost = Reply {
            round_trip_ms: None,
            ..reply
        };
        assert_eq!(line(4, &lost, 22), "4  wlan0 → 192.0.2.7:4433  no reply");
        assert_eq!(event(4, &lost)["round_trip_ms"], Value::Null);
    }

    #[test]
    fn intervals_and_times_have_bounds() {
        assert!(parse_interval("10 ms").is_err() && parse_interval("200 ms").is_ok());
        assert!(parse_within("11 s").is_err() && parse_within("10 s").is_ok());
    }
}
