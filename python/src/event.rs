//! Events as pairs: the name of their class, and its fields.

use anabranch::{PromiseEvent, SessionEvent, StreamEvent};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    failure,
    report::{self, fields},
};

type Event<'py> = PyResult<(&'static str, Bound<'py, PyDict>)>;

/// An event of a promise.
pub(crate) fn promise<'py>(py: Python<'py>, event: &PromiseEvent) -> Event<'py> {
    let (name, refusal) = match event {
        PromiseEvent::Promised(grant) => return Ok(("Promised", report::grant(py, grant)?)),
        PromiseEvent::Warned(refusal) => ("Warned", refusal),
        PromiseEvent::Withdrawn(refusal) => ("Withdrawn", refusal),
        PromiseEvent::Closed(refusal) => ("PromiseClosed", refusal),
        other => return Ok(("OtherEvent", fields!(py, "text": other.to_string()))),
    };
    let fields = fields!(py, "refusal": failure::refusal(py, refusal)?);
    Ok((name, fields))
}

/// An event of a stream.
pub(crate) fn stream<'py>(py: Python<'py>, event: &StreamEvent) -> Event<'py> {
    let ranges = |ranges: &[std::ops::Range<u64>]| -> Vec<(u64, u64)> {
        ranges
            .iter()
            .map(|range| (range.start, range.end))
            .collect()
    };
    Ok(match event {
        StreamEvent::Acked {
            adu, rtt, channel, ..
        } => {
            let fields = fields!(py, "message": adu, "rtt_s": rtt.as_secs_f64(), "path": channel.0);
            ("Acked", fields)
        }
        StreamEvent::Lost { adu, arrived, lost } => {
            let fields =
                fields!(py, "message": adu, "arrived": ranges(arrived), "lost": ranges(lost));
            ("Lost", fields)
        }
        StreamEvent::Fragment {
            adu,
            bytes,
            channel,
            rtt,
        } => {
            let fields = fields!(py,
                "message": adu,
                "start": bytes.start,
                "end": bytes.end,
                "path": channel.0,
                "rtt_s": rtt.map(|rtt| rtt.as_secs_f64()),
            );
            ("Fragment", fields)
        }
        StreamEvent::Expired { adu } => ("Expired", fields!(py, "message": adu)),
        StreamEvent::Dropped { adu } => ("Dropped", fields!(py, "message": adu)),
        StreamEvent::Throttle { rate } => ("Throttle", fields!(py, "rate_bps": rate.as_bps())),
        other => ("OtherEvent", fields!(py, "text": format!("{other:?}"))),
    })
}

/// An event of a session.
pub(crate) fn session<'py>(py: Python<'py>, event: &SessionEvent) -> Event<'py> {
    Ok(match event {
        SessionEvent::ChannelUp {
            channel, remote, ..
        } => {
            let fields = fields!(py, "path": channel.0, "remote": remote.to_string());
            ("PathUp", fields)
        }
        SessionEvent::ChannelSuspected { channel } => {
            ("PathSuspected", fields!(py, "path": channel.0))
        }
        SessionEvent::ChannelRecovered { channel, silence } => {
            let fields = fields!(py, "path": channel.0, "silence_s": silence.as_secs_f64());
            ("PathRecovered", fields)
        }
        SessionEvent::ChannelClosed { channel, reason } => {
            let fields = fields!(py, "path": channel.0, "reason": reason.to_string());
            ("PathClosed", fields)
        }
        SessionEvent::ObjectiveRefused {
            objective,
            stream,
            refusal,
        } => {
            let fields = fields!(py,
                "objective": objective.0,
                "stream": stream.0,
                "refusal": failure::refusal(py, refusal)?,
            );
            ("ObjectiveRefused", fields)
        }
        SessionEvent::ObjectiveFault { objective, faults } => {
            let faults: Vec<&str> = faults.words().collect();
            let fields = fields!(py, "objective": objective.0, "faults": faults);
            ("ObjectiveFault", fields)
        }
        other => ("OtherEvent", fields!(py, "text": format!("{other:?}"))),
    })
}
