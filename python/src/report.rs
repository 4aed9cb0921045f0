//! Specifications, promises and statistics as dictionaries, of which the package makes its data classes. Times are in seconds,
//! rates in bit/s.

use std::time::Duration;

use anabranch::{
    Explanation, Grant, Guarantee, Order, Reason, StreamSpec, Term,
    base::{ChannelId, Rate},
    net::session::{ChannelReport, ChannelStatus, SessionStats, StreamStats},
    spec,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

/// A dictionary of these entries.
macro_rules! fields {
    ($py:expr, $($key:literal: $value:expr),* $(,)?) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item(pyo3::intern!($py, $key), $value)?;)*
        fields
    }};
}
pub(crate) use fields;

type Fields<'py> = PyResult<Bound<'py, PyDict>>;

/// Name of a reason.
pub(crate) fn reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::NoGuarantee => "no_guarantee",
        Reason::TooLittleKnown { .. } => "too_little_known",
        Reason::Unsteady { .. } => "unsteady",
        Reason::TooSure { .. } => "too_sure",
        Reason::TooLittle { .. } => "too_little",
        Reason::OverShare { .. } => "over_share",
        Reason::Displaces(_) => "displaces",
        Reason::TooMany => "too_many",
        _ => "other",
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn bps(rate: Option<Rate>) -> Option<u64> {
    rate.map(|rate| rate.as_bps())
}

fn grade(term: Term) -> &'static str {
    match term {
        Term::Durable => "durable",
        Term::Renewable => "renewable",
    }
}

fn shares(shares: &[(ChannelId, Rate)]) -> Vec<(u64, u64)> {
    let shares = shares.iter();
    shares
        .map(|(channel, rate)| (channel.0, rate.as_bps()))
        .collect()
}

fn demand<'py>(py: Python<'py>, guarantee: &Guarantee) -> Fields<'py> {
    Ok(fields!(py,
        "rate_bps": guarantee.required().as_bps(),
        "probability": guarantee.probability(),
        "window_s": seconds(guarantee.window),
        "text": spec::words(guarantee),
    ))
}

/// A promise.
pub(crate) fn grant<'py>(py: Python<'py>, grant: &Grant) -> Fields<'py> {
    let fields = demand(py, &grant.guarantee)?;
    fields.set_item("grade", grade(grant.term))?;
    fields.set_item("shares", shares(&grant.shares))?;
    fields.set_item("summary", grant.to_string())?;
    Ok(fields)
}

/// The explanation of a stream's promise.
pub(crate) fn explanation<'py>(py: Python<'py>, of: &Explanation) -> Fields<'py> {
    let fields = demand(py, &of.guarantee)?;
    fields.set_item("grade", of.term.map(grade))?;
    fields.set_item("is_warned", of.is_warned)?;
    fields.set_item("rank", of.rank)?;
    fields.set_item("shares", shares(&of.shares))?;
    fields.set_item("windows_kept", of.account.kept)?;
    fields.set_item("windows_broken", of.account.broken)?;
    fields.set_item("withdrawn", of.account.withdrawn)?;
    fields.set_item("windows_known", of.windows_known)?;
    let notes: Vec<&str> = of.notes.iter().map(|note| note.text.as_str()).collect();
    fields.set_item("notes", notes)?;
    Ok(fields)
}

/// Facts that both ends know of a stream.
pub(crate) fn stream_spec<'py>(py: Python<'py>, spec: &StreamSpec) -> Fields<'py> {
    Ok(fields!(py,
        "label": &spec.label,
        "reliable": spec.reliable,
        "ordered": spec.order == Order::Ordered,
        "deadline_s": spec.lifetime.map(seconds),
        "priority": spec.priority.0,
        "weight": spec.weight,
        "duplex": spec.duplex,
    ))
}

/// The statistics of a stream.
pub(crate) fn stream<'py>(py: Python<'py>, stats: &StreamStats) -> Fields<'py> {
    Ok(fields!(py,
        "stream": stats.stream.0,
        "label": &stats.spec.label,
        "sent": stats.sent_adus,
        "sent_bytes": stats.sent_bytes,
        "acked": stats.acked_adus,
        "lost": stats.lost_adus,
        "expired": stats.expired_adus,
        "dropped": stats.shed_adus,
        "repaired_bytes": stats.repaired_bytes,
        "backlog_bytes": stats.backlog_bytes,
        "received": stats.received_adus,
        "received_bytes": stats.received_bytes,
    ))
}

/// The statistics of a session.
pub(crate) fn session<'py>(py: Python<'py>, stats: &SessionStats) -> Fields<'py> {
    Ok(fields!(py,
        "peer": stats.peer.to_string(),
        "is_incoming": stats.incoming,
        "paths_active": stats.channels_active,
        "streams": stats.streams,
        "policy": stats.policy.to_string(),
        "sent_bytes": stats.payload_sent_bytes,
        "copied_bytes": stats.copied_bytes,
        "send_held_bytes": stats.send_held_bytes,
        "receive_held_bytes": stats.recv_held_bytes,
    ))
}

fn path<'py>(py: Python<'py>, report: &ChannelReport) -> Fields<'py> {
    let (stats, path) = (&report.stats, report.path.as_ref());
    Ok(fields!(py,
        "path": report.channel.0,
        "interface": report.interface.as_deref(),
        "remote": report.remote.to_string(),
        "is_active": report.state == ChannelStatus::Active,
        "rtt_s": seconds(stats.rtt_smoothed),
        "rtt_min_s": seconds(stats.rtt_min),
        "rtt_variation_s": seconds(stats.rtt_variation),
        "rate_delivered_bps": stats.rate_delivered.as_bps(),
        "packets_sent": stats.packets_sent,
        "packets_lost": stats.packets_lost,
        "sent_bytes": report.payload_sent_bytes,
        "received_bytes": report.payload_received_bytes,
        "windows": path.map_or(0, |path| path.samples),
        "bandwidth_mean_bps": path.and_then(|path| bps(path.bandwidth_mean)),
        "bandwidth_p5_bps": path.and_then(|path| bps(path.bandwidth_p5)),
        "loss_fraction": path.and_then(|path| path.loss_fraction),
    ))
}

/// A list of reports.
pub(crate) fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    report: fn(Python<'py>, &T) -> Fields<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for item in items {
        list.append(report(py, item)?)?;
    }
    Ok(list)
}

/// The statistics of paths.
pub(crate) fn paths<'py>(py: Python<'py>, of: &[ChannelReport]) -> PyResult<Bound<'py, PyList>> {
    list(py, of, path)
}
