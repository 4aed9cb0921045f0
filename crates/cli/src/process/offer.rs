//! `anabranch process offer`.

use std::{convert::Infallible, path::PathBuf, sync::Arc};

use anabranch::{Session, base::NodeId, local::client, spec::SpecText};
use anabranch_processing::{
    ProcessingError,
    offer::{BODY_BYTES_MAX, Settings, Source},
    service::{self, Service},
    wire::message::{ANYONE, Pace},
};
use tokio::{fs::File, io::AsyncRead, sync::mpsc};

use super::{
    fields_of,
    moves::{self, Moves},
    parse_name, reach, run_number,
};
use crate::{
    attach,
    exit::{Failure, Outcome, stopped},
    guarantee,
    stream::{self, Framing, Reader},
};

/// Name of the command, for the running node.
const PROGRAM: &str = "anabranch process offer";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The input is read from the first subscriber on, and the command ends when all of it was sent and every reliable subscriber holds what was derived \
from it. Nothing is lost when the processing node starts again: what may be needed again is kept here, up to 32 MiB, and then the input waits.

This node needs the right use-service in the configuration of the processing node: services = [\"process/1/offer/NAME/*\"].")]
pub(super) struct Arguments {
    /// Name of the stream.
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    #[command(flatten)]
    reach: reach::Flags,
    #[command(flatten)]
    retry: reach::Retry,
    /// Node that may derive from the stream, by its ID; may be repeated. '*': every node with the right at the processing node.
    #[arg(long = "for", value_name = "ID", required = true, value_parser = parse_subscriber)]
    subscribers: Vec<String>,
    /// File to read in place of standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Messages: `lines`, one per line without its end; `frames`, each after its length as 32 bits, big endian; `record`, the
    /// bytes as they arrive, in messages of 64 KiB, or of N bytes with `record=N`; `json`, one object per line, such as
    /// {"data": "…", "fields": {"frame": "I"}}.
    #[arg(long = "as", value_name = "FORM", default_value = "lines", value_parser = stream::parse_form)]
    framing: Framing,
    /// Serve subscribers here, through the running node, while no processing node takes the stream. Subscribers name this node with --fallback, and
    /// need the right use-service in its configuration: services = ["process/1/subscribe/NAME/*"].
    #[arg(long)]
    at_source: bool,
    /// Read the input at once, even without a subscriber.
    #[arg(long)]
    at_once: bool,
    /// Do not wait for slow subscribers: a reliable one that takes less than there is ends.
    #[arg(long)]
    live: bool,
    /// Lost data is not sent again.
    #[arg(long)]
    unreliable: bool,
    /// Time after which a message is of no use, such as '300 ms'; lost ones are then left out.
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<String>,
    #[command(flatten)]
    guarantee: guarantee::Flags,
    #[command(flatten)]
    place: moves::Flags,
}

fn parse_subscriber(text: &str) -> Result<String, String> {
    match text.parse::<NodeId>() {
        _ if text == ANYONE => Ok(text.to_owned()),
        Ok(node) => Ok(node.to_string()),
        Err(error) => Err(format!("{error}; give the ID of a node, or '*'")),
    }
}

/// A source, and the service with which it can do without a processing node.
struct Offering {
    source: Source,
    here: Option<Arc<Service>>,
    /// `None`: it goes to the nodes in their order.
    moves: Option<Moves>,
}

impl reach::Program for Offering {
    type Done = ();

    fn has_begun(&self) -> bool {
        self.source.has_begun()
    }

    fn can_run_here(&self) -> bool {
        self.here.is_some()
    }

    fn taken(&self) -> u64 {
        *self.source.taken().borrow()
    }

    fn is_at(&self, place: usize) {
        if let Some(moves) = &self.moves {
            moves.at(place);
        }
    }

    fn moved(&self) -> Option<usize> {
        self.moves.as_ref()?.take()
    }

    fn chosen(&self) -> Option<impl Future<Output = usize>> {
        self.moves.as_ref().map(Moves::wanted)
    }

