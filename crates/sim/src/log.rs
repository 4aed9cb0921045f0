//! Packet log: one readable line per packet; two runs can be compared byte by byte.

use std::fmt::Write;

use anabranch_base::Instant;
use anabranch_link::Verdict;

use crate::hop::{CrossIndex, Hop};

/// Log of lines like `     1203.500 ms  wire 0 →  1500 B  arrives 1213.620 ms` or `… lost (queue full)`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PacketLog {
    text: String,
}

impl PacketLog {
    /// Logs the verdict of a hop on a packet; `cross` is the source of cross-traffic, if the packet belongs to one.
    pub(crate) fn verdict(
        &mut self,
        now: Instant,
        hop: Hop,
        cross: Option<CrossIndex>,
        ip_bytes: usize,
        verdict: &Verdict,
    ) {
        let arrow = if hop.forward { '→' } else { '←' };
        let (ms, wire) = (now.as_millis_f64(), hop.wire);
        self.write(format_args!(
            "{ms:13.3} ms  wire {wire} {arrow} {ip_bytes:5} B  "
        ));
        if let Some(cross) = cross {
            self.write(format_args!("cross {cross} "));
        }
        match verdict {
            Verdict::Deliver { at, .. } => {
                self.write(format_args!("arrives {:.3} ms\n", at.as_millis_f64()));
            }
            Verdict::Drop(reason) => self.write(format_args!("dropped ({reason:?})\n")),
        }
    }

    /// Logs an event that concerns no node.
    pub(crate) fn event(&mut self, now: Instant, words: std::fmt::Arguments<'_>) {
        let ms = now.as_millis_f64();
        self.write(format_args!("{ms:13.3} ms  {words}\n"));
    }

    pub(crate) fn note(&mut self, now: Instant, node: usize, words: std::fmt::Arguments<'_>) {
        let ms = now.as_millis_f64();
        self.write(format_args!("{ms:13.3} ms  node {node}  {words}\n"));
    }

    fn write(&mut self, words: std::fmt::Arguments<'_>) {
        self.text
            .write_fmt(words)
            .expect("writing to a string cannot fail");
    }

    /// The whole log.
    pub fn text(&self) -> &str {
        &self.text
    }
}
