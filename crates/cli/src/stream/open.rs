//! `anabranch stream open`.

use std::path::PathBuf;

use anabranch::{
    Field, Remotes,
    outcome::{self, Outcome},
    spec::SpecText,
};

use super::{
    Common, carry, failure, message,
    on_time::{self, Tally},
    refusal,
};
use crate::{
    exit::{self, Failure, note, stopped},
    guarantee,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The command ends when the peer's application has taken everything and, with --duplex, has finished. Exit codes: 3 if the node or \
the peer cannot be reached, 4 if the peer, its application or the guarantee refuses.")]
pub(super) struct Arguments {
    /// Peer: its name in the node's configuration, its id, or a ticket.
    peer: String,
    /// Label of the stream, by which the peer selects the service.
    label: String,
    /// Address of the peer, IP:PORT or HOST:PORT, if the node does not know it; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<String>,
    #[command(flatten)]
    common: Common,
    /// Also receive.
    #[arg(long)]
    duplex: bool,
    /// Header field of every message, for objectives: a number, true, false or a text; may be repeated. It stays with the sender.
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = message::parse_field)]
    fields: Vec<(String, Field)>,
    /// TOML file with all that the stream asks for (see stream.example.toml); flags take precedence over it.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Time after which a message is of no use, such as '300 ms'.
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<String>,
    /// Probability, such as '90%' or 0.9, with which a message must be in time to be sent: arrive within the lifetime. The others are left out
    /// and counted on standard error at the end, with --as json as an object. A message of which it is not known, in the first ten seconds
    /// of traffic, is sent.
    #[arg(long, value_name = "PROBABILITY", value_parser = on_time::parse_least, allow_hyphen_values = true)]
    least_on_time: Option<f64>,
    /// Lost data is not sent again.
    #[arg(long)]
    unreliable: bool,
    /// Messages are delivered as they arrive.
    #[arg(long)]
    unordered: bool,
    /// Of the messages that wait, the newest is sent first, and all are delivered as they arrive.
    #[arg(long, conflicts_with = "unordered")]
    newest_first: bool,
    /// Priority: scavenger, bulk, normal, urgent, or 0 to 255.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Rate limit, such as '4 Mbit/s'.
    #[arg(long, value_name = "RATE")]
    cap: Option<String>,
    #[command(flatten)]
    guarantee: guarantee::Flags,
    /// If the guarantee cannot be promised yet, open the stream anyway.
    #[arg(long)]
    wait: bool,
}

/// Spec of the stream: the file, with the flags over it.
fn spec(arguments: &Arguments) -> Result<SpecText, Failure> {
    let below = match &arguments.spec {
        None => SpecText::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::file(format!("cannot read {}: {error}", path.display()))
            })?;
            SpecText::from_toml(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
        }
    };
    let given = |is_given: bool| is_given.then_some(true);
    let order = match (arguments.newest_first, arguments.unordered) {
        (true, _) => Some("newest_first".to_owned()),
        (false, true) => Some("unordered".to_owned()),
        (false, false) => below.order,
    };
    let mut guarantee = arguments.guarantee.text().or(below.guarantee);
    if let Some(guarantee) = &mut guarantee {
        guarantee.waits = given(arguments.wait).or(guarantee.waits);
        guarantee.resolve(guarantee::flag).map_err(Failure::usage)?;
    } else if arguments.wait {
        return Err(Failure::usage("--wait: no guarantee is requested"));
    }
    Ok(SpecText {
        label: Some(arguments.label.clone()),
        reliable: arguments.unreliable.then_some(false).or(below.reliable),
        order,
        lifetime: arguments.lifetime.clone().or(below.lifetime),
        priority: arguments.priority.clone().or(below.priority),
        cap: arguments.cap.clone().or(below.cap),
        duplex: given(arguments.duplex).or(below.duplex),
        guarantee,
        ..below
    })
}

pub(super) async fn run(arguments: Arguments) -> exit::Outcome {
    let spec = spec(&arguments)?.resolve().map_err(Failure::usage)?;
    if arguments.least_on_time.is_some() && spec.lifetime.is_none() {
        let why = "--least-on-time: messages have no lifetime to be in time for; give one with --lifetime, such as '300 ms'";
        return Err(Failure::usage(why));
    }
    let tally = arguments.least_on_time.map(Tally::new);
    let form = arguments.common.framing;
    let stopped = stopped();
    let carrying = async {
        let client = arguments.common.attach().await?;
        let mut remotes = Remotes::default();
        for text in &arguments.address {
            let added = remotes.add(text);
            added.map_err(|error| Failure::usage(format!("--address: {error}")))?;
        }
        let session = client.connect_at(&arguments.peer, remotes).await;
        let session = session.map_err(failure)?;
        let stream = session.open_stream(spec).await.map_err(failure)?;
        let sending = carry::send(
            &stream,
            carry::input()?,
            form,
            &arguments.fields,
            tally.as_ref(),
        );
        let receiving = async {
            if stream.can_receive() {
                carry::receive(&stream, &mut carry::output()?, form).await?;
            }
            Ok(())
        };
        let reporting = async {
            while let Ok(event) = stream.next_promise().await {
                note(&event.to_string());
            }
            std::future::pending().await
        };
        tokio::select! {
            done = async { tokio::try_join!(sending, receiving) } => done.map(drop)?,
            never = reporting => return never,
        }
        // Everything has arrived at the node; its application may refuse it even so.
        let id = stream.id();
        drop(stream);
        match outcome::ask(&session, id).await.map_err(failure)? {
            Some(Outcome::Refused(code)) => Err(Failure::refused(refusal(code))),
            Some(Outcome::Taken) | None => Ok(()),
        }
    };
    let outcome = tokio::select! {
        outcome = carrying => outcome,
        stopped = stopped => stopped.and(Err(Failure::by_signal("stopped; what had not arrived is lost"))),
    };
    if let Some(tally) = &tally {
        tally.report(form);
    }
    outcome
}
