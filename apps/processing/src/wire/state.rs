//! State of a service, in the answers to a question for it.

use serde::{Deserialize, Serialize};

/// State of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// Memory that is used for what is kept, in bytes.
    pub memory_used: u64,
    /// Memory that may be used for it, in bytes.
    pub memory_bound: u64,
    /// Time for which sources and reliable subscribers are waited for, in milliseconds.
    pub grace_ms: u64,
    /// Sources.
    pub sources: u64,
    /// Streams of sources and subscribers.
    pub streams: u64,
    /// Time spent in operators of the present sources, in microseconds.
    pub busy_us: u64,
    /// Load of the last seconds; `None`: none was taken yet, or the service is older than this field.
    #[serde(default)]
    pub load: Option<LoadState>,
}

/// Load of a service over the last seconds, smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadState {
    /// Thousandths of the machine's processors that all programs use; `None`: the service cannot know it there.
    pub machine_permille: Option<u32>,
    /// Processors of the machine; 0: unknown.
    pub cores: u32,
    /// Thousandths of a processor that operators use.
    pub operators_permille: u32,
    /// Derived ADUs that wait for subscribers.
    pub queued_adus: u64,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Mean time of a unit of work, in picoseconds; `None`: there was no work yet.
    pub unit_ps: Option<u64>,
}

/// State of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// Name of its stream.
    pub name: String,
    /// Its node.
    pub node: String,
    /// False while it is away.
    pub is_present: bool,
    /// True if no ADU may be lost or repeated.
    pub is_reliable: bool,
    /// ADUs received.
    pub adus: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Reliable source: ADUs that are kept for subscribers.
    pub kept: u64,
    /// Time spent in operators, in microseconds.
    pub busy_us: u64,
    /// Units of work in that time.
    pub work: u64,
    /// Reason for which it is at this service; `None`: it does not choose its place, or has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
}

/// State of an operator of a derivation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// Its step, cut to 200 characters.
    pub step: String,
    /// ADUs that it received.
    pub adus_in: u64,
    /// ADUs that it returned.
    pub adus_out: u64,
    /// ADUs that it could not process.
    pub failures: u64,
    /// Units of work.
    pub work: u64,
    /// The time that these took, in microseconds, at the mean time of a unit of the source's derivations.
    pub busy_us: u64,
}

/// State of a derivation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivationState {
    /// Its subscribers.
    pub subscribers: u64,
    /// Its operators, in order.
    pub operators: Vec<OperatorState>,
}

/// State of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberState {
    /// Its node.
    pub node: String,
    /// Number of its pipeline.
    pub change: u32,
    /// Pipeline, cut to 200 characters.
    pub pipeline: String,
    /// True if no derived ADU may be lost or repeated.
    pub is_reliable: bool,
    /// ADUs sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// ADUs that wait.
    pub queued: u64,
    /// ADUs that it did not take in time.
    pub lost: u64,
    /// ADUs of the source that the pipeline could not process.
    pub failed: u64,
    /// The last failure; empty without one.
    pub why: String,
    /// Rate that is promised, in bit/s; `None`: none is.
    pub promised_bps: Option<u64>,
    /// True if it was too slow, and nothing more is derived for it.
    #[serde(default)]
    pub has_ended: bool,
}
