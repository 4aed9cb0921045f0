//! Random worlds with faults.
