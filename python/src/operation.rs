//! Pending operations, polled by the Python thread that waits for them. An operation that is dropped, because its task was
//! cancelled or its thread interrupted, has taken nothing from its stream.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use pyo3::{exceptions::PyRuntimeError, exceptions::PyTimeoutError, prelude::*};

use crate::{
    bridge::Bridge,
    failure::Failed,
    fork::Owned,
    runtime,
    signal::{Signal, Target},
};

/// Longest sleep of a waiting thread between two looks for signals, so that Ctrl-C is obeyed.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Makes the Python value of a result, once the interpreter can be entered.
pub(crate) type Value = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send>;
type Pending = Pin<Box<dyn Future<Output = Result<Value, Failed>> + Send>>;

struct Running {
    future: Mutex<Option<Pending>>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// A pending operation.
#[pyclass(frozen)]
pub(crate) struct Operation(Owned<Running>);

/// Makes a [`Value`].
pub(crate) fn value<F>(make: F) -> Value
where
    F: for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send + 'static,
{
    Box::new(make)
}

/// The value `None`.
pub(crate) fn nothing() -> Value {
    value(|py| Ok(py.None()))
}

/// Starts an operation: its result if it is ready at once, or else an [`Operation`].
pub(crate) fn start<F>(py: Python<'_>, future: F) -> PyResult<Py<PyAny>>
where
    F: Future<Output = Result<Value, Failed>> + Send + 'static,
{
    let runtime = runtime::handle()?;
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(signal.clone());
    let mut future: Pending = Box::pin(future);
    let polled = py.detach(|| {
        let _entered = runtime.enter();
        future.as_mut().poll(&mut Context::from_waker(&waker))
    });
    match polled {
        Poll::Ready(result) => result?(py),
        Poll::Pending => {
            let running = Running {
                future: Mutex::new(Some(future)),
                signal,
                waker,
            };
            Ok(Py::new(py, Operation(Owned::new(running)))?.into_any())
        }
    }
}

impl Running {
    /// Polls once; `None`: pending.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let runtime = runtime::handle()?;
        let result = py.detach(|| {
            let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            let _entered = runtime.enter();
            let polled = future
                .as_mut()
                .map(|future| future.as_mut().poll(&mut Context::from_waker(&self.waker)));
            if !matches!(polled, Some(Poll::Pending)) {
                *future = None;
            }
            polled
        });
        match result {
            Some(Poll::Ready(result)) => result?(py).map(Some),
            Some(Poll::Pending) => Ok(None),
            None => Err(PyRuntimeError::new_err("the operation is over")),
        }
    }
}

#[pymethods]
impl Operation {
    /// Continues the operation: its result, or the operation itself while it is pending.
    fn poll(this: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let polled = this.get().0.get()?.poll(this.py())?;
        Ok(polled.unwrap_or_else(|| this.into_any().unbind()))
    }

    /// Makes the loop of `bridge` hear of `token` when the operation can continue. False if it can now.
    fn aim(&self, bridge: &Bridge, token: u64) -> PyResult<bool> {
        let target = Target::Loop(bridge.shared()?.clone(), token);
        Ok(self.0.get()?.signal.aim(target))
    }

    /// Waits in this thread for the result, `timeout` seconds at most.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let running = self.0.get()?;
        let limit = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
        // A time that no clock can hold is no limit.
        let end = limit.and_then(|limit| Instant::now().checked_add(limit.ok()?));
        loop {
            let thread = std::thread::current();
            if running.signal.aim(Target::Thread(thread)) {
                let now = Instant::now();
                let left = end.map(|end| end.saturating_duration_since(now));
                if left == Some(Duration::ZERO) {
                    // What came in the meantime counts.
                    return match running.poll(py)? {
                        Some(result) => Ok(result),
                        None => Err(PyTimeoutError::new_err("the time-out has passed")),
                    };
                }
                py.detach(|| {
                    std::thread::park_timeout(left.unwrap_or(SIGNAL_CHECK).min(SIGNAL_CHECK));
                });
                py.check_signals()?;
            }
            if let Some(result) = running.poll(py)? {
                return Ok(result);
            }
        }
    }

    /// Ends the operation.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.0.get()?;
        py.detach(|| {
            let future = {
                let mut future = running.future.lock();
                future.as_mut().map_or(None, |future| future.take())
            };
            if let Ok(runtime) = runtime::handle() {
                let _entered = runtime.enter();
                drop(future);
            }
        });
        Ok(())
    }
}
