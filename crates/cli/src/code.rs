//! Codes on the command line: shown by one command and entered at another (`docs/codes.md`).

use std::{io, path::Path, str::FromStr, time::Duration};

use anabranch::{
    Host, Ticket,
    base::text::printable,
    codes::{
        Card, Code, DeskEvent, GUESSES, MeetingError, Met, Purpose, Waiting, meet, of_this_machine,
    },
    config::{Layer, Places},
    rendezvous::{ParseViaError, RendezvousError, Via},
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time,
};

use crate::{
    events,
    exit::{Failure, Outcome, note, print_line},
};

/// Time that the session in which the code was entered may take to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// Characters shown of a name that the other side gives itself.
const NAME_CHARS: usize = 100;

impl From<MeetingError> for Failure {
    fn from(error: MeetingError) -> Self {
        match error {
            MeetingError::Exchange(_) | MeetingError::Rendezvous(RendezvousError::Refused(_)) => {
                Self::refused(error)
            }
            MeetingError::Nobody(_)
            | MeetingError::Unreachable(_)
            | MeetingError::Rendezvous(_) => Self::unreachable(error),
            MeetingError::OwnKey => Self::usage(error.to_string()),
            _ => Self::other(error),
        }
    }
}

/// Options of commands that show or enter a code.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Relay at which the two sides also meet, so that a code or a ticket is good everywhere, and that relays the transfer if no direct path
    /// is found: ID@HOST:PORT, or the line that `anabranch node` prints there; '' for none. The relay's configuration needs a section
    /// [rendezvous] [default: `via` in the configuration of this machine's node].
    #[arg(long, value_name = "RELAY", env = "ANABRANCH_VIA")]
    via: Option<Relay>,
}

/// Relay of the command line, or none.
#[derive(Clone, Debug)]
pub(crate) struct Relay(Option<Via>);

impl FromStr for Relay {
    type Err = ParseViaError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Ok(Self(None)),
            text => text.parse().map(|via| Self(Some(via))),
        }
    }
}

impl Options {
    /// The relay: that of the flag or the environment, or else that of the configuration that `anabranch up` has made. Nothing else in that file matters.
    ///
    /// # Errors
    /// The file cannot be read, or names no relay.
    pub(crate) fn via(&self) -> Result<Option<Via>, Failure> {
        match (&self.via, Places::usual()) {
            (Some(relay), _) => Ok(relay.0.clone()),
            (None, None) => Ok(None),
            (None, Some(places)) => of_file(&places.config),
        }
    }

    /// The relay for a ticket: the one that the ticket names, or else as [`Self::via`], where a fault is only reported; none, if the flag or the
    /// environment says so.
    pub(crate) fn via_of_ticket(&self, ticket: &Ticket) -> Option<Via> {
        match (&self.via, &ticket.via) {
            (Some(Relay(None)), _) => None,
            (_, Some(via)) => Some(via.clone()),
            (_, None) => self.via().unwrap_or_else(|failure| {
                note(failure.message());
                None
            }),
        }
    }

    /// The relay: that of the flag or the environment, or else this one.
    pub(crate) fn via_or(&self, other: Option<&Via>) -> Option<Via> {
        match &self.via {
            Some(relay) => relay.0.clone(),
            None => other.cloned(),
        }
    }
}

/// The relay that a configuration names, if there is one.
fn of_file(path: &Path) -> Result<Option<Via>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::file(format!(
                "cannot read {}, which may name a relay: {error}",
                path.display()
            )));
        }
    };
    let via = Layer::from_toml(&text).and_then(|layer| layer.via());
    via.map_err(|error| {
        let line = error.line_in(&text);
        let line = line.map(|line| format!("line {line}: "));
        Failure::usage(format!(
            "{}: {}{error}. It is read because it may name a relay; --via '' does without",
            path.display(),
            line.unwrap_or_default()
        ))
    })
}

