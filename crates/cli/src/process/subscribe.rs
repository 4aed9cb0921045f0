//! `anabranch process subscribe`.

use anabranch::{
    Session,
    base::{NodeId, Rate, text::printable},
    local::client,
    spec::{GuaranteeText, SpecText},
};
use anabranch_processing::{
    ProcessingError,
    process::{Adu, Value},
    subscribe::{Received, Settings, Subscriber},
    wire::message::{DEADLINE_MS_MAX, Demand, Part},
};
use serde_json::{Map, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    sync::mpsc,
};

use super::{
    modules::{self, Own},
    parse_name, reach, run_number,
};
use crate::{
    events,
    exit::{Failure, Outcome, note, stopped},
    stream::{self, Framing},
};

/// ADUs and messages that wait to be printed.
const RECEIVED_MAX: usize = 16;
/// Bytes of a line with a pipeline.
const LINE_BYTES_MAX: u64 = 16 << 10;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line of standard input is another pipeline, which takes effect with the source's next message. With --as json, each line of the output is an event; those \
of the kind adu have its number in the source's stream, and the number of the pipeline, counted from 0. Numbers that end with delta are printed whole.

When the processing node starts again, the subscription goes on where it was: without --unreliable and --lifetime, nothing is lost or repeated.

This node needs the right use-service in the configuration of the processing node, services = [\"process/1/subscribe/NAME/*\"], and the source must name it.")]
pub(super) struct Arguments {
    /// Name of the stream.
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    #[command(flatten)]
    reach: reach::Flags,
    #[command(flatten)]
    retry: reach::Retry,
    #[command(flatten)]
    pipeline: modules::Flags,
    /// Node that must be the source, by its ID [default: any].
    #[arg(long, value_name = "ID")]
    from: Option<NodeId>,
    /// Form of the output: `lines`, `frames`, `record` or `json`.
    #[arg(long = "as", value_name = "FORM", default_value = "lines", value_parser = stream::parse_form)]
    framing: Framing,
    /// Lost data is not sent again, and new messages take the place of those that wait.
    #[arg(long)]
    unreliable: bool,
    /// Time after which a message is of no use, such as '300 ms'.
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<String>,
    /// Priority: scavenger, bulk, normal, urgent, or 0 to 255.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Rate that is to be promised from the source to this node, such as '4 Mbit/s'.
    #[arg(long, value_name = "RATE", requires = "probability")]
    rate: Option<String>,
    /// Share of windows of 1 s that must reach the rate, such as '95 %'.
    #[arg(long, value_name = "PERCENT", requires = "rate")]
    probability: Option<String>,
    /// Time after which a message is late that the source promised, on top of the shortest time that one takes, such as '300 ms' [default: 500 ms].
    #[arg(long, value_name = "DURATION", requires = "rate", value_parser = parse_deadline)]
    deadline: Option<u32>,
}

/// A deadline in milliseconds.
fn parse_deadline(text: &str) -> Result<u32, String> {
    let spec = SpecText {
        lifetime: Some(text.to_owned()),
        ..SpecText::default()
    };
    let lifetime = spec.resolve().ok().and_then(|spec| spec.lifetime);
    let ms = lifetime.and_then(|lifetime| u32::try_from(lifetime.as_millis()).ok());
    let ms = ms.filter(|ms| (1..=DEADLINE_MS_MAX).contains(ms));
    ms.ok_or_else(|| {
        format!(
            "a deadline is a time from '1 ms' to '{} s'",
            DEADLINE_MS_MAX / 1_000
        )
    })
}

impl Arguments {
    fn demand(&self) -> Result<Option<Demand>, Failure> {
        if self.rate.is_none() {
            return Ok(None);
        }
        let text = GuaranteeText {
            rate: self.rate.clone(),
            probability: self.probability.clone(),
            ..GuaranteeText::default()
        };
        let guarantee = text
            .resolve(crate::guarantee::flag)
            .map_err(Failure::usage)?;
        let share = guarantee.probability().unwrap_or_default();
        Ok(Some(Demand {
            rate_bps: guarantee.required().as_bps(),
            share_ppm: (share * 1e6).round() as u32,
            deadline_ms: self.deadline,
        }))
    }
}

impl reach::Program for Subscriber {
    type Done = String;

    fn has_begun(&self) -> bool {
        Subscriber::has_begun(self)
    }

    async fn own(&self, session: &Session) -> Result<String, ProcessingError> {
        self.run(session).await
    }

