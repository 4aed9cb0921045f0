//! Errors as classes of `anabranch.errors`: name of the class, text of the library's error, and its data.

use anabranch::{
    ClientError, ConnectError, Failure, ObjectiveError, Offer, Refusal, SessionCloseReason,
    StreamFailure,
    api::EngineFailure,
    net::session::{SendError, StreamError},
};
use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyModule},
};

use crate::{
    objective::{self, Finding},
    report,
};

/// An error, before the interpreter can be entered.
#[derive(Debug)]
pub(crate) struct Failed {
    class: &'static str,
    text: String,
    data: Data,
}

#[derive(Debug)]
enum Data {
    None,
    Code(u32),
    Refusal(Box<Refusal>),
    Findings(Vec<Finding>),
}

impl Failed {
    pub(crate) fn new(class: &'static str, text: impl Into<String>) -> Self {
        Self {
            class,
            text: text.into(),
            data: Data::None,
        }
    }

    pub(crate) fn with_code(class: &'static str, text: impl Into<String>, code: u32) -> Self {
        Self {
            data: Data::Code(code),
            ..Self::new(class, text)
        }
    }

    /// Of a text of objectives.
    pub(crate) fn objectives(text: String, findings: Vec<Finding>) -> Self {
        Self {
            class: "ObjectiveError",
            text,
            data: Data::Findings(findings),
        }
    }

    /// Of an operation on a session or a stream.
    pub(crate) fn of(error: &impl Failure) -> Self {
        let text = error.to_string();
        if let Some(refusal) = error.refusal() {
            let data = Data::Refusal(Box::new(refusal.clone()));
            return Self {
                class: "Refused",
                text,
                data,
            };
        }
        let with_code = |class, code| Self {
            class,
            text: text.clone(),
            data: Data::Code(code),
        };
        if let Some(code) = error.reset_code() {
            return with_code("StreamReset", code);
        }
        if let Some(code) = error.stop_code() {
            return with_code("StreamStopped", code);
        }
        if error.is_session_over() {
            return Self::new("Closed", text);
        }
        match error.send_error() {
            Some(SendError::Stream(_)) | None => Self::new("AnabranchError", text),
            Some(_) => Self::new("SendError", text),
        }
    }
}

impl From<StreamFailure> for Failed {
    fn from(error: StreamFailure) -> Self {
        match error {
            StreamFailure::Stream(StreamError::Spec(error)) => {
                Self::new("SpecError", error.to_string())
            }
            error => Self::of(&EngineFailure::from(error)),
        }
    }
}

impl From<EngineFailure> for Failed {
    fn from(error: EngineFailure) -> Self {
        match error {
            EngineFailure::Stream(error) => error.into(),
            EngineFailure::Objective(error) if !matches!(error, ObjectiveError::Stream(_)) => {
                error.into()
            }
            error => Self::of(&error),
        }
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        let class = match &error {
            ClientError::Attach { .. }
            | ClientError::Address { .. }
            | ClientError::Token { .. }
            | ClientError::NoSocket
            | ClientError::TurnedAway(_) => "AttachError",
            ClientError::Node { kind, .. } => match kind.as_str() {
                "unreachable" => "Unreachable",
                "peer" => "ConnectError",
                "spec" => "SpecError",
                "objectives" => return Self::objectives(error.to_string(), Vec::new()),
                _ => return Self::of(&error),
            },
            _ => return Self::of(&error),
        };
        Self::new(class, error.to_string())
    }
}

impl From<ConnectError> for Failed {
    fn from(error: ConnectError) -> Self {
        let class = match &error {
            error if error.is_refusal() => "Rejected",
            ConnectError::NoLink { .. } => "NoRoute",
            ConnectError::Lookup(_) => "HostNotFound",
            ConnectError::Closed(
                SessionCloseReason::Unreachable(_) | SessionCloseReason::TimedOut(_),
            ) => "Unreachable",
            _ => "ConnectError",
        };
        Self::new(class, error.to_string())
    }
}

fn errors(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || Ok::<_, PyErr>(py.import("anabranch.errors")?.unbind());
    Ok(MODULE.get_or_try_init(py, import)?.bind(py))
}

fn offered<'py>(py: Python<'py>, offer: &Offer) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("rate_bps", offer.rate.map(|rate| rate.as_bps()))?;
    fields.set_item("probability", offer.probability)?;
    let other = offer.reduction;
    fields.set_item("reduce_stream", other.map(|other| other.stream.0))?;
    fields.set_item("reduce_to_bps", other.map(|other| other.to.as_bps()))?;
    Ok(fields)
}

/// A refusal as keyword arguments of `anabranch.errors.Refused`.
pub(crate) fn refused<'py>(py: Python<'py>, refusal: &Refusal) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("reason", report::reason(&refusal.reason))?;
    let offer = errors(py)?.getattr("Offer")?;
    let offer = offer.call((), Some(&offered(py, &refusal.offer)?))?;
    fields.set_item("offer", offer)?;
    Ok(fields)
}

/// A refusal as an object of the class `anabranch.errors.Refused`.
pub(crate) fn refusal<'py>(py: Python<'py>, refusal: &Refusal) -> PyResult<Bound<'py, PyAny>> {
    let class = errors(py)?.getattr("Refused")?;
    class.call((refusal.to_string(),), Some(&refused(py, refusal)?))
}

impl Failed {
    fn raise(&self, py: Python<'_>) -> PyResult<PyErr> {
        let class = errors(py)?.getattr(self.class)?;
        let fields = match &self.data {
            Data::None => None,
            Data::Code(code) => {
                let fields = PyDict::new(py);
                fields.set_item("code", code)?;
                Some(fields)
            }
            Data::Refusal(refusal) => Some(refused(py, refusal)?),
            Data::Findings(findings) => {
                let found = objective::list(py, findings)?;
                Some(report::fields!(py, "findings": found))
            }
        };
        let value = class.call((self.text.as_str(),), fields.as_ref())?;
        Ok(PyErr::from_value(value))
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> Self {
        // Called by Python threads only.
        Python::attach(|py| failed.raise(py).unwrap_or_else(|error| error))
    }
}
