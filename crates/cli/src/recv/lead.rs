//! Ways in which a sender finds this receiver: a ticket, a code that this command shows, or one that the sender shows.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch::{
    Host, Ticket,
    codes::{Code, Desk, Met, Purpose, Waiting},
    rendezvous::Pairing,
    transfer::Receiver,
};

use super::{Arguments, presence::Presence};
use crate::{
    bytes, code, events,
    exit::{Failure, Outcome, note, print_line},
};

/// Meaning of the positional arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) code: Option<Code>,
    pub(super) directory: PathBuf,
}

/// Tells the code and the directory apart. A code may be one argument or three.
///
/// # Errors
/// A word of the code is misspelt, or there are too many arguments.
pub(super) fn split(words: &[PathBuf]) -> Result<Words, Failure> {
    let text = |words: &[PathBuf]| {
        let texts: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
        texts.map(|texts| texts.join(" "))
    };
    let code_of = |words: &[PathBuf]| match text(words) {
        Some(text) if Code::is_meant_by(&text) => {
            text.parse::<Code>().map(Some).map_err(Failure::usage)
        }
        _ => Ok(None),
    };
    for count in [1, 3] {
        let Some((first, rest)) = words.split_at_checked(count) else {
            continue;
        };
        if let Some(code) = code_of(first)? {
            let directory = directory(rest)?;
            return Ok(Words {
                code: Some(code),
                directory,
            });
        }
    }
    Ok(Words {
        code: None,
        directory: directory(words)?,
    })
}

fn directory(words: &[PathBuf]) -> Result<PathBuf, Failure> {
    match words {
        [] => Ok(PathBuf::from(".")),
        [only] => Ok(only.clone()),
        _ => Err(Failure::usage(
            "give one directory, and before it the code that the sender shows, if there is one",
        )),
    }
}

/// Means by which the next sender finds this receiver.
pub(super) enum Lead {
    /// By the ticket that was printed.
    Ticket,
    /// With the ticket that it was given when a code was entered. Its circuit lives as long as this.
    Met { _circuit: Option<Arc<Pairing>> },
    /// By a code that is shown.
    Shown(Waiting),
}

impl Lead {
    /// Prints the ticket or the code for the next sender.
    pub(super) async fn announce(
        host: &Host,
        receiver: &Receiver,
        arguments: &Arguments,
        directory: &Path,
        presence: &Presence,
    ) -> Result<Self, Failure> {
        if !arguments.code {
            let ticket = presence.with(receiver.issue(host)?);
            print_ticket(&ticket, arguments, directory)?;
            return Ok(Self::Ticket);
        }
        let card = card(host, receiver)?;
        let via = arguments.meeting.via()?;
        let waiting = code::start(host, card, via.as_ref()).await?;
        let code = *waiting.desk().code();
        code::show(
            &code,
            &format!("send FILE {code}"),
            arguments.json,
            arguments.quiet,
        )?;
        Ok(Self::Shown(waiting))
    }

    /// Enters the code of a sender, which is then about to dial this receiver.
    pub(super) async fn enter(
        host: &Host,
        receiver: &Receiver,
        code: &Code,
        arguments: &Arguments,
    ) -> Result<Self, Failure> {
        let card = card(host, receiver)?;
        let via = arguments.meeting.via()?;
        let met = code::enter(host, code, &card, via.as_ref()).await?;
        Ok(Self::met(host, met, arguments.quiet))
    }

    /// Expects the sender that was met to dial.
    fn met(host: &Host, met: Met, quiet: bool) -> Self {
        if !quiet {
            introduce(&met);
        }
        let (expected, host) = (met.clone(), host.clone());
        tokio::spawn(async move { expected.expect(&host).await });
        Self::Met {
            _circuit: met.detour,
        }
    }

    /// The desk at which codes are entered, if one is shown.
    pub(super) fn desk(&self) -> Option<Arc<Desk>> {
        match self {
            Self::Ticket | Self::Met { .. } => None,
            Self::Shown(waiting) => Some(waiting.desk().clone()),
        }
    }

    /// Waits until the code that is shown was entered; does not return if there is none.
    ///
    /// # Errors
    /// The code is no longer valid.
    pub(super) async fn entered(&mut self, host: &Host, quiet: bool) -> Result<Self, Failure> {
        let Self::Shown(waiting) = self else {
            return std::future::pending().await;
        };
        loop {
            if let Some(met) = code::judge(waiting.next().await)? {
                return Ok(Self::met(host, met, quiet));
            }
        }
    }
}

fn card(host: &Host, receiver: &Receiver) -> Result<anabranch::codes::Card, Failure> {
    let ticket = receiver.issue(host)?;
    let card = code::card(host, Purpose::Receive);
    Ok(match ticket.secret {
        Some(secret) => card.with_secret(secret),
        None => card,
    })
}

/// Tells the user who is at the other end, before the offer.
fn introduce(met: &Met) {
    let name = code::name_of(met);
    let offer = met.card.offer.as_ref().map(|offer| {
        let bytes = offer
            .bytes
            .map(|bytes| format!(", {}", bytes::text(bytes)))
            .unwrap_or_default();
        let more = match offer.more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(", with '{}'{bytes}{more}", offer.name)
    });
    note(&format!(
        "the sender is {name}{}",
        offer.unwrap_or_default()
    ));
}

fn print_ticket(ticket: &Ticket, arguments: &Arguments, directory: &Path) -> Outcome {
    if arguments.json {
        return events::print(&serde_json::json!({
            "kind": "ticket",
            "ticket": ticket.to_string(),
            "directory": directory.display().to_string(),
        }));
    }
    if arguments.quiet {
        return print_line(&ticket.to_string());
    }
    print_line(&format!(
        "Receiving into {}. On the other machine, run\n\n    anabranch send FILE -\n\nand enter this ticket when it asks for \
         it, or put it into a file for --ticket-file:\n\n    {ticket}\n",
        directory.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Result<(Option<String>, String), String> {
        let paths: Vec<PathBuf> = texts.iter().map(PathBuf::from).collect();
        let words = split(&paths).map_err(|failure| failure.message().to_owned())?;
        let code = words.code.map(|code| code.to_string());
        Ok((code, words.directory.display().to_string()))
    }

    #[test]
    fn codes_and_directories_are_told_apart() {
        let code = || Some("river-lamp-orbit".to_owned());
        let cases: [(&[&str], _, &str); 7] = [
            (&[], None, "."),
            (&["in"], None, "in"),
            (&["River-Lamp-Orbit"], code(), "."),
            (&["river lamp orbit", "in"], code(), "in"),
            (&["river", "lamp", "orbit"], code(), "."),
            (&["river", "lamp", "orbit", "in"], code(), "in"),
            (&["./river-lamp-orbit"], None, "./river-lamp-orbit"),
        ];
        for (texts, code, directory) in cases {
            assert_eq!(words(texts), Ok((code, directory.to_owned())), "{texts:?}");
        }
        let error = |texts: &[&str]| words(texts).unwrap_err();
        assert!(error(&["river-lamp-orbitt"]).contains("'orbit'"));
        assert!(error(&["a", "b"]).contains("one directory"));
        assert!(error(&["river-lamp-orbit", "a", "b"]).contains("one directory"));
    }
}
