//! Objectives of a running node: what is in force, what comes, what goes.

use anabranch_base::{SessionId, text::printable};
use anabranch_net::Host;
use anabranch_session::{LABEL_BYTES_MAX, ObjectiveError, ObjectiveId, objective::TALLY_WINDOW};
use serde_json::{Value, json};

use super::promises::{number, sessions};

/// One row for each objective in force, with its tally of the last minute; null for rates, which have none.
pub(super) fn list(host: &Host, session: Option<&str>) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        let id = report.stats.session;
        let tallies = host.tallies(id);
        for entry in host.objectives(id) {
            let mut all = tallies.iter();
            let tally = all.find(|(objective, _)| *objective == entry.id);
            let tally = tally.map(|(_, tally)| tally);
            let faults: Option<Vec<_>> = tally.map(|tally| tally.faults.words().collect());
            rows.push(json!({
                "kind": entry.kind.name(),
                "session": id.to_string(),
                "peer": report.stats.peer.to_string(),
                "objective": entry.id.0,
                "name": entry.name,
                "text": entry.text,
                "policy": report.stats.policy.to_string(),
                "window_s": tally.map(|_| TALLY_WINDOW.as_secs()),
                "contexts": tally.map(|tally| tally.contexts),
                "contexts_met": tally.map(|tally| tally.contexts_met),
                "utility": tally.map(|tally| tally.utility),
                "contexts_faulty": tally.map(|tally| tally.contexts_faulty),
                "faults": faults.map(|words| words.join("; ")),
            }));
        }
    }
    Ok(rows)
}

/// One row for each name that objectives of a session can refer to.
pub(super) fn provided(host: &Host, session: Option<&str>) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        let id = report.stats.session;
        for item in host.provided(id).items() {
            let Ok(mut row) = serde_json::to_value(item) else {
                continue;
            };
            if let Some(label) = row["name"].as_str() {
                // A peer may have chosen it.
                row["name"] = printable(label, LABEL_BYTES_MAX).into();
            }
            row["session"] = id.to_string().into();
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Applies a text in each session, or in none.
pub(super) fn add(host: &Host, text: &str, session: Option<&str>) -> Result<Vec<Value>, String> {
    let mut added: Vec<(SessionId, ObjectiveId)> = Vec::new();
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        let id = report.stats.session;
        match host.inject_objectives(id, text) {
            Ok(injected) => {
                for objective in injected.ids {
                    added.push((id, objective));
                    rows.push(json!({
                        "kind": "added",
                        "session": id.to_string(),
                        "peer": report.stats.peer.to_string(),
                        "objective": objective.0,
                        "policy": report.stats.policy.to_string(),
                    }));
                }
            }
            // It has ended since.
            Err(ObjectiveError::Stream(_)) => {}
            Err(error) => {
                for (session, objective) in added {
                    // One that has ended since has none.
                    let _ = host.remove_objective(session, objective);
                }
                return Err(match error {
                    ObjectiveError::Text(report) => report.render("objectives"),
                    other => other.to_string(),
                });
            }
        }
    }
    if rows.is_empty() {
        return Err(
            "no session took any of it: the text holds no objectives, or the sessions are over"
                .to_owned(),
        );
    }
    Ok(rows)
}

