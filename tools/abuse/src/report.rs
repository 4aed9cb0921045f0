//! Lines of JSON.

use std::error::Error;

use crate::{
    kinds::Kind,
    tally::Tally,
    victim::Victim,
};

/// Result of one kind.
pub(crate) fn of_kind(kind: &Kind, tally: &Tally) -> String {
    format!(
        "{{\"abuse\":\"{}\",\"attempts\":{},\"connected\":{},\"packets_sent\":{},\"bytes_sent\":{},\"packets_received\":{},\
         \"bytes_received\":{},\"closed_by_victim\":{},\"retries\":{}}}",
        kind.name,
        tally.attempts,
        tally.connected,
        tally.packets_sent,
        tally.bytes_sent,
        tally.packets_received,
        tally.bytes_received,
        tally.closed,
        tally.retries,
    )
}

/// A kind that could not run.
pub(crate) fn of_failure(kind: &Kind, error: &(dyn Error + Send + Sync)) -> String {
    let text = error.to_string().replace(['"', '\\'], "'");
    format!("{{\"abuse\":\"{}\",\"error\":\"{text}\"}}", kind.name)
}

/// The victim over the whole run.
pub(crate) fn of_victim(victim: &Victim, bound: u64, holds: bool) -> String {
    let kib = |bytes: u64| bytes >> 10;
    let seconds = victim.elapsed_s();
    format!(
        "{{\"victim\":true,\"is_alive\":{},\"seconds\":{seconds:.1},\"rss_before_kib\":{},\"rss_max_kib\":{},\"rss_last_kib\":{},\
         \"rss_above_start_kib\":{},\"bound_kib\":{},\"cpu_s\":{:.2},\"cpu_share\":{:.3},\"verdict\":\"{}\"}}",
        victim.is_alive,
        kib(victim.rss_before),
        kib(victim.rss_max),
        kib(victim.rss_last),
        kib(victim.rss_max.saturating_sub(victim.rss_before)),
        kib(bound),
        victim.cpu_s(),
        victim.cpu_s() / seconds,
        if holds {
            "within its bound"
        } else {
            "exceeded"
        },
    )
}
