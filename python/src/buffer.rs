//! Buffers of Python as data to send: copied once, without the interpreter's lock.

use bytes::Bytes;
use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};

/// Start of a buffer's memory.
struct Start(*const u8);

#[allow(
    unsafe_code,
    reason = "a buffer that is held keeps its memory in place"
)]
// SAFETY: only used while the buffer is held, for reading.
unsafe impl Send for Start {}
#[allow(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Start {}

/// Bytes up to this size are copied with the lock held, which is quicker than to give it away.
const SMALL: usize = 4096;

/// The bytes of `prefix`, and then those of a contiguous buffer of any item type: `bytes`, `memoryview`, `array`, NumPy arrays
/// in either order.
///
/// # Errors
/// The object has no buffer, or one with gaps.
pub(crate) fn copied(data: &Bound<'_, PyAny>, prefix: &[u8]) -> PyResult<Bytes> {
    let py = data.py();
    let buffer = PyUntypedBuffer::get(data).map_err(|error| {
        let kind = data.get_type();
        let text = format!("{kind} cannot be sent; give an object with a buffer, such as bytes, memoryview or a NumPy array");
        let refused = PyTypeError::new_err(text);
        refused.set_cause(py, Some(error));
        refused
    })?;
    if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
        return Err(PyValueError::new_err(
            "the buffer has gaps; send a contiguous copy of it, such as numpy.ascontiguousarray(array)",
        ));
    }
    let (start, size) = (Start(buffer.buf_ptr().cast()), buffer.len_bytes());
    let copy = move || {
        let start = &start;
        let mut bytes = Vec::with_capacity(prefix.len() + size);
        bytes.extend_from_slice(prefix);
        if size > 0 {
            #[allow(unsafe_code, reason = "the buffer protocol is one of pointers")]
            // SAFETY: the buffer is contiguous, has `size` bytes and is held until this returns. Another thread that writes to
            // it meanwhile makes its bytes undefined, as it does for every function that reads a buffer without the lock.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start.0, size) });
        }
        Bytes::from(bytes)
    };
    let bytes = if size <= SMALL {
        copy()
    } else {
        py.detach(copy)
    };
    buffer.release(py);
    Ok(bytes)
}