/// Removes an objective, in each session that has one of this number.
pub(super) fn remove(
    host: &Host,
    objective: &str,
    session: Option<&str>,
) -> Result<Vec<Value>, String> {
    let wrong = || {
        format!(
            "'{objective}' is not an objective; give its number, see `anabranch objective list`"
        )
    };
    let id = ObjectiveId(number(objective, "objective-").map_err(|()| wrong())?);
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        let session = report.stats.session;
        if host.remove_objective(session, id) == Ok(true) {
            rows.push(json!({
                "kind": "removed",
                "session": session.to_string(),
                "objective": id.0,
            }));
        }
    }
    if rows.is_empty() {
        return Err(format!(
            "no objective {} is in force; see `anabranch objective list`",
            id.0
        ));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch_net::{HostConfig, Session, Stream};
    use anabranch_session::{AllowList, FieldValue, Policy, SecretKey, StreamSpec};

    use super::*;
    use crate::control::{Control, Request, ask};

    /// A node with two sockets, so that two of them have several channels.
    fn node(own: u8, other: u8) -> Host {
        let [own, other] = [own, other].map(|seed| SecretKey::from_seed([seed; 32]));
        let binds = ["127.0.0.1:0", "127.0.0.2:0"]
            .map(|text| text.parse::<std::net::SocketAddr>().unwrap());
        let mut config = HostConfig::new(own, AllowList::of([other.node_id()])).bind(binds);
        config.engine.policy = Policy::Assign;
        Host::start(config).unwrap()
    }

    /// Bytes that went by each channel while a hundred messages went from one end to the other.
    async fn carried(session: &Session, stream: &Stream, peer: &Stream) -> Vec<(u64, u64)> {
        let sent = || -> Vec<(u64, u64)> {
            let channels = session.channels();
            let of = channels
                .iter()
                .map(|report| (report.channel.0, report.payload_sent_bytes));
            of.collect()
        };
        let before = sent();
        for _ in 0..100 {
            stream.send(vec![7; 1_000].into()).await.unwrap();
            peer.recv().await.unwrap().expect("a message");
        }
        let after = sent();
        (after.iter())
            .map(|&(channel, bytes)| {
                let earlier = before.iter().find(|(id, _)| *id == channel);
                (channel, bytes - earlier.map_or(0, |(_, bytes)| *bytes))
            })
            .collect()
    }

    #[tokio::test]
    async fn an_objective_empties_a_channel_of_a_running_node() {
        let (a, b) = (node(31, 32), node(32, 31));
        let (session, incoming) = tokio::join!(
            async { a.connect(b.node_id(), &b.addresses()).await.unwrap() },
            async { b.accept().await.unwrap() }
        );
        while session.channels().len() < 2 || session.stats().unwrap().channels_active < 2 {
            session.next_event().await.unwrap();
        }
        let stream = session.open_stream(StreamSpec::messages("m")).unwrap();
        stream.send(vec![7; 10].into()).await.unwrap();
        let peer = incoming.accept_stream().await.unwrap();
        peer.recv().await.unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let control = Control::open(&path).await.unwrap();
        let asking = async {
            let used = carried(&session, &stream, &peer).await;
            let (busiest, _) = used.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
            let text = format!(
                "hose 2\nobjective away {{ context {{ adu:a {{ stream_id == {} }} }} goal {{ a::channel::id == {busiest} }}
                 utility {{ a {{ -1 }} }} }}",
                stream.id().0
            );
            let add = |text: String| Request::ObjectiveAdd {
                text,
                session: None,
            };
            for (text, words) in [("objective {", "1:"), ("hose 2", "no objectives")] {
                let error = ask(&path, &add(text.to_owned())).await.unwrap_err();
                assert!(error.to_string().contains(words), "{error}");
            }
            let added = ask(&path, &add(text)).await.unwrap();
            let number = added["rows"][0]["objective"].as_u64().unwrap();
            let listed = ask(&path, &Request::Objectives { session: None })
                .await
                .unwrap();
            assert_eq!(listed["rows"][0]["name"], "away");
            assert_eq!(listed["rows"][0]["kind"], "single");

            let fields = [("grade", FieldValue::Number(2.0))];
            let sent = stream.try_send_with_fields("x".into(), 0, &fields);
            sent.unwrap();
            peer.recv().await.unwrap().expect("a message");
            let provided = Request::Provided { session: None };
            let provided = ask(&path, &provided).await.unwrap();
            for row in [
                json!({"kind": "label", "name": "m", "session": "session-0"}),
                json!({"kind": "field", "name": "grade", "type": "numeric", "session": "session-0"}),
                json!({"kind": "technology", "name": "cellular", "session": "session-0"}),
            ] {
                assert!(
                    provided["rows"].as_array().unwrap().contains(&row),
                    "{provided}"
                );
            }

            let used = carried(&session, &stream, &peer).await;
            let of = |used: &[(u64, u64)], is_busiest: bool| -> u64 {
                let those = used.iter().filter(|(id, _)| (*id == busiest) == is_busiest);
                those.map(|(_, bytes)| bytes).sum()
            };
            assert_eq!(of(&used, true), 0, "{used:?}");
            assert!(of(&used, false) >= 100_000, "{used:?}");

            let listed = ask(&path, &Request::Objectives { session: None });
            let row = listed.await.unwrap()["rows"][0].clone();
            // The goal, to be on that channel, is met by no message that was sent.
            assert!(row["contexts"].as_u64().unwrap() >= 100, "{row}");
            assert_eq!(
                (&row["contexts_met"], &row["utility"], &row["faults"]),
                (&0.into(), &0.0.into(), &"".into())
            );
            assert_eq!(row["window_s"], 60);

            let remove = Request::ObjectiveRemove {
                objective: number.to_string(),
                session: None,
            };
            ask(&path, &remove).await.unwrap();
            let error = ask(&path, &remove).await.unwrap_err();
            assert!(error.to_string().contains("objective list"), "{error}");
            assert_eq!(session.objectives(), []);
        };
        let limit = tokio::time::sleep(Duration::from_secs(60));
        tokio::select! {
            () = asking => {}
            () = control.serve(&a, None) => {}
            () = limit => panic!("it takes too long"),
        }
    }
}
