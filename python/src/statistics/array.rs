//! Arrays of NumPy as slices.

use pyo3::{
    buffer::{Element, PyBuffer},
    prelude::*,
};

use super::refused;

/// A contiguous array, held by its buffer.
pub(crate) struct Array<T: Element>(PyBuffer<T>);

impl<'a, 'py, T: Element> FromPyObject<'a, 'py> for Array<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer: PyBuffer<T> = object.extract()?;
        match buffer.is_c_contiguous() {
            true => Ok(Self(buffer)),
            false => Err(refused("the array is not contiguous").into()),
        }
    }
}

impl<T: Element> Array<T> {
    /// The items in the order of memory.
    pub(super) fn items(&self) -> &[T] {
        let count = self.0.item_count();
        if count == 0 {
            return &[];
        }
        #[allow(unsafe_code, reason = "the buffer protocol is one of pointers")]
        // SAFETY: the buffer is contiguous, aligned for its type (PyO3 checks both), and held as long as this is. Another thread
        // that writes to it meanwhile makes the result meaningless, as with every function that reads an array without the lock.
        unsafe {
            std::slice::from_raw_parts(self.0.buf_ptr().cast::<T>(), count)
        }
    }

    /// Replaces all items.
    ///
    /// # Errors
    /// The array is read-only, or has another number of items.
    pub(super) fn fill(&self, py: Python<'_>, items: &[T]) -> PyResult<()> {
        self.0.copy_from_slice(py, items)
    }
}
