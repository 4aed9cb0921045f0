//! The receiver's ticket by a code: one that this command shows, or one that the receiver shows.

use std::path::PathBuf;

use anabranch::{
    Host, Ticket,
    codes::{Met, Offer, Purpose},
};

use super::{Arguments, Job};
use crate::{
    code,
    exit::{Failure, note},
    ticket::Target,
};

/// The ticket of the receiver that `target` leads to.
///
/// # Errors
/// The code is wrong or no longer valid, or the other side cannot be reached.
pub(super) async fn ticket(
    host: &Host,
    target: Target,
    arguments: &Arguments,
    sources: &[PathBuf],
    jobs: &[Job],
) -> Result<Ticket, Failure> {
    let offer = Offer {
        name: name(arguments, sources),
        bytes: jobs.first().and_then(|job| job.bytes_known),
        more: jobs.first().map_or(0, |job| job.more),
    };
    let card = code::card(host, Purpose::Send).with_offer(offer);
    let met = match target {
        Target::Ticket(ticket) => {
            let via = arguments.meeting.via_of_ticket(&ticket);
            return Ok(Ticket { via, ..ticket });
        }
        Target::Peer(_) => unreachable!("a peer that is named is one of a running node"),
        Target::Code(code) => {
            let via = arguments.meeting.via()?;
            code::enter(host, &code, &card, via.as_ref()).await?
        }
        Target::NewCode => {
            let via = arguments.meeting.via()?;
            let waiting = code::start(host, card, via.as_ref()).await?;
            let code = *waiting.desk().code();
            code::show(
                &code,
                &format!("recv {code}"),
                arguments.json,
                arguments.quiet,
            )?;
            code::wait(host, waiting).await?.met
        }
    };
    met.prepare(host);
    if !arguments.quiet {
        note(&format!("sending to {}", code::name_of(&met)));
    }
    ticket_of(met)
}

fn ticket_of(met: Met) -> Result<Ticket, Failure> {
    let secret = met.card.secret();
    let secret = secret.ok_or_else(|| {
        Failure::refused("the receiver gave no ticket; use the same release on both sides")
    })?;
    Ok(Ticket {
        node: met.node,
        secret: Some(secret),
        addresses: met.addresses,
        hosts: Vec::new(),
        via: None,
    })
}

/// Name of the first source, for display at the receiver.
fn name(arguments: &Arguments, sources: &[PathBuf]) -> String {
    let first = sources.first();
    let of_path = first.and_then(|path| path.file_name().or(Some(path.as_os_str())));
    let of_path = of_path.map(|name| name.to_string_lossy().into_owned());
    arguments
        .choice
        .name
        .clone()
        .or(of_path)
        .unwrap_or_default()
}
