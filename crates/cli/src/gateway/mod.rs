//! `anabranch forward` and `anabranch socks`: unchanged programs through a peer, with a host of the command's own.

pub(crate) mod forward;
pub(crate) mod peer;
pub(crate) mod socks;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anabranch::{
    Host, Locals, Profile, PromiseEvent, Refusal as Unpromised,
    base::Rate,
    keys,
    ledger::Ledger,
    spec::{ServiceText, SpecText},
};
use anabranch_gateway::{
    Connections, Notice, Notices, Refusal,
    limits::raise_file_limit,
    uplink::{Dialled, Dialler},
};
use serde_json::{Value, json};

use self::peer::PeerArguments;
use crate::{
    exit::{Failure, note, print_line},
    keygen::key_path,
    locals, recv,
};

/// Arguments that both commands have.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    peer: PeerArguments,
    /// Local address to use for paths, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file; the peer gives its node ID the right to forward [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Service of the flows, in place of the rules of --config: interactive, live, bulk, background, redundant or telemetry
    /// (docs/profiles.md).
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
    /// Print events as JSON, one per line, to standard output.
    #[arg(long)]
    json: bool,
    /// Print nothing but errors.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// The host of a command, and its sessions with the peer.
struct Running {
    host: Host,
    ledger: Option<Ledger>,
    uplink: Arc<Dialled>,
    dialler: Dialler,
    connections: Connections,
    notices: Notices,
}

impl Common {
    async fn start(&self) -> Result<Running, Failure> {
        let ticket = self.peer.resolve()?;
        let (node, addresses) = (ticket.node, ticket.remotes());
        let settings = self.peer.settings(node)?;
        let bind = locals::binds(&self.bind, &addresses).await;
        let key = keys::load_or_create(&key_path(self.key.as_ref()))?;
        let mut config = settings.host(key);
        let costs = settings.costs();
        let ledger = costs.map(|costs| costs.apply(&mut config)).transpose()?;
        if !bind.is_empty() {
            config.locals = Locals::Fixed(bind.into_iter().map(Into::into).collect());
        }
        let host = recv::start(config)?;
        ticket.prepare(&host);
        raise_file_limit();
        let notices = self.notices();
        let connections = Connections::new(notices.clone());
        connections.rules().replace(settings.rules);
        connections.timeouts().set(&settings.timeouts);
        let (uplink, dialler) = Dialled::new(host.clone(), node, addresses, notices.clone());
        Ok(Running {
            host,
            ledger: ledger.flatten(),
            uplink: Arc::new(uplink),
            dialler,
            connections,
            notices,
        })
    }

    /// The service of all flows, if one is named.
    fn service(&self) -> Option<SpecText> {
        let profile = self.profile?;
        Some(ServiceText::of_profile(profile.name()).0)
    }

    fn notices(&self) -> Notices {
        let (json, quiet) = (self.json, self.quiet);
        Notices::new(move |notice| {
            // If the output is closed, there is no other place to report it.
            if json {
                let _ = print_line(&row(notice));
            } else if matches!(notice, Notice::Listening { .. }) && !quiet {
                let _ = print_line(&notice.to_string());
            } else if !quiet || matches!(notice, Notice::Failed { .. } | Notice::Paused { .. }) {
                note(&notice.to_string());
            }
        })
    }
}

/// A notice as a line of JSON.
fn row(notice: &Notice) -> String {
    let mut row = json!({ "kind": notice.kind() });
    match notice {
        Notice::Listening { at, to, is_remote } => {
            row["at"] = json!(at.to_string());
            row["to"] = json!(to.as_ref().map(ToString::to_string));
            row["is_remote"] = json!(is_remote);
        }
        Notice::Failed { to, refusal } => {
            row["to"] = json!(to.to_string());
            row["code"] = json!(refusal.code.name());
            row["text"] = json!(refusal.text);
        }
        Notice::NotPromised { to, refusal } => {
            row["to"] = json!(to.to_string());
            row["text"] = json!(refusal.to_string());
            offer(&mut row, refusal);
        }
        Notice::OverLimit { to, cause } => {
            row["to"] = json!(to.to_string());
            row["text"] = json!(cause);
        }
        Notice::Outage(after) => row["text"] = json!(format!("no path for {} s", after.as_secs())),
        Notice::Promise { to, event } => {
            row["to"] = json!(to.to_string());
            row["text"] = json!(event.to_string());
            if let PromiseEvent::Warned(refusal) | PromiseEvent::Withdrawn(refusal) = event {
                offer(&mut row, refusal);
            }
        }
        Notice::Paused { at, cause } => {
            row["at"] = json!(at.to_string());
            row["text"] = json!(cause);
        }
        Notice::Disconnected(cause) => row["text"] = json!(cause),
        _ => {}
    }
    row.to_string()
}

/// Adds what could be promised instead.
fn offer(row: &mut Value, refusal: &Unpromised) {
    row["offer_rate_bps"] = json!(refusal.offer.rate.map(Rate::as_bps));
    row["offer_probability"] = json!(refusal.offer.probability);
}

fn refused(refusal: &Refusal) -> Failure {
    Failure::refused(refusal)
}
