//! `anabranch doctor`: what would go wrong, and the commands that mend it.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the command, and its output |
//! | `gather`, `clock` | facts about this machine and its node |
//! | `facts` | their types |
//! | `node`, `network`, `firewall`, `system` | checks: pure functions of the facts |
//! | `finding` | result of a check |

mod clock;
mod facts;
mod finding;
mod firewall;
mod gather;
mod network;
mod node;
mod system;

use std::{path::PathBuf, time::Duration};

use anabranch::control::Request;

use self::{
    facts::{Facts, Probe},
    finding::{Finding, State},
};
use crate::{
    control,
    exit::{Failure, Outcome, print_line},
};

/// Time for replies to a ping, and for the session with the peer.
const REPLIES_MS: u64 = 2_000;
const PROBE: Duration = Duration::from_secs(6);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is sent to any network unless --peer names a peer. Exit code 1 if there is a problem; warnings alone give 0.")]
pub(crate) struct Arguments {
    /// Configuration file [default: that of the node of this user].
    #[arg(short, long, value_name = "FILE", env = "ANABRANCH_CONFIG")]
    config: Option<PathBuf>,
    /// Ping this peer of the running node on every path; may be repeated.
    #[arg(long, value_name = "NAME")]
    peer: Vec<String>,
    #[command(flatten)]
    asking: control::Asking,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let socket = match (arguments.asking.is_named(), &arguments.config) {
        // That of the file.
        (false, Some(_)) => None,
        _ => arguments.asking.place().await.ok(),
    };
    let mut facts = gather::facts(arguments.config.as_deref(), socket.clone()).await;
    for peer in &arguments.peer {
        facts.probes.push(probe(peer, &facts, &arguments).await);
    }
    facts.system.clock.looks_ms = clock::look_again(facts.system.clock.looks_ms);
    let findings = examine(&facts);
    for finding in &findings {
        if arguments.asking.json {
            print_line(&finding.row().to_string())?;
            continue;
        }
        for line in finding.lines() {
            print_line(&line)?;
        }
    }
    let problems = findings
        .iter()
        .filter(|own| own.state == State::Problem)
        .count();
    match problems {
        0 => Ok(()),
        1 => Err(Failure::other("1 problem")),
        count => Err(Failure::other(format!("{count} problems"))),
    }
}

/// All findings, the worst first.
fn examine(facts: &Facts) -> Vec<Finding> {
    let mut all = node::check(facts);
    all.extend(network::check(facts));
    all.extend(firewall::check(facts));
    all.extend(system::check(facts));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.state));
    all
}

/// Pings a peer from the running node.
async fn probe(peer: &str, facts: &Facts, arguments: &Arguments) -> Probe {
    let request = Request::Ping {
        peer: peer.to_owned(),
        within_ms: Some(REPLIES_MS),
    };
    let asking = async {
        if facts.node.is_none() {
            return Err("no node runs that could ask it".to_owned());
        }
        let answer = match &facts.socket {
            Some(socket) => control::ask_at(socket, &request).await,
            None => arguments.asking.ask(&request).await,
        };
        let answer = answer.map_err(|failure| failure.message().to_owned())?;
        let rows = control::rows(&answer);
        let replies = rows.iter().filter(|row| row["round_trip_ms"].is_f64());
        Ok((rows.len(), replies.count()))
    };
    let outcome = tokio::time::timeout(PROBE, asking).await;
    Probe {
        peer: peer.to_owned(),
        outcome: outcome.unwrap_or_else(|_| Err("no answer in time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_first_and_every_fault_has_a_command() {
        let all = examine(&Facts::default());
        let states: Vec<State> = all.iter().map(|own| own.state).collect();
        assert!(states.is_sorted_by(|a, b| a >= b), "{states:?}");
        assert_eq!(all[0].state, State::Problem);
        let lines = all.iter().flat_map(Finding::lines);
        assert!(
            lines
                .into_iter()
                .any(|line| line.ends_with("→ anabranch up"))
        );
        assert_eq!(all[0].row()["state"], "problem");
    }
}
