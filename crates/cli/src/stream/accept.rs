//! `anabranch stream accept`.

use anabranch::{base::text::printable, local::client::Stream};

use super::{Common, carry, failure};
use crate::exit::{Failure, Outcome, note, stopped};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer needs the right `use-service` for the label in the node's configuration. The command ends when the first stream is over, \
unless --keep is given. On a stream that the peer opened for both directions, standard input is sent.")]
pub(super) struct Arguments {
    /// Label of the streams, or its beginning and `*`.
    label: String,
    #[command(flatten)]
    common: Common,
    /// Accept one stream after another, until stopped; nothing is sent.
    #[arg(long)]
    keep: bool,
}

pub(super) async fn run(arguments: Arguments) -> Outcome {
    let stopped = stopped();
    let accepting = async {
        let client = arguments.common.attach().await?;
        let service = client.register(&arguments.label).await.map_err(failure)?;
        // A script that waits for this line can let the peer open its stream.
        note(&format!("accepting streams labelled {}", arguments.label));
        loop {
            let (peer, stream) = service.accept().await.map_err(failure)?;
            let label = printable(&stream.spec().label, 128);
            tracing::info!(%peer, label, "stream accepted");
            let outcome = carry_one(&stream, &arguments).await;
            match outcome {
                outcome if !arguments.keep => return outcome,
                Ok(()) => {}
                Err(failure) => note(failure.message()),
            }
        }
    };
    tokio::select! {
        outcome = accepting => outcome,
        stopped = stopped => stopped.and(Err(Failure::by_signal("stopped"))),
    }
}

async fn carry_one(stream: &Stream, arguments: &Arguments) -> Outcome {
    let form = arguments.common.framing;
    let mut output = carry::output()?;
    let receiving = carry::receive(stream, &mut output, form);
    let sending = async {
        match (stream.can_send(), arguments.keep) {
            (false, _) => Ok(()),
            (true, false) => carry::send(stream, carry::input()?, form, &[], None).await,
            (true, true) => stream.finish().map_err(failure),
        }
    };
    tokio::try_join!(receiving, sending).map(drop)
}
