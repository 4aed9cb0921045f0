//! Answers about promises: whether something would be promised, and why something is.

use anabranch_base::{ChannelId, Instant, Rate, SessionId, StreamId, text::printable};
use anabranch_net::{Host, SessionReport};
use anabranch_session::{
    Demand, Explanation, Grant, Guarantee, Offer, Reason, Refusal, StreamError, StreamSpec, Term,
};
use serde_json::{Map, Value, json};

use super::{NAME_CHARS, ROWS_MAX, ms};
use crate::{
    daemon::Core,
    record::{Entry, PromiseRecord, unix_ms},
    spec::{SpecText, words},
};

/// Characters of a decision that are shown.
const TEXT_CHARS: usize = 400;

/// Sessions that a question is about: all, or the one named.
pub(super) fn sessions(host: &Host, named: Option<&str>) -> Result<Vec<SessionReport>, String> {
    let mut sessions = host.sessions();
    if let Some(name) = named {
        let id = number(name, "session-").map_err(|()| {
            format!("'{name}' is not a session; give one such as session-0, see `anabranch status`")
        })?;
        sessions.retain(|session| session.stats.session.0 == id);
        if sessions.is_empty() {
            return Err(format!(
                "there is no {}; see `anabranch status`",
                SessionId(id)
            ));
        }
    }
    if sessions.is_empty() {
        return Err("the node has no session yet; wait for a peer, or dial one".to_owned());
    }
    Ok(sessions)
}

/// `5` or `stream-5`.
pub(super) fn number(text: &str, prefix: &str) -> Result<u64, ()> {
    let digits = text.strip_prefix(prefix).unwrap_or(text);
    digits.parse().map_err(|_| ())
}

