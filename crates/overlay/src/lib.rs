//! The overlay: a small set of nodes that know each other by key, measure the links between them and
//! carry each other's packets [Daemons §2].
//!
//! Sans-IO: what arrives goes in with the time, what should be done comes out.
