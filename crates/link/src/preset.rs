//! Links by intent.
