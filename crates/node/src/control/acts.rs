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
    spec::{GuaranteeText, priority, time_of, words},
};

/// Longest time for which a path is taken out; longer ones have no end.
const OUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The session that has a channel, and the channel.
fn channel_of(
    host: &Host,
    channel: &str,
    session: Option<&str>,
) -> Result<(SessionId, ChannelId), String> {
    let all = sessions(host, session)?;
    let Ok(id) = number(channel, "channel-").map(ChannelId) else {
        return channel_by_interface(&all, channel);
    };
    let has = |report: &&SessionReport| report.channels.iter().any(|found| found.channel == id);
    match all.iter().find(has) {
        Some(report) => Ok((report.stats.session, id)),
        None => Err(PathError::Unknown(id).to_string()),
    }
}

/// The session that has the only channel of an interface, and the channel.
fn channel_by_interface(
    all: &[SessionReport],
    interface: &str,
) -> Result<(SessionId, ChannelId), String> {
    let of = |report: &SessionReport| {
        let channels = report.channels.iter();
        let channels = channels.filter(|found| found.interface.as_deref() == Some(interface));
        let session = report.stats.session;
        let found: Vec<_> = channels.map(|found| (session, found.channel)).collect();
        found
    };
    let found: Vec<(SessionId, ChannelId)> = all.iter().flat_map(of).collect();
    match found[..] {
        [] => Err(format!(
            "'{interface}' is no path; give an interface such as wlan0, or a channel such as channel-2, see `anabranch paths --wide`"
        )),
        [only] => Ok(only),
        [_, _, ..] => {
            let channels: Vec<String> = found.iter().map(|(_, id)| id.to_string()).collect();
            Err(format!(
                "{interface} has several paths: give one of {}, see `anabranch paths --wide`",
                channels.join(", ")
            ))
        }
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
    let lifetime = match changes.lifetime.as_deref() {
        None => None,
        Some("none") => Some(None),
        Some(text) => Some(Some(time_of(text).map_err(|why| {
            format!("{}; or give \"none\"", refused("lifetime", text, why))
        })?)),
    };
    let priority = match changes.priority.as_deref() {
        None => None,
        Some(text) => {
            Some(priority(text).map_err(|why| refused("priority", text, why).to_string())?)
        }
    };
    let parameters = StreamParameters {
        weight: changes.weight,
        cap,
        redundant: changes.redundant,
        priority,
        lifetime,
        ..StreamParameters::default()
    };
    Ok((parameters != StreamParameters::default()).then_some(parameters))
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
            "nothing to change; give `rate`, `probability`, `release`, `weight`, `priority`, `lifetime`, `cap` or `redundant`"
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
            lifetime: parameters.lifetime.unwrap_or(spec.lifetime),
            ..spec.clone()
        };
        spec.validate().map_err(|error| error.to_string())?;
    }
    let before = StreamParameters {
        weight: Some(stats.spec.weight),
        cap: Some(stats.spec.cap),
        redundant: Some(stats.spec.redundant),
        priority: Some(stats.spec.priority),
        lifetime: Some(stats.spec.lifetime),
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
mod tests;
