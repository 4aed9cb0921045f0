//! Flags with which a stream asks for a promise.

use anabranch::spec::GuaranteeText;

/// What is to be promised. Values are checked together, by the library.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Promise")]
pub(crate) struct Flags {
    /// The rate that each window needs, such as '22 Mbit/s'; with --probability or --late.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    rate: Option<String>,
    /// In which share of all windows, above 0 % and below 100 %; at most '99 %' can be promised, and '99.6 %' as
    /// a durable promise.
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    probability: Option<String>,
    /// Instead of a rate: to be served of so many packets, such as 80/100; with --packet-bytes and
    /// --probability.
    #[arg(long, value_name = "X/Y")]
    packets: Option<String>,
    /// Size of a packet, for --packets and --late.
    #[arg(long, value_name = "BYTES")]
    packet_bytes: Option<u32>,
    /// Instead of a probability: at most so many packets miss their window on average; with --rate and
    /// --packet-bytes.
    #[arg(long, value_name = "PACKETS")]
    late: Option<f64>,
    /// The window, '1 s' to '10 s' in whole seconds [default: 1 s].
    #[arg(long, value_name = "DURATION")]
    window: Option<String>,
    /// The term of a renewable promise, from one window to '10 s' [default: 10 s].
    #[arg(long, value_name = "DURATION")]
    term: Option<String>,
    /// durable (until the stream closes), renewable (for a term, again and again), or the best of these that
    /// can be had [default: best].
    #[arg(long, value_name = "GRADE")]
    grade: Option<String>,
}

impl Flags {
    /// As the library reads it; `None` when nothing is asked for.
    pub(crate) fn text(&self) -> Option<GuaranteeText> {
        let flags = self.clone();
        let text = GuaranteeText {
            rate: flags.rate,
            probability: flags.probability,
            packets: flags.packets,
            packet_bytes: flags.packet_bytes,
            late_packets: flags.late,
            window: flags.window,
            term: flags.term,
            grade: flags.grade,
            waits: None,
        };
        (text != GuaranteeText::default()).then_some(text)
    }
}

/// The flag of a key.
pub(crate) fn flag(key: &str) -> String {
    match key {
        "late_packets" => "--late".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}
