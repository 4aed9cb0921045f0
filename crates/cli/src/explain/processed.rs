//! Streams that a node processes on the way: both legs end there, which `explain` says, with what it makes of them.

use std::time::Duration;

use anabranch::base::text::printable;
use anabranch_processing::{
    status,
    wire::{Label, Notice, Purpose, message::SubscriberState},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::attach::Place;

/// Time for the processing node to answer.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// Characters of a pipeline or a reason.
const TEXT_CHARS: usize = 500;

/// Adds a row for each stream that is processed on the way, after that of its promise: what the processing node says of it, if it lets this node
/// ask for its state.
pub(super) async fn add(mut answer: Value, local: &Place) -> Value {
    let Some(rows) = answer["rows"].as_array_mut() else {
        return answer;
    };
    let mut at = 0;
    while at < rows.len() {
        if let Some(mut row) = of_stream(&rows[at]) {
            if row["role"] != "processing"
                && let Some(state) = ask(local, &row).await
            {
                describe(&mut row, &state);
            }
            at += 1;
            rows.insert(at, row);
        }
        at += 1;
    }
    answer
}

/// The row of a stream that is processed on the way.
fn of_stream(row: &Value) -> Option<Value> {
    let label: Label = row["label"].as_str()?.parse().ok()?;
    let peer = row["peer"].as_str()?;
    let role = match (row["is_opened_here"].as_bool()?, label.purpose) {
        (false, _) => "processing",
        (true, Purpose::Offer) => "source",
        (true, Purpose::Subscribe) => "subscriber",
    };
    Some(json!({"kind": "processed", "name": label.name, "role": role, "peer": peer}))
}

/// State of the processing node, which is the peer; `None`: it does not say, or nothing is known here of how to ask it.
async fn ask(local: &Place, row: &Value) -> Option<(String, Vec<Notice>)> {
    let asking = async {
        let client = local.attach("anabranch explain").await.ok()?;
        let session = client.connect(row["peer"].as_str()?).await.ok()?;
        let state = status::ask(&session).await.ok()?;
        Some((client.node().to_string(), state))
    };
    timeout(ANSWER_TIME, asking).await.ok()?
}

/// Adds what a processing node says of a stream: its source, why it is there, and the pipelines of this node, or of all subscribers for the source.
fn describe(row: &mut Value, (own, state): &(String, Vec<Notice>)) {
    let is_source = row["role"] == "source";
    // Subscribers follow their source.
    let mut is_meant = false;
    let mut subscribers = Vec::new();
    for notice in state {
        match notice {
            Notice::Source(source) => {
                is_meant = row["name"] == source.name;
                if is_meant {
                    row["source"] = json!(source.node);
                    let chosen = source.chosen.as_ref();
                    row["chosen"] = json!(chosen.map(|why| printable(why, TEXT_CHARS)));
                }
            }
            Notice::Subscriber(subscriber)
                if is_meant && (is_source || subscriber.node == *own) =>
            {
                subscribers.push(of_subscriber(subscriber));
            }
            _ => {}
        }
    }
    row["subscribers"] = json!(subscribers);
}

fn of_subscriber(subscriber: &SubscriberState) -> Value {
    json!({
        "node": subscriber.node,
        "pipeline": printable(&subscriber.pipeline, TEXT_CHARS),
        "sent": subscriber.sent,
        "queued": subscriber.queued,
        "lost": subscriber.lost,
        "failed": subscriber.failed,
    })
}

/// The row in words.
pub(super) fn lines(row: &Value) -> Vec<String> {
    let text = |key: &str| row[key].as_str().unwrap_or("-");
    let (name, peer) = (text("name"), text("peer"));
    let mut lines = vec![match text("role") {
        "processing" => {
            format!("  processed here: this node reads '{name}', of which {peer} has the other leg")
        }
        "source" => format!("  processed on the way: {peer} reads '{name}', and derives from it"),
        _ => format!("  processed on the way: {peer} derives this from '{name}', which it reads"),
    }];
    if let (Some(source), "subscriber") = (row["source"].as_str(), text("role")) {
        lines.push(format!("    from {source}"));
    }
    if let Some(chosen) = row["chosen"].as_str() {
        lines.push(format!("    there because {chosen}"));
    }
    match row["subscribers"].as_array() {
        Some(subscribers) => lines.extend(subscribers.iter().map(of_row)),
        None if text("role") == "processing" => {}
        None => lines.push(format!(
            "    it does not say more; 'anabranch process status --at {peer}' needs the right use-service there, services = [\"process/1/status\"]"
        )),
    }
    lines
}

fn of_row(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("-");
    let pipeline = match text("pipeline") {
        "" => "as it is",
        pipeline => pipeline,
    };
    let mut line = format!(
        "    for {}: {pipeline}; {} ADUs sent",
        text("node"),
        row["sent"]
    );
    for (key, words) in [("queued", "wait"), ("lost", "lost"), ("failed", "failed")] {
        if row[key].as_u64().is_some_and(|count| count > 0) {
            line += &format!(", {} {words}", row[key]);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(label: &str, is_opened_here: bool) -> Value {
        json!({"kind": "promise", "label": label, "peer": "hub", "is_opened_here": is_opened_here})
    }

    #[test]
    fn streams_of_processing_are_known_by_their_labels() {
        let role = |label, is_opened_here| {
            let row = of_stream(&stream(label, is_opened_here))?;
            Some((row["role"].clone(), row["name"].clone()))
        };
        let frames = || json!("frames");
        let offer = "process/1/offer/frames/7";
        assert_eq!(role(offer, true), Some((json!("source"), frames())));
        let subscribe = "process/1/subscribe/frames/0";
        assert_eq!(role(subscribe, true), Some((json!("subscriber"), frames())));
        assert_eq!(
            role(subscribe, false),
            Some((json!("processing"), frames()))
        );
        assert_eq!(role("video", true), None);
        assert_eq!(
            of_stream(&json!({"kind": "path", "channel": "channel-0"})),
            None
        );
    }

    #[test]
    fn a_subscriber_sees_its_own_pipeline_and_a_source_all_of_its_stream() {
        let source = |name: &str| {
            let state = json!({"is": "source", "name": name, "node": "lab", "is_present": true, "is_reliable": true, "adus": 9, "bytes": 9,
                "kept": 0, "busy_us": 1, "work": 1, "chosen": "it is near"});
            serde_json::from_value::<Notice>(state).unwrap()
        };
        let subscriber = |node: &str, pipeline: &str| {
            let state = json!({"is": "subscriber", "node": node, "change": 0, "pipeline": pipeline, "is_reliable": true, "sent": 4,
                "sent_bytes": 40, "queued": 2, "lost": 0, "failed": 0, "why": "", "promised_bps": null});
            serde_json::from_value::<Notice>(state).unwrap()
        };
        let state = vec![
            source("other"),
            subscriber("desk", "every 9"),
            source("frames"),
            subscriber("desk", "every 5"),
            subscriber("wall", ""),
        ];
        let mut row = of_stream(&stream("process/1/subscribe/frames/3", true)).unwrap();
        assert!(lines(&row).last().unwrap().contains("process/1/status"));
        describe(&mut row, &("desk".to_owned(), state.clone()));
        assert_eq!(
            lines(&row),
            [
                "  processed on the way: hub derives this from 'frames', which it reads",
                "    from lab",
                "    there because it is near",
                "    for desk: every 5; 4 ADUs sent, 2 wait",
            ]
        );
        let mut row = of_stream(&stream("process/1/offer/frames/3", true)).unwrap();
        describe(&mut row, &("lab".to_owned(), state));
        let all = lines(&row);
        assert_eq!(
            all[0],
            "  processed on the way: hub reads 'frames', and derives from it"
        );
        assert_eq!(
            all[2..],
            [
                "    for desk: every 5; 4 ADUs sent, 2 wait",
                "    for wall: as it is; 4 ADUs sent, 2 wait"
            ]
        );
        let here = of_stream(&stream("process/1/offer/frames/3", false)).unwrap();
        assert_eq!(
            lines(&here),
            ["  processed here: this node reads 'frames', of which hub has the other leg"]
        );
    }
}
