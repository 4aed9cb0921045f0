//! Built-in names of the language: reserved words, predefined fields, functions.

use crate::{
    fact::{AduFact, StreamFact},
    syntax::ast::Level,
    types::Type,
};

/// Reserved words of the published language [Horde §B.4].
const PUBLISHED: &[&str] = &[
    "objective",
    "context",
    "goal",
    "utility",
    "adu",
    "stream",
    "true",
    "false",
    "correlated_loss",
    "prob",
    "expected",
    "max",
    "min",
    "abs",
    "lost?",
    "latency",
    "stream_id",
    "stream_seq",
    "length",
    "queue_delay",
    "loss_rate",
    "latency_ave",
    "latency_sdev",
];
/// Further reserved words of the extended language.
const EXTENDED: &[&str] = &[
    "rate", "field", "cost", "jitter", "deadline", "label", "late?", "channel",
];

/// A name with its meaning, and the level that introduced it.
pub(crate) struct Entry<T> {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) means: T,
}

const fn published<T>(name: &'static str, means: T) -> Entry<T> {
    let level = Level::Published;
    Entry { name, level, means }
}

const fn extended<T>(name: &'static str, means: T) -> Entry<T> {
    let level = Level::Extended;
    Entry { name, level, means }
}

/// Fields of ADUs [Horde §B.2.6].
pub(crate) const ADU_FIELDS: &[Entry<(AduFact, Type)>] = &[
    published("stream_id", (AduFact::StreamId, Type::Numeric)),
    published("stream_seq", (AduFact::StreamSeq, Type::Numeric)),
    published("length", (AduFact::Length, Type::Numeric)),
    published("queue_delay", (AduFact::QueueDelay, Type::Numeric)),
    published("lost?", (AduFact::Loss, Type::BooleanDistribution)),
    published("latency", (AduFact::Latency, Type::NumericDistribution)),
    extended("deadline", (AduFact::Deadline, Type::Numeric)),
    extended("label", (AduFact::Label, Type::String)),
    extended("late?", (AduFact::Late, Type::BooleanDistribution)),
];

/// Fields of streams [Horde §B.2.6].
pub(crate) const STREAM_FIELDS: &[Entry<StreamFact>] = &[
    published("stream_id", StreamFact::StreamId),
    published("latency_ave", StreamFact::LatencyMean),
    published("latency_sdev", StreamFact::LatencyDeviation),
    published("loss_rate", StreamFact::LossRate),
    extended("jitter", StreamFact::Jitter),
];

/// Attributes of channels.
pub(crate) const CHANNEL_FIELDS: &[Entry<(AduFact, Type)>] = &[
    extended("id", (AduFact::ChannelId, Type::Numeric)),
    extended("name", (AduFact::ChannelName, Type::String)),
    extended("technology", (AduFact::ChannelTechnology, Type::String)),
    extended("metered", (AduFact::ChannelMetered, Type::Boolean)),
    extended("rate", (AduFact::ChannelRate, Type::Numeric)),
];

/// Built-in function of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Expected,
    Prob,
    CorrelatedLoss,
    Min,
    Max,
    Abs,
    Jitter,
    Cost,
}

/// Functions, each with its syntax.
pub(crate) const FUNCTIONS: &[Entry<(Function, &str)>] = &[
    published("expected", (Function::Expected, "expected(a::latency)")),
    published("prob", (Function::Prob, "prob(a::lost?)")),
    published(
        "correlated_loss",
        (Function::CorrelatedLoss, "correlated_loss(a, b)"),
    ),
    published("min", (Function::Min, "min(x, y)")),
    published("max", (Function::Max, "max(x, y)")),
    published("abs", (Function::Abs, "abs(x)")),
    extended("jitter", (Function::Jitter, "jitter(a::latency)")),
    extended("cost", (Function::Cost, "cost(a)")),
];

/// True if applications may not use the name for variables and fields.
pub(crate) fn is_reserved(name: &str, level: Level) -> bool {
    PUBLISHED.contains(&name) || (level == Level::Extended && EXTENDED.contains(&name))
}

/// The entry of that name, in a text of that level.
pub(crate) fn find<'e, T>(
    entries: &'e [Entry<T>],
    name: &str,
    level: Level,
) -> Option<&'e Entry<T>> {
    entries
        .iter()
        .find(|entry| entry.name == name && entry.level <= level)
}

/// Names that a text of that level may use.
pub(crate) fn names<T>(entries: &[Entry<T>], level: Level) -> impl Iterator<Item = &str> {
    entries
        .iter()
        .filter(move |entry| entry.level <= level)
        .map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_language_is_reserved() {
        let adu = ADU_FIELDS.iter().map(|entry| (entry.name, entry.level));
        let stream = STREAM_FIELDS.iter().map(|entry| (entry.name, entry.level));
        let functions = FUNCTIONS.iter().map(|entry| (entry.name, entry.level));
        for (name, level) in adu.chain(stream).chain(functions) {
            assert!(is_reserved(name, level), "{name}");
            assert!(is_reserved(name, Level::Extended), "{name}");
        }
        assert!(!is_reserved("cost", Level::Published));
    }
}
