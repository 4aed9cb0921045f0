//! `anabranch socks`: a SOCKS5 server of this machine, whose targets a peer connects to.

use std::{path::PathBuf, sync::Arc};

use anabranch::rights::Transport;
use anabranch_gateway::{
    Chooser, Endpoint, Notice, Services,
    socks::{Login, Settings, Socks, StartError},
    target::acceptable,
    uplink::OnlyExit,
};

use super::{Common, Running};
use crate::{
    exit::{Failure, Outcome, stopped},
    recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer must give this node the right to forward, with the targets; it resolves names:

    may = [\"call\", { right = \"forward\", to = [\"0.0.0.0/0:*\", \"[::]/0:*\"] }]

Programs use it as socks5h://127.0.0.1:PORT. See docs/gateway.md.")]
pub(crate) struct Arguments {
    /// Address to listen on: [ADDRESS:]PORT, with 127.0.0.1 if there is no address.
    #[arg(value_name = "[ADDRESS:]PORT", value_parser = endpoint)]
    at: Endpoint,
    /// Name that programs must give; required where other machines can connect.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with their password in its first line.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = match is_port {
        true => format!("127.0.0.1:{text}"),
        false => text.to_owned(),
    };
    let endpoint = Endpoint::port_of(Transport::Tcp, &whole).map_err(|error| error.to_string())?;
    acceptable(endpoint).map_err(|error| error.to_string())
}

impl Arguments {
    fn login(&self) -> Result<Option<Login>, Failure> {
        let (Some(user), Some(path)) = (&self.user, &self.password_file) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))?;
        let password = text.lines().next().unwrap_or_default();
        Login::new(user, password).map(Some).map_err(Failure::usage)
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let login = arguments.login()?;
    let Running {
        host,
        ledger,
        uplink,
        dialler,
        connections,
        notices,
    } = arguments.common.start().await?;
    let services = arguments.common.service();
    let services = services.map(|text| Services::read(&text, None));
    let services = services.transpose().map_err(Failure::usage)?;
    let settings = Settings {
        login,
        chooser: Chooser::new(services, Arc::new(OnlyExit(uplink))),
    };
    let socks = Socks::open(&arguments.at, settings, connections);
    let socks = socks.map_err(|error| match error {
        StartError::Exposed(_) => {
            Failure::usage(format!("{error} (--user NAME --password-file FILE)"))
        }
        _ => Failure::other(error),
    })?;
    notices.show(&Notice::Listening {
        at: socks.local().clone(),
        to: None,
        is_remote: false,
    });
    let outcome = tokio::select! {
        biased;
        stopped = stopped => stopped,
        () = recv::keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
        result = dialler.run(|session| async move { drop(session.closed().await) }) => {
            result.map_err(Failure::from)
        }
        () = socks.run() => unreachable!("it runs until dropped"),
    };
    recv::shutdown(ledger.as_ref(), &host, outcome).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_alone_are_on_loopback() {
        for (text, expected) in [
            ("1080", "127.0.0.1:1080"),
            ("localhost:1080", "127.0.0.1:1080"),
            ("[::1]:1080", "[::1]:1080"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            assert_eq!(endpoint(text).unwrap().to_string(), expected);
        }
        for text in ["", "a:1", "65536", "1080:1"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
