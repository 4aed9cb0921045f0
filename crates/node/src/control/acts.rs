//! Changes that the node's user makes to paths and streams: paths in use, parameters and guarantees of open streams.

use std::time::Duration;

use anabranch_base::{ChannelId, Rate, SessionId, StreamId};
use anabranch_net::{Host, SessionReport};
use anabranch_session::{
    Explanation, PathError, StreamError, StreamParameters, StreamSpec, StreamStats,
};
use serde_json::{Value, json};

use super::{
    promises::{add_to_stream, number, refusal_fields, sessions},
    request::StreamChanges,
};
use crate::{
    config::{parsed, refused},
    spec::{GuaranteeText, words},
};

/// Longest time for which a path is taken out; longer ones have no end.
const OUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The session that has a channel, and the channel.
fn channel_of(
    host: &Host,
    channel: &str,
    session: Option<&str>,
) -> Result<(SessionId, ChannelId), String> {
    let id = number(channel, "channel-").map(ChannelId).map_err(|()| {
        format!(
            "'{channel}' is not a channel; give one such as channel-2, see `anabranch paths --wide`"
        )
    })?;
    let all = sessions(host, session)?;
    let has = |report: &&SessionReport| report.channels.iter().any(|found| found.channel == id);
    match all.iter().find(has) {
        Some(report) => Ok((report.stats.session, id)),
        None => Err(PathError::Unknown(id).to_string()),
    }
}

/// Takes a path out of use.
pub(super) fn path_out(
    host: &Host,
    (channel, session): (&str, Option<&str>),
    (for_ms, is_forced): (Option<u64>, bool),
    by: &str,
) -> Result<Vec<Value>, String> {
    let (session, channel) = channel_of(host, channel, session)?;
    let time = for_ms.map(Duration::from_millis);
    if time.is_some_and(|time| time.is_zero() || time > OUT_MAX) {
        return Err(
            "`for_ms` is a time from 1 ms to 7 days; without it, the path stays out until it is taken in"
                .to_owned(),
        );
    }
    host.take_out(session, (channel, is_forced), by, time)
        .map_err(|error| error.to_string())?;
    Ok(vec![json!({
        "kind": "path_out",
        "session": session.to_string(),
        "channel": channel.to_string(),
        "by": by,
        "for_ms": for_ms,
    })])
}

/// Uses a path again.
pub(super) fn path_in(
    host: &Host,
    channel: &str,
    session: Option<&str>,
) -> Result<Vec<Value>, String> {
    let (session, channel) = channel_of(host, channel, session)?;
    host.take_in(session, channel)
        .map_err(|error| error.to_string())?;
    Ok(vec![json!({
        "kind": "path_in",
        "session": session.to_string(),
        "channel": channel.to_string(),
    })])
}

/// The session of a stream, and the stream.
fn stream_of(
    host: &Host,
    stream: &str,
    session: Option<&str>,
) -> Result<(SessionReport, StreamStats), String> {
    let id = number(stream, "stream-").map(StreamId).map_err(|()| {
        format!("'{stream}' is not a stream; give one such as stream-4, see `anabranch streams`")
    })?;
    let mut found = Vec::new();
    for report in sessions(host, session)? {
        let mut streams = report.streams.iter();
        if let Some(stats) = streams.find(|stats| stats.stream == id).cloned() {
            found.push((report, stats));
        }
    }
    match found.len() {
        0 => Err(format!("there is no open {id}; see `anabranch streams`")),
        1 => Ok(found.remove(0)),
        _ => Err(format!(
            "several sessions have a {id}; name the session, see `anabranch streams --wide`"
        )),
    }
}

