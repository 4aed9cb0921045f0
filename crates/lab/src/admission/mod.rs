//! Admission on random sets of streams.
pub mod exact;
mod rows;
pub use rows::Rows;
