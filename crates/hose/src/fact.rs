//! Facts that objectives can use, about ADUs, streams and the slots that carry them.
//!
//! Every answer is one `f64`: numbers as they are, `false` and `true` as 0 and 1, strings as their [`symbol`]. Unknown
//! values are NaN.

/// A field's number; the same for every text that was compiled with the [`Vocabulary`](crate::Vocabulary).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u16);

/// Fact about one ADU. The first group is known before a slot is chosen; the others follow from the slot that carries it,
/// or from its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AduFact {
    /// Id of its stream.
    StreamId,
    /// Its position in its stream.
    StreamSeq,
    /// Payload in bytes.
    Length,
    /// Queueing delay so far in milliseconds.
    QueueDelay,
    /// Milliseconds from its injection to the end of its lifetime (extension); NaN if it has none.
    Deadline,
    /// Symbol of the label of its stream (extension).
    Label,
    /// A header field of the application.
    Field(FieldId),

    /// Probability in [0, 1] that it is lost; 0 or 1 once that is known.
    Loss,
    /// Expected milliseconds from its injection to its acknowledgement: queueing delay and round trip.
    Latency,
    /// Standard deviation of that time in milliseconds (extension); 0 once it is known.
    Jitter,
    /// Probability in [0, 1] that it is lost or its latency exceeds its deadline (extension).
    Late,
    /// Cost of its transmission, in the configured unit (extension).
    Cost,
    /// Number of the channel (extension).
    ChannelId,
    /// Symbol of the channel's name (extension).
    ChannelName,
    /// Symbol of the channel's technology, such as `lte` (extension).
    ChannelTechnology,
    /// True if the channel is metered (extension).
    ChannelMetered,
    /// Expected rate of the channel in bits per second (extension).
    ChannelRate,
    /// Another attribute of the channel (extension).
    ChannelField(FieldId),
}

/// Measured fact about one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamFact {
    /// Id of the stream; answered by the language itself.
    StreamId,
    /// Mean latency of its ADUs in milliseconds.
    LatencyMean,
    /// Standard deviation of their latency in milliseconds.
    LatencyDeviation,
    /// Share in [0, 1] of its ADUs that were lost.
    LossRate,
    /// Mean difference of the latencies of consecutive ADUs in milliseconds (extension).
    Jitter,
}

impl AduFact {
    /// True if the answer depends on the slot that carries the ADU.
    pub fn is_of_slot(self) -> bool {
        !matches!(
            self,
            Self::StreamId
                | Self::StreamSeq
                | Self::Length
                | Self::QueueDelay
                | Self::Deadline
                | Self::Label
                | Self::Field(_)
        )
    }

    /// True if the answer is a probability in [0, 1], which the language shows as 0 to 100.
    pub(crate) fn is_probability(self) -> bool {
        matches!(self, Self::Loss | Self::Late)
    }
}

impl StreamFact {
    pub(crate) fn is_probability(self) -> bool {
        matches!(self, Self::LossRate)
    }
}

/// Number that stands for a string: a hash of 53 bits, so that it is exact in an `f64`. Equal strings have equal symbols;
/// two different ones have different symbols except with a probability of 2⁻⁵³. O(length).
pub fn symbol(text: &str) -> f64 {
    // FNV-1a, then the finisher of splitmix64: FNV alone mixes its upper bits badly for short texts.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64
}

/// Text in place of a string of which only its [`symbol`] is known: `#` and 14 hexadecimal digits.
pub fn symbol_text(symbol: f64) -> String {
    format!("#{:014x}", symbol as u64)
}

/// The symbol of a string, or the one that [`symbol_text`] wrote.
pub fn symbol_of(text: &str) -> f64 {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 14);
    let written = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match written {
        Some(number) if number < (1 << 53) => number as f64,
        _ => symbol(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_distinguish_strings_and_are_exact() {
        let words = ["", "I", "P", "B", "i", "lte", "lte ", "wifi"];
        for (i, a) in words.iter().enumerate() {
            assert!(symbol(a) >= 0.0 && symbol(a) < crate::NUMBER_MAX && symbol(a).fract() == 0.0);
            for (j, b) in words.iter().enumerate() {
                assert_eq!(symbol(a) == symbol(b), i == j);
            }
        }
    }

    #[test]
    fn a_symbol_is_written_and_read() {
        for text in ["", "I", "#", "#0000000000000g", "#ffffffffffffff"] {
            assert_eq!(symbol_of(text), symbol(text), "{text}");
            assert_eq!(
                symbol_of(&symbol_text(symbol(text))),
                symbol(text),
                "{text}"
            );
        }
    }
}