/// The guarantee that a stream has, or waits for, with changes.
fn changed(stats: &StreamStats, changes: &StreamChanges) -> Result<Option<StreamSpec>, String> {
    let is_asked = changes.rate.is_some() || changes.probability.is_some();
    if changes.release {
        if is_asked {
            return Err(
                "`release` gives the guarantee up; leave out `rate` and `probability`".into(),
            );
        }
        let spec = StreamSpec {
            guarantee: None,
            ..stats.spec.clone()
        };
        return Ok(Some(spec));
    }
    if !is_asked {
        return Ok(None);
    }
    let mut text = stats
        .spec
        .guarantee
        .as_deref()
        .map(GuaranteeText::of)
        .unwrap_or_default();
    if stats.spec.guarantee.is_none() {
        text.probability = Some("95 %".to_owned());
    }
    if changes.waits {
        text.waits = Some(true);
    }
    if text.packets.is_some() && changes.rate.is_some() {
        return Err("the guarantee of this stream is one of packets, and has no rate".to_owned());
    }
    if text.late_packets.is_some() && changes.probability.is_some() {
        return Err(
            "the guarantee of this stream is one of late packets, and has no probability"
                .to_owned(),
        );
    }
    if let Some(rate) = &changes.rate {
        text.rate = Some(rate.clone());
        text.levels = None;
    }
    if let Some(probability) = &changes.probability {
        text.probability = Some(probability.clone());
    }
    let guarantee = text
        .resolve(str::to_owned)
        .map_err(|error| error.to_string())?;
    let spec = StreamSpec {
        guarantee: Some(Box::new(guarantee)),
        ..stats.spec.clone()
    };
    Ok(Some(spec))
}

fn parameters(changes: &StreamChanges) -> Result<Option<StreamParameters>, String> {
    let cap = match changes.cap.as_deref() {
        None => None,
        Some("none") => Some(None),
        Some(text) => Some(Some(parsed::<Rate>(text).map_err(|why| {
            format!("{}; or give \"none\"", refused("cap", text, why))
        })?)),
    };
    let is_any = changes.weight.is_some() || cap.is_some() || changes.redundant.is_some();
    Ok(is_any.then(|| StreamParameters {
        weight: changes.weight,
        cap,
        redundant: changes.redundant,
        ..StreamParameters::default()
    }))
}

/// True for a stream whose last demand has no promise yet.
fn waits(explanation: &Explanation) -> bool {
    explanation.term.is_none() || explanation.wanted.is_some()
}

/// Adds the promise that is in force or waited for, and the demand that waits beside one in force.
fn promise_fields(row: &mut Value, explanation: Option<&Explanation>) {
    let Some(row) = row.as_object_mut() else {
        return;
    };
    add_to_stream(row, explanation);
    let wanted = explanation.and_then(|found| found.wanted.as_ref());
    row.insert("wanted".into(), json!(wanted.map(words)));
}

