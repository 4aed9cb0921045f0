//! `anabranch process status`.

use anabranch::{Session, base::text::printable, local::client};
use anabranch_processing::{
    ProcessingError,
    status::ask,
    wire::{
        Notice,
        message::{DerivationState, LoadState, ServiceState, SourceState, SubscriberState},
    },
};
use serde_json::json;

use super::{reach, tell};
use crate::exit::Outcome;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times of operators are shares of the time that their source's derivations took, by units of work. This node needs the right use-service in the \
configuration of the processing node: services = [\"process/1/status\"].")]
pub(super) struct Arguments {
    #[command(flatten)]
    reach: reach::Flags,
    /// Print lines of JSON.
    #[arg(long)]
    json: bool,
}

/// Question for the state.
struct Question;

impl reach::Program for Question {
    type Done = Vec<Notice>;

    async fn own(&self, session: &Session) -> Result<Vec<Notice>, ProcessingError> {
        ask(session).await
    }

    async fn attached(&self, session: &client::Session) -> Result<Vec<Notice>, ProcessingError> {
        ask(session).await
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let rows = arguments
        .reach
        .once("anabranch process status", &Question)
        .await?;
    for row in rows {
        let words = match &row {
            Notice::Service(service) => of_service(service),
            Notice::Source(source) => of_source(source),
            Notice::Derivation(derivation) => of_derivation(derivation),
            Notice::Subscriber(subscriber) => of_subscriber(subscriber),
            _ => continue,
        };
        tell(arguments.json, &json!(row), &words)?;
    }
    Ok(())
}

fn of_service(service: &ServiceState) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let sources = match service.sources {
        0 => "no stream is offered".to_owned(),
        1 => "1 stream is offered".to_owned(),
        count => format!("{count} streams are offered"),
    };
    let words = format!(
        "{sources}; {} of {} MiB are used; who is away is waited for {} s",
        mib(service.memory_used),
        mib(service.memory_bound),
        service.grace_ms / 1_000
    );
    match &service.load {
        Some(load) => format!("{words}\n{}", of_load(load)),
        None => words,
    }
}

fn of_load(load: &LoadState) -> String {
    let percent = |permille: u32| format!("{:.1} %", f64::from(permille) / 10.0);
    let machine = match load.machine_permille {
        Some(share) => format!("{} of {} cores", percent(share), load.cores),
        None => "unknown on this system".to_owned(),
    };
    let unit = load.unit_ps.map_or(String::new(), |ps| {
        format!(", {:.2} ns for a unit of work", ps as f64 / 1e3)
    });
    format!(
        "load: operators {} of a core{unit}; machine {machine}; {} ADUs, {} bytes wait",
        percent(load.operators_permille),
        load.queued_adus,
        load.queued_bytes
    )
}

fn of_source(source: &SourceState) -> String {
    let SourceState {
        name,
        node,
        adus,
        bytes,
        kept,
        chosen,
        ..
    } = source;
    let away = if source.is_present { "" } else { ", away" };
    let kind = if source.is_reliable {
        "reliable"
    } else {
        "unreliable"
    };
    let busy = source.busy_us as f64 / 1e3;
    let chosen = chosen.as_ref().map_or(String::new(), |why| {
        format!("\n  here because {}", printable(why, 500))
    });
    format!(
        "{name}  from {node}{away}, {kind}: {adus} ADUs, {bytes} bytes, {kept} kept, {busy:.1} ms of processing{chosen}"
    )
}

fn of_derivation(derivation: &DerivationState) -> String {
    let mut words = format!("  derivation for {} subscribers", derivation.subscribers);
    for operator in &derivation.operators {
        let busy = operator.busy_us as f64 / 1e3;
        words += &format!(
            "\n    {}: {} in, {} out, {} failed, {busy:.1} ms",
            operator.step, operator.adus_in, operator.adus_out, operator.failures
        );
    }
    words
}

fn of_subscriber(subscriber: &SubscriberState) -> String {
    let SubscriberState {
        node,
        change,
        sent,
        sent_bytes,
        queued,
        lost,
        failed,
        why,
        has_ended,
        ..
    } = subscriber;
    let end = if *has_ended {
        ", was too slow and gets nothing more"
    } else {
        ""
    };
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(" ({why})")
    };
    let promise = subscriber.promised_bps.map_or(String::new(), |bps| {
        format!(", promised {}", anabranch::base::Rate::from_bps(bps))
    });
    format!(
        "  subscriber {node}, pipeline {change}: {sent} ADUs, {sent_bytes} bytes, {queued} wait, {lost} lost, {failed} failed{why}{promise}{end}"
    )
}
