//! `--console` of an origin and of a proxy: what it does, in a browser and as metrics.

use std::{net::SocketAddr, sync::Arc};

use anabranch_console::{Console, Settings, Source, Video};
use anabranch_video::{origin, proxy};
use serde_json::{Value, json};

use crate::{
    exit::{Failure, Outcome, print_line},
    page::{address, failed, more_links},
};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flag {
    /// Show what it does in a browser, and as metrics at /metrics, at this address of this machine, IP:PORT; with port 0, a free
    /// one. A link is printed, which is good once, within ten minutes.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    console: Option<SocketAddr>,
}

/// Program that is shown.
#[derive(Debug)]
pub(super) enum Shown {
    Origin(origin::Monitor),
    Proxy(proxy::Monitor),
}

impl Video for Shown {
    fn state(&self) -> String {
        let mut state = match self {
            Self::Origin(monitor) => monitor.state(),
            Self::Proxy(monitor) => monitor.state(),
        };
        state["version"] = json!(env!("CARGO_PKG_VERSION"));
        state.to_string()
    }
}

/// Console that runs, if there is to be one.
#[derive(Debug)]
pub(super) struct Running(Option<Console>);

impl Flag {
    /// Starts the console.
    pub(super) fn start(&self, shown: Shown) -> Result<Running, Failure> {
        let start = |listen| {
            let source = Source::Video(Arc::new(shown));
            Console::start(Settings { listen, source }).map_err(failed)
        };
        Ok(Running(self.console.map(start).transpose()?))
    }
}

impl Running {
    fn links(&self) -> Result<Option<(String, String)>, Failure> {
        let Some(console) = &self.0 else {
            return Ok(None);
        };
        let link = console.link().map_err(Failure::other)?;
        Ok(Some((
            link,
            format!("http://{}/metrics", console.address()),
        )))
    }

    /// Adds the link and the address of the metrics to an event.
    pub(super) fn add_to(&self, event: &mut Value) -> Outcome {
        if let Some((link, metrics)) = self.links()? {
            event["console"] = json!(link);
            event["metrics"] = json!(metrics);
        }
        Ok(())
    }

    /// Prints the link, and what else there is to say unless `is_quiet`.
    pub(super) fn print(&self, is_quiet: bool) -> Outcome {
        match self.links()? {
            None => Ok(()),
            Some((link, _)) if is_quiet => print_line(&link),
            Some((link, metrics)) => {
                print_line("Console, for one visit within ten minutes:\n")?;
                print_line(&format!("    {link}\n"))?;
                print_line(&format!("Metrics: {metrics}"))
            }
        }
    }

    /// Prints a link for each line of input from a person; does not return.
    pub(super) async fn more_links(&self) {
        if let Some(console) = &self.0
            && let Err(error) = more_links(|| console.link()).await
        {
            tracing::debug!(?error, "no more links of the console are printed");
        }
        std::future::pending::<()>().await;
    }
}