/// Changes an open stream: a row `changed`, with the answer to a new guarantee, and the reason if that has to wait. A guarantee that is refused leaves the stream as it was.
pub(super) fn stream_set(
    host: &Host,
    (stream, session): (&str, Option<&str>),
    changes: &StreamChanges,
) -> Result<Vec<Value>, String> {
    let (report, stats) = stream_of(host, stream, session)?;
    let (session, id) = (report.stats.session, stats.stream);
    let parameters = parameters(changes)?;
    let guaranteed = changed(&stats, changes)?;
    if parameters.is_none() && guaranteed.is_none() {
        return Err(
            "nothing to change; give `rate`, `probability`, `release`, `weight`, `cap` or `redundant`"
                .to_owned(),
        );
    }
    let failed = |error: StreamError| match error {
        StreamError::UnknownStream(_) => {
            format!("only the peer sends on {id}; it is changed there")
        }
        other => other.to_string(),
    };
    // Checked first: a change is made as a whole, or not at all.
    if let (Some(spec), Some(parameters)) = (&guaranteed, parameters) {
        let spec = StreamSpec {
            weight: parameters.weight.unwrap_or(spec.weight),
            cap: parameters.cap.unwrap_or(spec.cap),
            redundant: parameters.redundant.unwrap_or(spec.redundant),
            ..spec.clone()
        };
        spec.validate().map_err(|error| error.to_string())?;
    }
    let before = StreamParameters {
        weight: Some(stats.spec.weight),
        cap: Some(stats.spec.cap),
        redundant: Some(stats.spec.redundant),
        ..StreamParameters::default()
    };
    // A guarantee that goes makes room for parameters that it excludes; one that comes needs them first.
    let releases = guaranteed
        .as_ref()
        .is_some_and(|spec| spec.guarantee.is_none());
    let demand = guaranteed.map(|spec| spec.guarantee.map(|guarantee| *guarantee));
    let is_demand = demand.is_some();
    let change = || match demand {
        None => Ok(()),
        Some(guarantee) => host.change_guarantee(session, id, guarantee),
    };
    let adjust = || match parameters {
        None => Ok(()),
        Some(parameters) => host.adjust(session, id, parameters),
    };
    let mut row = json!({
        "kind": "changed",
        "session": session.to_string(),
        "peer": report.stats.peer.to_string(),
        "stream": id.to_string(),
        "is_changed": true,
    });
    if releases {
        change().map_err(failed)?;
        adjust().map_err(failed)?;
        return Ok(vec![row]);
    }
    adjust().map_err(failed)?;
    match change() {
        Ok(()) => {
            if let Ok((report, _)) = stream_of(host, stream, Some(&session.to_string())) {
                let explanation = report.promises.iter().find(|found| found.stream == id);
                promise_fields(&mut row, explanation);
                let waits = explanation.is_some_and(waits);
                if is_demand
                    && waits
                    && let Err(StreamError::Refused(refusal)) = host.admit_again(session, id)
                {
                    refusal_fields(&mut row, &refusal);
                }
            }
            Ok(vec![row])
        }
        Err(StreamError::Refused(refusal)) => {
            // It has ended since, if this fails.
            let _ = host.adjust(session, id, before);
            row["is_changed"] = json!(false);
            refusal_fields(&mut row, &refusal);
            Ok(vec![row])
        }
        Err(error) => {
            let _ = host.adjust(session, id, before);
            Err(failed(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_net::{HostConfig, Session};
    use anabranch_session::{AllowList, SecretKey};

    use super::*;
    use crate::control::rows;

    /// A node with two sockets, so that two of them have several channels.
    fn node(own: u8, peer: u8) -> Host {
        let key = |seed| SecretKey::from_seed([seed; 32]);
        let allowed = AllowList::of([key(peer).node_id()]);
        let binds = ["127.0.0.1:0", "127.0.0.2:0"].map(|text| text.parse::<SocketAddr>().unwrap());
        Host::start(HostConfig::new(key(own), allowed).bind(binds)).unwrap()
    }

    async fn pair() -> (Host, Host, Session, Session) {
        let (a, b) = (node(25, 26), node(26, 25));
        let addresses = b.addresses();
        let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
        (a, b, outgoing.unwrap(), incoming.unwrap())
    }

    fn paths(host: &Host) -> Vec<Value> {
        rows::paths(host, &ToString::to_string)
    }

    #[tokio::test]
    async fn paths_go_out_and_come_in_and_the_last_one_stays() {
        let (a, _b, _session, _incoming) = pair().await;
        while paths(&a).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let names: Vec<String> = paths(&a)
            .iter()
            .map(|row| row["channel"].as_str().unwrap().to_owned())
            .collect();
        for name in &names[1..] {
            let rows = path_out(&a, (name, None), (None, false), "user 7").unwrap();
            assert_eq!(rows[0]["kind"], "path_out");
        }
        let shown = paths(&a);
        assert_eq!(shown[0]["state"], "active");
        assert_eq!(shown[1]["state"], "out");
        assert_eq!(shown[1]["out_by"], "user 7");
        assert!(shown[1]["out_for_ms"].is_null());
        let last = path_out(&a, (&names[0], None), (None, false), "user 7").unwrap_err();
        assert!(last.contains("last path"), "{last}");
        let rows = path_out(&a, (&names[0], None), (Some(60_000), true), "user 7").unwrap();
        assert_eq!(rows[0]["for_ms"], 60_000);
        assert!(paths(&a)[0]["out_for_ms"].as_f64().unwrap() <= 60_000.0);
        path_in(&a, &names[0], Some("session-0")).unwrap();
        let again = path_in(&a, &names[0], None).unwrap_err();
        assert!(again.contains("not out of use"), "{again}");
        for (channel, session, word) in [
            ("x", None, "is not a channel"),
            ("channel-99", None, "no channel-99"),
            (&names[0], Some("session-9"), "no session-9"),
        ] {
            let error = path_out(&a, (channel, session), (None, false), "x").unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        for time in [0, u64::MAX] {
            let error = path_out(&a, (&names[0], None), (Some(time), false), "x").unwrap_err();
            assert!(error.contains("7 days"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_stream_is_changed_as_a_whole_or_not_at_all() {
        let (a, _b, session, _incoming) = pair().await;
        let stream = session.open_stream(StreamSpec::bulk("file")).unwrap();
        let name = stream.id().to_string();
        let set = |changes: StreamChanges| stream_set(&a, (&name, None), &changes);
        let row = || rows::streams(&a, &ToString::to_string).remove(0);
        let changed = set(StreamChanges {
            weight: Some(7),
            cap: Some("4 Mbit/s".into()),
            ..StreamChanges::default()
        });
        assert_eq!(changed.unwrap()[0]["is_changed"], true);
        assert_eq!(row()["weight"], 7);
        assert_eq!(row()["cap_bps"], 4_000_000);
        // It had no guarantee: it waits for one if it is to.
        let asked = set(StreamChanges {
            rate: Some("2 Mbit/s".into()),
            waits: true,
            cap: Some("none".into()),
            ..StreamChanges::default()
        });
        let asked = asked.unwrap();
        assert_eq!(asked[0]["is_changed"], true);
        assert_eq!(asked[0]["promise"], "waiting");
        assert_eq!(asked[0]["reason"], "too_little_known");
        assert!(asked[0]["why"].as_str().unwrap().contains("20 seconds"));
        assert_eq!(row()["promise"], "waiting");
        assert_eq!(row()["asked"], "2.00 Mbit/s in 95 % of all windows of 1 s");
        assert!(row()["cap_bps"].is_null());
        for (changes, word) in [
            (StreamChanges::default(), "nothing to change"),
            (
                StreamChanges {
                    weight: Some(0),
                    ..StreamChanges::default()
                },
                "weight",
            ),
            (
                StreamChanges {
                    cap: Some("fast".into()),
                    ..StreamChanges::default()
                },
                "none",
            ),
            (
                StreamChanges {
                    rate: Some("1 kbit/s".into()),
                    release: true,
                    ..StreamChanges::default()
                },
                "leave out",
            ),
            (
                StreamChanges {
                    weight: Some(9),
                    probability: Some("300 %".into()),
                    ..StreamChanges::default()
                },
                "probability",
            ),
            (
                StreamChanges {
                    weight: Some(9),
                    redundant: Some(true),
                    ..StreamChanges::default()
                },
                "guarantee",
            ),
        ] {
            let error = set(changes).unwrap_err();
            assert!(error.contains(word), "{error}");
            assert_eq!(row()["weight"], 7);
        }
        let released = set(StreamChanges {
            release: true,
            redundant: Some(true),
            ..StreamChanges::default()
        });
        assert_eq!(released.unwrap()[0]["is_changed"], true);
        assert!(row()["promise"].is_null());
        assert_eq!(row()["is_redundant"], true);
        let none = stream_set(&a, ("stream-98", None), &StreamChanges::default()).unwrap_err();
        assert!(none.contains("no open stream-98"), "{none}");
    }

    #[tokio::test]
    async fn a_guarantee_that_is_refused_leaves_all_as_it_was() {
        let (a, _b, session, _incoming) = pair().await;
        let stream = session.open_stream(StreamSpec::bulk("file")).unwrap();
        let name = stream.id().to_string();
        let changes = StreamChanges {
            rate: Some("1 Gbit/s".into()),
            weight: Some(3),
            ..StreamChanges::default()
        };
        let rows = stream_set(&a, (&name, None), &changes).unwrap();
        assert_eq!(rows[0]["is_changed"], false);
        assert_eq!(rows[0]["reason"], "too_little_known");
        assert!(rows[0]["why"].as_str().unwrap().contains("20 seconds"));
        let row = rows::streams(&a, &ToString::to_string).remove(0);
        assert_eq!(row["weight"], stream.spec().weight);
        assert!(row["promise"].is_null());
    }
}
