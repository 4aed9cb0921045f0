//! Roles of the other processes.

use std::{net::SocketAddr, path::Path, time::Duration};

use anabranch::{AllowList, Host, HostConfig, Ticket, keys};
use anabranch_video::{
    origin::{Library, Origin},
    proxy::{Config, Http, Prefix, Proxy},
    video::Division,
};

use super::Outcome;

fn next(arguments: &mut impl Iterator<Item = String>) -> Outcome<String> {
    Ok(arguments.next().ok_or("an argument is missing")?)
}

/// Ready when the parent process is gone.
async fn parent_is_gone() {
    let waiting = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        // However the input ends.
        let _ = std::io::stdin().read_line(&mut line);
    });
    let _ = waiting.await;
}

pub(crate) async fn origin(mut arguments: impl Iterator<Item = String>) -> Outcome {
    let folder = next(&mut arguments)?;
    let key = keys::generate()?;
    let config = HostConfig::new(key.clone(), AllowList::everyone());
    let config = Origin::host_config(config.bind([SocketAddr::from(([127, 0, 0, 1], 0))]), None);
    let host = Host::start(config)?;
    let library = Library::open(Path::new(&folder), None, Division::default())?;
    let origin = Origin::new(library, &key);
    println!("{}", origin.ticket(&host));
    tokio::select! {
        () = origin.serve(&host) => {}
        () = parent_is_gone() => {}
    }
    host.shutdown().await;
    Ok(())
}

pub(crate) async fn proxy(mut arguments: impl Iterator<Item = String>) -> Outcome {
    let cache = next(&mut arguments)?;
    let ticket: Ticket = next(&mut arguments)?.parse()?;
    let prefix: u64 = next(&mut arguments)?.parse()?;
    let config = HostConfig::new(keys::generate()?, AllowList::default());
    let host = Host::start(config.bind([SocketAddr::from(([127, 0, 0, 1], 0))]))?;
    let config = Config {
        prefix: Prefix::Fixed(Duration::from_secs(prefix)),
        // All players are on this machine.
        http: Http {
            connections: 4_096,
            per_address: 4_096,
            ..Http::default()
        },
        ..Config::new(cache.into())
    };
    let proxy = Proxy::open(config, ([127, 0, 0, 1], 0).into(), &ticket).await?;
    println!("{}", proxy.address());
    proxy.run(&host, &ticket, parent_is_gone()).await;
    host.shutdown().await;
    Ok(())
}
