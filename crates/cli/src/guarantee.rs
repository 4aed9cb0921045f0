//! Flags of the guarantee that a stream asks for.

use anabranch::spec::GuaranteeText;

/// Demand of a stream. The library checks the values, together.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Promise")]
pub(crate) struct Flags {
    /// Rate that each window needs, such as '22 Mbit/s'; needs --probability or --late.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    rate: Option<String>,
    /// Share of windows that must reach the rate, above 0 % and below 100 %; at most '99 %' can be promised, or
    /// '99.6 %' as a durable promise.
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    probability: Option<String>,
    /// Instead of a rate: X of the Y packets of a window must be served in it, such as 80/100; needs --packet-bytes and
    /// --probability.
    #[arg(long, value_name = "X/Y")]
    packets: Option<String>,
    /// Size of a packet, for --packets and --late.
    #[arg(long, value_name = "BYTES")]
    packet_bytes: Option<u32>,
    /// Instead of a probability: mean number of packets that may miss their window; needs --rate and --packet-bytes.
    #[arg(long, value_name = "PACKETS")]
    late: Option<f64>,
    /// Another rate at which the source can send, such as '6 Mbit/s'; may be repeated. The highest of these and --rate that can be
    /// promised is; the command shows changes, at most one in 30 s.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    level: Vec<String>,
    /// Reaction when the promise is warned: stay; 'take offer', a smaller promise takes its place until its own can be made again; or
    /// close, the stream is finished [default: stay].
    #[arg(long, value_name = "REACTION")]
    on_warning: Option<String>,
    /// Scheduling window, '1 s' to '10 s' in whole seconds [default: 1 s].
    #[arg(long, value_name = "DURATION")]
    window: Option<String>,
    /// Term of a renewable promise, from one window to '10 s' [default: 10 s].
    #[arg(long, value_name = "DURATION")]
    term: Option<String>,
    /// Grade of the promise: durable (until the stream closes, or a warning has stood for a minute), renewable (for a term, then renewed), or best, the
    /// better of the two that is available [default: best].
    #[arg(long, value_name = "GRADE")]
    grade: Option<String>,
}

impl Flags {
    /// The flags in the form that the library reads; `None` if no flag is given.
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
            levels: (!flags.level.is_empty()).then_some(flags.level),
            on_warning: flags.on_warning,
        };
        (text != GuaranteeText::default()).then_some(text)
    }
}

/// Name of the flag for a key of [`GuaranteeText`], for messages.
pub(crate) fn flag(key: &str) -> String {
    match key {
        "late_packets" => "--late".to_owned(),
        "levels" => "--level".to_owned(),
        key => format!("--{}", key.replace('_', "-")),
    }
}