/// Answer of each session to a demand: a row for the answer, then one for each path of a grant.
pub(super) fn admit(
    host: &Host,
    spec: &SpecText,
    session: Option<&str>,
) -> Result<Vec<Value>, String> {
    let spec = spec.resolve().map_err(|error| error.to_string())?;
    let Some(guarantee) = &spec.guarantee else {
        return Err("the stream asks for no guarantee; add one".to_owned());
    };
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        match host.admit(report.stats.session, &spec) {
            Ok(grant) => {
                rows.push(granted(&report, guarantee, &grant));
                rows.extend(shares(&report, &grant.shares));
            }
            Err(StreamError::Refused(refusal)) => rows.push(refused(&report, guarantee, &refusal)),
            // It has ended since.
            Err(StreamError::UnknownSession(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(rows)
}

fn granted(report: &SessionReport, guarantee: &Guarantee, grant: &Grant) -> Value {
    json!({
        "kind": "answer",
        "session": report.stats.session.to_string(),
        "peer": report.stats.peer.to_string(),
        "asked": words(guarantee),
        "is_promised": true,
        "answer": grant.to_string(),
        "grade": term(grant.term),
        "term_ms": (grant.term == Term::Renewable).then(|| ms(guarantee.term)),
    })
}

fn refused(report: &SessionReport, guarantee: &Guarantee, refusal: &Refusal) -> Value {
    let mut row = json!({
        "kind": "answer",
        "session": report.stats.session.to_string(),
        "peer": report.stats.peer.to_string(),
        "asked": words(guarantee),
        "is_promised": false,
    });
    refusal_fields(&mut row, refusal);
    row
}

/// Adds the reason of a refusal to a row, and what could be promised instead.
pub(super) fn refusal_fields(row: &mut Value, refusal: &Refusal) {
    let Offer {
        rate,
        probability,
        reduction,
    } = &refusal.offer;
    let (kind, channels) = match &refusal.reason {
        Reason::NoGuarantee => ("no_guarantee", &[][..]),
        Reason::TooLittleKnown { .. } => ("too_little_known", &[][..]),
        Reason::Unsteady { .. } => ("unsteady", &[][..]),
        Reason::TooSure { .. } => ("too_sure", &[][..]),
        Reason::TooLittle { channels, .. } => ("too_little", &channels[..]),
        Reason::OverShare { .. } => ("over_share", &[][..]),
        Reason::Displaces(_) => ("displaces", &[][..]),
        Reason::TooMany => ("too_many", &[][..]),
        _ => ("other", &[][..]),
    };
    let names: Vec<String> = channels.iter().map(ChannelId::to_string).collect();
    let (holds, taken) = match &refusal.reason {
        Reason::TooLittle { holds, taken, .. } => (Some(holds.as_bps()), Some(taken.as_bps())),
        Reason::OverShare { whole, has, .. } => (Some(whole.as_bps()), Some(has.as_bps())),
        _ => (None, None),
    };
    let (known, needed) = match &refusal.reason {
        Reason::TooLittleKnown {
            windows, needed, ..
        } => (Some(*windows), Some(*needed)),
        Reason::Unsteady { windows } => (Some(*windows), None),
        _ => (None, None),
    };
    let fields = json!({
        "answer": refusal.to_string(),
        "reason": kind,
        "why": refusal.reason.to_string(),
        "windows_known": known,
        "windows_needed": needed,
        "binding_channels": names.join(" "),
        "holds_bps": holds,
        "taken_bps": taken,
        "offer_rate_bps": rate.map(Rate::as_bps),
        "offer_probability": probability,
        "offer_reduce_stream": reduction.map(|reduction| reduction.stream.to_string()),
        "offer_reduce_to_bps": reduction.map(|reduction| reduction.to.as_bps()),
    });
    if let (Some(row), Value::Object(fields)) = (row.as_object_mut(), fields) {
        row.extend(fields);
    }
}

fn shares(report: &SessionReport, shares: &[(ChannelId, Rate)]) -> Vec<Value> {
    let row = |&(id, rate): &(ChannelId, Rate)| {
        let channel = report.channels.iter().find(|channel| channel.channel == id);
        json!({
            "kind": "path",
            "session": report.stats.session.to_string(),
            "channel": id.to_string(),
            "interface": channel.and_then(|channel| channel.interface.as_deref()),
            "remote": channel.map(|channel| channel.remote.to_string()),
            "rate_bps": rate.as_bps(),
        })
    };
    shares.iter().map(row).collect()
}

fn term(term: Term) -> &'static str {
    match term {
        Term::Durable => "durable",
        Term::Renewable => "renewable",
    }
}

/// Reason why a stream is promised what it is: a row for the promise, one for each path, one for each decision.
pub(super) fn explain(
    host: &Host,
    stream: &str,
    session: Option<&str>,
) -> Result<Vec<Value>, String> {
    let id = number(stream, "stream-").map(StreamId).map_err(|()| {
        format!("'{stream}' is not a stream; give one such as stream-4, see `anabranch streams`")
    })?;
    let now = host.clock().now();
    let mut rows = Vec::new();
    for report in sessions(host, session)? {
        let Some(stats) = report.streams.iter().find(|stats| stats.stream == id) else {
            continue;
        };
        match report.promises.iter().find(|found| found.stream == id) {
            Some(explanation) => {
                let mut row = promise(&report, &stats.spec, explanation, now);
                add_ends(&mut row, &report, id);
                rows.push(row);
                rows.extend(shares(&report, &explanation.shares));
                let note = |note: &anabranch_session::promise::Note| {
                    json!({
                        "kind": "decision",
                        "session": report.stats.session.to_string(),
                        "ago_ms": ms(now.since(note.at)),
                        "text": note.text,
                    })
                };
                rows.extend(explanation.notes.iter().map(note));
            }
            None => {
                let mut row = json!({
                    "kind": "promise",
                    "session": report.stats.session.to_string(),
                    "stream": id.to_string(),
                    "label": printable(&stats.spec.label, NAME_CHARS),
                    "asked": null,
                    "state": null,
                });
                add_ends(&mut row, &report, id);
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("there is no open {id}; see `anabranch streams`"));
    }
    Ok(rows)
}

/// The other end of a stream, and whether this one has opened it.
fn add_ends(row: &mut Value, report: &SessionReport, stream: StreamId) {
    row["peer"] = json!(report.stats.peer.to_string());
    row["is_opened_here"] = json!(stream.is_by_initiator() != report.stats.incoming);
}

/// `waiting`, `access` or `renewable`.
fn state(explanation: &Explanation) -> &'static str {
    explanation.term.map_or("waiting", term)
}

fn promise(
    report: &SessionReport,
    spec: &StreamSpec,
    explanation: &Explanation,
    now: Instant,
) -> Value {
    let guarantee = &explanation.guarantee;
    let (packets, late) = match guarantee.demand {
        Demand::Rate { .. } => (None, None),
        Demand::Packets { serve, of, .. } => (Some(format!("{serve}/{of}")), None),
        Demand::Late { late_packets, .. } => (None, Some(late_packets)),
    };
    json!({
        "kind": "promise",
        "session": report.stats.session.to_string(),
        "stream": explanation.stream.to_string(),
        "label": printable(&spec.label, NAME_CHARS),
        "asked": words(guarantee),
        "wanted": explanation.wanted.as_ref().map(words),
        "rate_bps": guarantee.required().as_bps(),
        "probability": guarantee.probability(),
        "packets": packets,
        "late_packets": late,
        "window_ms": ms(guarantee.window),
        "state": state(explanation),
        "is_warned": explanation.is_warned,
        "lapses_in_ms": explanation.until.map(|until| ms(until.since(now))),
        // Before it has a place in the order.
        "rank": (explanation.rank != u32::MAX).then_some(explanation.rank),
        "windows_kept": explanation.account.kept,
        "windows_broken": explanation.account.broken,
        "withdrawn": explanation.account.withdrawn,
        "windows_known": explanation.windows_known,
    })
}

/// Events of promises from the record of the node.
pub(super) async fn history(
    node: Option<&Core>,
    label: Option<&str>,
    last_ms: Option<u64>,
) -> Result<Vec<Value>, String> {
    let path = node.and_then(|node| node.record().path());
    let path = path
        .ok_or("no record of promises is kept here; see `promise_record` in node.example.toml")?;
    let label = label.map(ToOwned::to_owned);
    let now_ms = unix_ms();
    let from_ms = last_ms.map_or(0, |last| now_ms.saturating_sub(last));
    let reading = tokio::task::spawn_blocking(move || {
        PromiseRecord::read(&path, ROWS_MAX, |entry| {
            entry.unix_ms >= from_ms && label.as_ref().is_none_or(|label| *label == entry.label)
        })
        .map_err(|error| format!("{}: {error}", path.display()))
    });
    let entries = reading.await.map_err(|error| error.to_string())??;
    Ok(entries.iter().map(|entry| event(entry, now_ms)).collect())
}

/// Events of promises since an earlier answer.
pub(super) fn events(node: Option<&Core>, from: Option<u64>) -> Result<Vec<Value>, String> {
    let node = node.ok_or("promises are followed by `anabranch node` only")?;
    let (since, now_ms) = (node.record().since(from), unix_ms());
    let position = json!({ "kind": "position", "next": since.next, "missed": since.missed });
    let events = since.entries.iter().map(|entry| event(entry, now_ms));
    Ok(std::iter::once(position).chain(events).collect())
}

fn event(entry: &Entry, now_ms: u64) -> Value {
    json!({
        "kind": "promise_event",
        "unix_ms": entry.unix_ms,
        "ago_ms": now_ms.saturating_sub(entry.unix_ms),
        "peer": printable(&entry.peer, NAME_CHARS),
        "session": entry.session,
        "stream": entry.stream,
        "label": printable(&entry.label, NAME_CHARS),
        "asked": entry.asked,
        "event": entry.kind,
        "text": printable(&entry.text, TEXT_CHARS),
        "windows_kept": entry.windows_kept,
        "windows_broken": entry.windows_broken,
        "withdrawn": entry.withdrawn,
    })
}

/// Fields of the stream's promise in a row of `streams`; null where it asked for none.
pub(super) fn add_to_stream(row: &mut Map<String, Value>, explanation: Option<&Explanation>) {
    let asked = explanation.map(|found| words(&found.guarantee));
    row.insert("asked".into(), json!(asked));
    row.insert("promise".into(), json!(explanation.map(state)));
    let is_warned = explanation.map(|found| found.is_warned);
    row.insert("promise_is_warned".into(), json!(is_warned));
    let account = explanation.map(|found| found.account);
    let kept = account.map(|account| account.kept);
    row.insert("windows_kept".into(), json!(kept));
    let broken = account.map(|account| account.broken);
    row.insert("windows_broken".into(), json!(broken));
}

/// Rate of a channel that is promised to streams, together.
pub(super) fn taken_of(report: &SessionReport, channel: ChannelId) -> Rate {
    let in_force = report.promises.iter().filter(|found| found.term.is_some());
    let shares = in_force.flat_map(|found| &found.shares);
    shares
        .filter(|(id, _)| *id == channel)
        .map(|(_, rate)| *rate)
        .sum()
}

#[cfg(test)]
mod tests {
    use anabranch_net::{HostConfig, Session};
    use anabranch_session::{AllowList, SecretKey};

    use super::*;

    fn node(own: u8, peer: u8) -> Host {
        let key = |seed| SecretKey::from_seed([seed; 32]);
        let allowed = AllowList::of([key(peer).node_id()]);
        let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(HostConfig::new(key(own), allowed).bind([loopback])).unwrap()
    }

    async fn pair() -> (Host, Host, Session, Session) {
        let (a, b) = (node(5, 6), node(6, 5));
        let addresses = b.addresses();
        let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
        (a, b, outgoing.unwrap(), incoming.unwrap())
    }

    fn wanted() -> SpecText {
        let text = "[guarantee]\nrate = \"3 Mbit/s\"\nprobability = \"95 %\"\nwaits = true";
        SpecText::from_toml(text).unwrap()
    }

    #[tokio::test]
    async fn what_is_not_known_yet_is_refused_with_the_reason() {
        let (a, _b, session, _incoming) = pair().await;
        let rows = admit(&a, &wanted(), None).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["is_promised"], false);
        assert_eq!(rows[0]["reason"], "too_little_known");
        assert_eq!(rows[0]["windows_known"], 0);
        assert_eq!(rows[0]["windows_needed"], 20);
        let why = rows[0]["why"].as_str().unwrap();
        assert!(why.contains("20 seconds with traffic"), "{why}");
        assert_eq!(
            rows[0]["asked"],
            "3.00 Mbit/s in 95 % of all windows of 1 s"
        );
        let name = session.id().to_string();
        assert_eq!(admit(&a, &wanted(), Some(&name)), Ok(rows));
        for (named, word) in [("session-77", "no session-77"), ("x", "session-0")] {
            let error = admit(&a, &wanted(), Some(named)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let error = admit(&a, &SpecText::default(), None).unwrap_err();
        assert!(error.contains("guarantee"), "{error}");
        let nobody = admit(&node(7, 8), &wanted(), None).unwrap_err();
        assert!(nobody.contains("no session"), "{nobody}");
    }

    #[tokio::test]
    async fn a_stream_is_explained_and_listed_with_what_it_waits_for() {
        let (a, _b, session, _incoming) = pair().await;
        let spec = wanted().resolve().unwrap();
        let waiting = session.open_stream(spec).unwrap();
        let other = session.open_stream(StreamSpec::bulk("file")).unwrap();
        let rows = explain(&a, &waiting.id().to_string(), None).unwrap();
        assert_eq!(rows[0]["state"], "waiting");
        assert_eq!(rows[0]["rate_bps"], 3_000_000);
        assert_eq!(rows[0]["windows_kept"], 0);
        assert_eq!(rows[1]["kind"], "decision");
        let text = rows[1]["text"].as_str().unwrap();
        assert!(text.starts_with("waits"), "{text}");
        let plain = explain(&a, &other.id().0.to_string(), Some("0")).unwrap();
        assert_eq!(plain.len(), 1);
        assert!(plain[0]["state"].is_null());
        for (stream, word) in [("stream-98", "no open stream-98"), ("x", "stream-4")] {
            let error = explain(&a, stream, None).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let listed = crate::control::rows::streams(&a, &ToString::to_string);
        assert_eq!(listed[0]["promise"], "waiting");
        assert!(listed[1]["promise"].is_null());
        let paths = crate::control::rows::paths(&a, &ToString::to_string);
        assert_eq!(paths[0]["streams_promised_bps"], 0);
    }
}