    async fn here(&self, own: NodeId) -> Result<(), ProcessingError> {
        match &self.here {
            Some(service) => service.host(own, &self.source).await,
            None => Err(ProcessingError::Refused(
                "there is no --at-source".to_owned(),
            )),
        }
    }

    async fn own(&self, session: &Session) -> Result<(), ProcessingError> {
        self.source.run(session).await
    }

    async fn attached(&self, session: &client::Session) -> Result<(), ProcessingError> {
        self.source.run(session).await
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    if arguments.place.is_given() && !arguments.at_source && !arguments.retry.has_fallback() {
        return Err(Failure::usage(
            "--place chooses between places: name another one with --fallback, or add --at-source",
        ));
    }
    let mut guarantee = arguments.guarantee.text();
    if let Some(guarantee) = &mut guarantee {
        guarantee.waits = Some(true);
        guarantee.resolve(guarantee::flag).map_err(Failure::usage)?;
    }
    let spec = SpecText {
        reliable: Some(!arguments.unreliable),
        lifetime: arguments.lifetime.clone(),
        guarantee,
        ..SpecText::default()
    };
    let pace = if arguments.live {
        Pace::Live
    } else {
        Pace::Slowest
    };
    let source = Source::new(Settings {
        name: arguments.name.clone(),
        run: run_number()?,
        subscribers: arguments.subscribers.clone(),
        pace,
        patience: arguments
            .retry
            .patience_with(arguments.at_source || arguments.retry.has_fallback()),
        spec: spec.resolve().map_err(Failure::usage)?,
    });
    let here = arguments
        .at_source
        .then(|| Service::new(service::Settings::default(), mpsc::channel(1).0));
    let moves = arguments
        .place
        .moves(&arguments.reach.nodes(&arguments.retry), here.is_some());
    let offering = Offering {
        source,
        here,
        moves,
    };
    let source = &offering.source;
    let input = match &arguments.file {
        None => stream::input()?,
        Some(path) => {
            let opened = File::open(path).await;
            opened.map_err(|error| {
                Failure::file(format!("cannot read {}: {error}", path.display()))
            })?
        }
    };
    let reading = async {
        if !arguments.at_once {
            // The sender is of this source.
            let _ = source.subscribers().wait_for(|count| *count > 0).await;
        }
        read(source, Reader::new(input, arguments.framing)).await?;
        source.finish();
        std::future::pending().await
    };
    tokio::select! {
        done = arguments.reach.run(PROGRAM, &offering, &arguments.retry) => done,
        failure = serve(arguments, offering.here.as_ref()) => Err(failure),
        never = look(arguments, &offering) => match never {},
        failed = reading => failed,
        stopped = stopped() => stopped.and(Err(Failure::by_signal("stopped; what subscribers did not hold is lost"))),
    }
}

/// Looks for a better place, if the source chooses it.
async fn look(arguments: &Arguments, offering: &Offering) -> Infallible {
    match &offering.moves {
        Some(moves) => arguments.place.watch(moves, &offering.source).await,
        None => std::future::pending().await,
    }
}

/// Takes the streams of subscribers at this node; returns on failure only.
async fn serve(arguments: &Arguments, service: Option<&Arc<Service>>) -> Failure {
    let Some(service) = service else {
        return std::future::pending().await;
    };
    attach::keep(async |_| {
        let client = arguments.reach.attach(PROGRAM).await?;
        let registration = service.register_stream(&client, &arguments.name).await;
        let registration = registration.map_err(attach::failure)?;
        Ok(attach::failure(service.serve(&registration).await))
    })
    .await
}

async fn read(source: &Source, mut reader: Reader<impl AsyncRead + Unpin>) -> Outcome {
    loop {
        let next = reader.next().await;
        let next =
            next.map_err(|error| Failure::file(format!("cannot read the input: {error}")))?;
        let Some(message) = next else { return Ok(()) };
        if message.data.len() > BODY_BYTES_MAX {
            return Err(Failure::usage(format!(
                "a message of {} bytes; one that is processed has {BODY_BYTES_MAX} at most",
                message.data.len()
            )));
        }
        let fields = fields_of(&message)?;
        source.put(fields, message.data).await;
    }
}
