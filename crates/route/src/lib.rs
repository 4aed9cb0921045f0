//! The overlay as a graph: which ways a message should take, and how it is divided among them
//! [Daemons §4, §5]. One algorithm a file; no clock, no sockets, no state but what the caller hands in.
