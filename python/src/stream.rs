//! Streams, of a node in this process or of one to which it is attached.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use anabranch::{
    AduStream, Field, Outgoing, StreamFailure,
    local::client,
    net::session::{Adu, SendError},
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{
    buffer, event,
    failure::Failed,
    fork::Owned,
    message::Message,
    operation::{self, nothing, value},
    report, words,
};

/// Bytes that are taken from a stream at once, to be handed out one message after the other.
const TAKEN_MAX: usize = 64 << 10;

/// A stream here, with messages that were taken from it and not handed out yet.
#[derive(Clone)]
pub(crate) struct Here {
    stream: anabranch::Stream,
    taken: Arc<Mutex<VecDeque<Adu>>>,
}

impl Here {
    fn poll_receive(&self, cx: &Context<'_>) -> Poll<Result<Option<Adu>, StreamFailure>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(adu) = taken.pop_front() {
            return Poll::Ready(Ok(Some(adu)));
        }
        let mut adus = Vec::new();
        let polled = self.stream.poll_recv_many(cx, &mut adus, TAKEN_MAX);
        polled.map_ok(|_| {
            taken.extend(adus);
            taken.pop_front()
        })
    }
}

/// Either kind of stream.
pub(crate) enum Either {
    Here(Here),
    Attached(client::Stream),
}

/// The same expression for either kind.
macro_rules! either {
    ($of:expr, $stream:ident => $result:expr) => {
        match $of {
            Either::Here(here) => {
                let $stream = here.stream.clone();
                $result
            }
            Either::Attached(attached) => {
                let $stream = attached.clone();
                $result
            }
        }
    };
}

/// A stream of messages.
#[pyclass(frozen, weakref)]
pub(crate) struct Stream(Owned<Either>);

impl Stream {
    pub(crate) fn here(stream: anabranch::Stream) -> Self {
        let taken = Arc::default();
        Self(Owned::new(Either::Here(Here { stream, taken })))
    }

    pub(crate) fn attached(stream: client::Stream) -> Self {
        Self(Owned::new(Either::Attached(stream)))
    }
}

/// Value of a header field.
#[derive(FromPyObject)]
enum FieldWord {
    Boolean(bool),
    Number(f64),
    Text(String),
}

/// Header fields by name.
type Fields = Vec<(String, FieldWord)>;

fn named(fields: Fields) -> Vec<(String, Field)> {
    let field = |word| match word {
        FieldWord::Boolean(is_true) => Field::Boolean(is_true),
        FieldWord::Number(number) => Field::Number(number),
        FieldWord::Text(text) => Field::Text(text),
    };
    let fields = fields.into_iter();
    fields.map(|(name, word)| (name, field(word))).collect()
}

fn message(py: Python<'_>, adu: Option<Adu>) -> PyResult<Py<PyAny>> {
    match adu {
        Some(adu) => Ok(Py::new(py, Message::new(adu))?.into_any()),
        None => Ok(py.None()),
    }
}

#[pymethods]
impl Stream {
    #[getter]
    fn id(&self) -> PyResult<u64> {
        Ok(either!(self.0.get()?, stream => stream.id().0))
    }

    #[getter]
    fn can_send(&self) -> PyResult<bool> {
        Ok(either!(self.0.get()?, stream => stream.can_send()))
    }

