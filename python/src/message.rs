//! A received message, which lends its memory to Python without a copy.

use std::ffi::{c_int, c_void};

use anabranch::net::session::Adu;
use pyo3::{exceptions::PyBufferError, ffi, prelude::*, types::PyBytes};

/// A received message: a read-only buffer of bytes.
#[pyclass(frozen, weakref)]
pub(crate) struct Message(Adu);

impl Message {
    pub(crate) fn new(adu: Adu) -> Self {
        Self(adu)
    }
}

#[pymethods]
impl Message {
    /// Its number in its stream, from 0.
    #[getter]
    fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Ranges of bytes that did not arrive and are zero.
    #[getter]
    fn missing(&self) -> Vec<(u64, u64)> {
        let ranges = self.0.missing.ranges.iter();
        ranges.map(|range| (range.start, range.end)).collect()
    }

    /// True if its end is missing.
    #[getter]
    fn is_cut(&self) -> bool {
        self.0.missing.is_cut
    }

    fn __len__(&self) -> usize {
        self.0.data.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.data)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Message {} of {} bytes>",
            self.0.sequence,
            self.0.data.len()
        )
    }

    #[allow(unsafe_code, reason = "the buffer protocol is one of pointers")]
    // SAFETY: called by the interpreter, which passes a view to be filled.
    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let data = &this.get().0.data;
        let start = data.as_ptr().cast::<c_void>().cast_mut();
        let size = data.len() as ffi::Py_ssize_t;
        // SAFETY: the view holds a reference to the message, whose data never moves or changes; it is marked as read-only.
        match unsafe { ffi::PyBuffer_FillInfo(view, this.as_ptr(), start, size, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }
}