/// Card of this side.
pub(crate) fn card(host: &Host, purpose: Purpose) -> Card {
    let name = of_this_machine(|name| std::env::var(name).ok());
    Card::new(purpose, &name, host.addresses())
}

/// The other side, for display.
pub(crate) fn name_of(met: &Met) -> String {
    format!(
        "{} (node {})",
        printable(&met.card.name, NAME_CHARS),
        met.node
    )
}

/// Starts to wait for a new code; reports a relay at which it is not good yet.
pub(crate) async fn start(host: &Host, card: Card, via: Option<&Via>) -> Result<Waiting, Failure> {
    let waiting = Waiting::start(host, card, via).await?;
    if let Some(error) = waiting.relay_failure() {
        note(&format!(
            "{error}. Until it serves this one, the code is good on the local network only"
        ));
    }
    Ok(waiting)
}

/// Shows a code, with the command for the other side.
pub(crate) fn show(code: &Code, command: &str, is_json: bool, quiet: bool) -> Outcome {
    if is_json {
        return events::print(&serde_json::json!({"kind": "code", "code": code.to_string()}));
    }
    if quiet {
        return print_line(&code.to_string());
    }
    print_line(&format!(
        "On the other machine, run\n\n    anabranch {command}\n\nThe code is good for one use. Waiting for it to be entered.\n"
    ))
}

/// Enters a code.
pub(crate) async fn enter(
    host: &Host,
    code: &Code,
    card: &Card,
    via: Option<&Via>,
) -> Result<Met, Failure> {
    Ok(meet(host, code, card, via).await?)
}

/// Reports an event of a code that is shown; the other side, once the code was entered.
///
/// # Errors
/// The code is no longer valid.
pub(crate) fn judge(event: DeskEvent) -> Result<Option<Met>, Failure> {
    match event {
        DeskEvent::Met(met) => Ok(Some(met)),
        DeskEvent::Wrong { left: 0 } => Ok(None),
        DeskEvent::Wrong { left } => {
            note(&format!(
                "a wrong code was entered; tries left: {left}. If it was not the other side, somebody may be guessing"
            ));
            Ok(None)
        }
        DeskEvent::Unsuited => {
            note("the other side entered the code at a command that does not fit to this one");
            Ok(None)
        }
        DeskEvent::Dead => Err(Failure::refused(format!(
            "the code was entered wrongly {GUESSES} times and is no longer valid; somebody may have tried to guess it. Run the command \
             again for a new one"
        ))),
    }
}

/// Other side of a code that was shown.
pub(crate) struct Entered {
    pub(crate) met: Met,
    /// Ends when the session is over in which the code was entered.
    leaving: JoinHandle<()>,
}

impl Entered {
    /// Waits until the other side has all answers, for a limited time. To be called where the command ends soon.
    pub(crate) async fn farewell(self) {
        let leaving = async {
            // A task that failed has left, too.
            let _ = self.leaving.await;
            self.met.left().await;
        };
        let _ = time::timeout(FAREWELL, leaving).await;
    }
}

/// Waits until the code was entered; accepts the host's sessions for that, and for nothing else.
pub(crate) async fn wait(host: &Host, mut waiting: Waiting) -> Result<Entered, Failure> {
    let mut serving = JoinSet::new();
    let met = loop {
        tokio::select! {
            session = host.accept() => {
                let Some(session) = session else {
                    return Err(Failure::other("the node shuts down"));
                };
                let desk = waiting.desk().clone();
                serving.spawn(async move { desk.attend(&session).await });
            }
            event = waiting.next() => {
                if let Some(met) = judge(event)? {
                    break met;
                }
            }
            Some(_) = serving.join_next() => {}
        }
    };
    // The other side reads the answer, and ends its session.
    let leaving = tokio::spawn(async move {
        let _ = time::timeout(FAREWELL, serving.join_all()).await;
        drop(waiting);
    });
    Ok(Entered { met, leaving })
}