    async fn attached(&self, session: &client::Session) -> Result<String, ProcessingError> {
        self.run(session).await
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (own, pipeline) = arguments.pipeline.read()?;
    let spec = SpecText {
        reliable: Some(!arguments.unreliable),
        lifetime: arguments.lifetime.clone(),
        priority: arguments.priority.clone(),
        ..SpecText::default()
    };
    let settings = Settings {
        name: arguments.name.clone(),
        run: run_number()?,
        source: arguments.from.map(|node| node.to_string()),
        demand: arguments.demand()?,
        patience: arguments.retry.patience(),
        modules: own.bytes.clone(),
        spec: spec.resolve().map_err(Failure::usage)?,
    };
    let (sender, mut received) = mpsc::channel(RECEIVED_MAX);
    let subscriber = Subscriber::new(settings, &pipeline, sender);
    let mut output = stream::output()?;
    let mut serving = std::pin::pin!(async {
        tokio::select! {
            ended = arguments.reach.run("anabranch process subscribe", &subscriber, &arguments.retry) => ended.map(drop),
            failed = change(&subscriber, arguments, &own) => failed,
            stopped = stopped() => stopped,
        }
    });
    loop {
        tokio::select! {
            biased;
            Some(received) = received.recv() => show(arguments, received, &mut output).await?,
            ended = &mut serving => {
                while let Ok(received) = received.try_recv() {
                    show(arguments, received, &mut output).await?;
                }
                return ended;
            }
        }
    }
}

/// Reads pipelines from standard input; returns on failure only.
async fn change(subscriber: &Subscriber, arguments: &Arguments, own: &Own) -> Outcome {
    let mut input = BufReader::new(stream::input()?);
    loop {
        let mut line = String::new();
        let read = (&mut input).take(LINE_BYTES_MAX).read_line(&mut line).await;
        match read {
            Ok(0) | Err(_) => return std::future::pending().await,
            Ok(_) => {}
        }
        match own.parse(&line) {
            Ok(pipeline) => {
                subscriber.change(&pipeline);
            }
            Err(error) if arguments.framing == Framing::Json => {
                events::print(&json!({"kind": "not_changed", "why": error}))?;
            }
            Err(error) => note(&format!("the pipeline stays as it is: {error}")),
        }
    }
}

async fn show(arguments: &Arguments, received: Received, output: &mut tokio::fs::File) -> Outcome {
    let is_json = arguments.framing == Framing::Json;
    let (event, words) = match received {
        Received::Adu { adu, change } if is_json => return events::print(&event(&adu, change)),
        Received::Adu { adu, .. } => {
            return stream::write(output, arguments.framing, &adu.body).await;
        }
        Received::Begun { source } => (
            json!({"kind": "begun", "source": source}),
            format!(
                "subscribed to '{}' of {}",
                arguments.name,
                printable(&source, 100)
            ),
        ),
        Received::Source { is_away } => (
            json!({"kind": "source", "is_away": is_away}),
            if is_away {
                "the source cannot reach the processing node".to_owned()
            } else {
                "the source is there again".to_owned()
            },
        ),
        Received::Changed { number } => (
            json!({"kind": "changed", "number": number}),
            format!("pipeline {number} is in effect"),
        ),
        Received::NotChanged { number, why } => (
            json!({"kind": "not_changed", "number": number, "why": why}),
            format!("pipeline {number} is refused: {}", printable(&why, 500)),
        ),
        Received::Promise {
            rate_bps,
            why,
            part,
            share,
        } => (
            json!({"kind": "promise", "rate_bps": rate_bps, "why": why, "part": part.map(Part::from), "share": share}),
            match rate_bps {
                Some(bps) => format!("{} are promised", Rate::from_bps(bps)),
                None => format!("nothing is promised: {}", printable(&why, 500)),
            },
        ),
        Received::Late {
            window,
            part,
            kept: (kept, known),
        } => (
            json!({"kind": "late", "window": window, "part": Part::from(part), "kept": kept, "known": known}),
            format!(
                "messages of second {window} of the source came late: {part}; {kept} of the last {known} seconds were in time"
            ),
        ),
        Received::Dropped { lost, failed, why } => (
            json!({"kind": "dropped", "lost": lost, "failed": failed, "why": why}),
            format!(
                "{lost} messages were not taken in time; {failed} could not be processed: {}",
                printable(&why, 500)
            ),
        ),
        _ => return Ok(()),
    };
    if is_json {
        return events::print(&event);
    }
    note(&words);
    Ok(())
}

fn event(adu: &Adu, change: u32) -> serde_json::Value {
    let fields = adu.fields.iter().map(|(name, value)| {
        let value = match value {
            Value::Number(number) => json!(number),
            Value::Boolean(truth) => json!(truth),
            Value::Text(text) => json!(&**text),
        };
        (name.to_owned(), value)
    });
    let fields: Map<_, _> = fields.collect();
    let data = String::from_utf8_lossy(&adu.body);
    json!({"kind": "adu", "sequence": adu.sequence, "pipeline": change, "fields": fields, "data": data})
}