    #[getter]
    fn can_receive(&self) -> PyResult<bool> {
        Ok(either!(self.0.get()?, stream => stream.can_receive()))
    }

    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        either!(self.0.get()?, stream => report::stream_spec(py, stream.spec()))
    }

    /// Queues `prefix` and a buffer as one message, and returns its number.
    #[pyo3(signature = (data, importance=0, prefix=None, fields=None))]
    fn send(
        &self,
        data: &Bound<'_, PyAny>,
        importance: u8,
        prefix: Option<&[u8]>,
        fields: Option<Fields>,
    ) -> PyResult<Py<PyAny>> {
        let py = data.py();
        let of = self.0.get()?;
        let data = buffer::copied(data, prefix.unwrap_or_default())?;
        let mut adu = Outgoing {
            data,
            importance,
            fields: fields.map(named).unwrap_or_default(),
        };
        if let Either::Here(Here { stream, .. }) = of {
            let bytes = std::mem::take(&mut adu.data);
            let sent = py.detach(|| match adu.fields.is_empty() {
                true => stream.try_send_important(bytes, importance),
                false => stream.try_send_with_fields(bytes, importance, &adu.field_values()),
            });
            match sent {
                Ok(number) => return Ok(number.into_pyobject(py)?.into_any().unbind()),
                Err(StreamFailure::Send(SendError::Full(back))) => adu.data = back,
                Err(failure) => return Err(Failed::from(failure).into()),
            }
        }
        either!(of, stream => operation::start(py, async move {
            let number = AduStream::send(&stream, adu).await?;
            Ok(value(move |py| Ok(number.into_pyobject(py)?.into_any().unbind())))
        }))
    }

    /// Sets header fields of a message; false if its outcome is known already.
    fn update_fields(&self, py: Python<'_>, message: u64, fields: Fields) -> PyResult<Py<PyAny>> {
        let fields = named(fields);
        either!(self.0.get()?, stream => operation::start(py, async move {
            let values: Vec<_> = fields
                .iter()
                .map(|(name, field)| (name.as_str(), field.value()))
                .collect();
            let updated = AduStream::update_fields(&stream, message, &values).await?;
            Ok(value(move |py| Ok(updated.into_pyobject(py)?.to_owned().into_any().unbind())))
        }))
    }

    /// Changes weight, cap, drop order or redundancy, as JSON of a specification: what is in it. `null` removes a cap or order.
    fn adjust(&self, py: Python<'_>, changes: &str) -> PyResult<Py<PyAny>> {
        let parameters = words::parameters(changes)?;
        either!(self.0.get()?, stream => operation::start(py, async move {
            AduStream::adjust(&stream, parameters).await?;
            Ok(nothing())
        }))
    }

    /// Gives up what is not sent completely; the number of messages and their bytes.
    fn discard(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, stream => operation::start(py, async move {
            let discarded = AduStream::discard(&stream).await?;
            let counts = (discarded.adus, discarded.bytes);
            Ok(value(move |py| Ok(counts.into_pyobject(py)?.into_any().unbind())))
        }))
    }

    /// The next message; `None` after the last.
    fn receive(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.0.get()? {
            Either::Here(here) => {
                match py.detach(|| here.poll_receive(&Context::from_waker(Waker::noop()))) {
                    Poll::Ready(Ok(adu)) => return message(py, adu),
                    Poll::Ready(Err(failure)) => return Err(Failed::from(failure).into()),
                    Poll::Pending => {}
                }
                let here = here.clone();
                operation::start(py, async move {
                    let adu = poll_fn(|cx| here.poll_receive(cx)).await?;
                    Ok(value(|py| message(py, adu)))
                })
            }
            Either::Attached(stream) => {
                let stream = stream.clone();
                operation::start(py, async move {
                    let adu = stream.recv().await?;
                    Ok(value(|py| message(py, adu)))
                })
            }
        }
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let done = either!(self.0.get()?, stream => py.detach(|| {
            AduStream::finish(&stream).map_err(Failed::from)
        }));
        Ok(done?)
    }

    fn reset(&self, py: Python<'_>, code: u32) -> PyResult<()> {
        let done = either!(self.0.get()?, stream => py.detach(|| {
            AduStream::reset(&stream, code).map_err(Failed::from)
        }));
        Ok(done?)
    }

    fn stop(&self, py: Python<'_>, code: u32) -> PyResult<()> {
        let done = either!(self.0.get()?, stream => py.detach(|| {
            AduStream::stop(&stream, code).map_err(Failed::from)
        }));
        Ok(done?)
    }

    fn delivered(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, stream => operation::start(py, async move {
            AduStream::delivered(&stream).await?;
            Ok(nothing())
        }))
    }

    fn next_event(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, stream => operation::start(py, async move {
            let happened = AduStream::next_event(&stream).await?;
            Ok(value(move |py| {
                Ok(event::stream(py, &happened)?.into_pyobject(py)?.into_any().unbind())
            }))
        }))
    }

    fn next_promise(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, stream => operation::start(py, async move {
            let happened = AduStream::next_promise(&stream).await?;
            Ok(value(move |py| {
                Ok(event::promise(py, &happened)?.into_pyobject(py)?.into_any().unbind())
            }))
        }))
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        either!(self.0.get()?, stream => operation::start(py, async move {
            let explained = AduStream::explain(&stream).await?;
            Ok(value(move |py| match explained {
                Some(explained) => Ok(report::explanation(py, &explained)?.into_any().unbind()),
                None => Ok(py.None()),
            }))
        }))
    }

    /// Probability that a message would arrive in time; `None` while it is not known.
    fn on_time(&self, py: Python<'_>, bytes: usize, within_s: f64) -> PyResult<Py<PyAny>> {
        let within = Duration::try_from_secs_f64(within_s).map_err(|_| {
            PyValueError::new_err(format!(
                "{within_s} is not a time in seconds; give 0 or more"
            ))
        })?;
        either!(self.0.get()?, stream => operation::start(py, async move {
            let probability = AduStream::on_time(&stream, bytes, within).await?;
            Ok(value(move |py| Ok(probability.into_pyobject(py)?.unbind())))
        }))
    }

    /// Asks for another guarantee, as JSON; `null` releases the promise.
    fn change_guarantee(&self, py: Python<'_>, guarantee: &str) -> PyResult<Py<PyAny>> {
        let guarantee = words::guarantee(guarantee)?;
        either!(self.0.get()?, stream => operation::start(py, async move {
            AduStream::change_guarantee(&stream, guarantee).await?;
            Ok(nothing())
        }))
    }
}
