//! The packet log: one line per packet, for people, and for comparing two runs byte by byte.

use std::fmt::Write;

use anabranch_base::Instant;

/// Lines like
/// `     1203.500 ms  wire 0 →  1500 B  arrives 1213.620 ms` or `… lost (queue full)`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PacketLog {
    text: String,
}

impl PacketLog {
    pub(crate) fn packet(
        &mut self,
        now: Instant,
        wire: usize,
        forward: bool,
        ip_bytes: usize,
        outcome: std::fmt::Arguments<'_>,
    ) {
        let arrow = if forward { '→' } else { '←' };
        let ms = now.as_millis_f64();
        writeln!(
            self.text,
            "{ms:13.3} ms  wire {wire} {arrow} {ip_bytes:5} B  {outcome}"
        )
        .expect("writing to a string cannot fail");
    }

    pub(crate) fn note(&mut self, now: Instant, node: usize, words: std::fmt::Arguments<'_>) {
        let ms = now.as_millis_f64();
        writeln!(self.text, "{ms:13.3} ms  node {node}  {words}")
            .expect("writing to a string cannot fail");
    }

    /// The whole log.
    pub fn text(&self) -> &str {
        &self.text
    }
}
