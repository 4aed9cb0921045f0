//! Anabranch: one session, one channel, one bulk stream.

use std::time::{Duration, Instant};

use anabranch::{AllowList, Host, HostConfig, StreamSpec, Ticket, keys};
use bytes::Bytes;

use crate::{Arguments, CHUNK, Outcome};

/// Reason with which the receiver closes the session.
const ALL_READ: &str = "all was read";

pub async fn receive(arguments: &Arguments) -> Outcome<()> {
    let config = HostConfig::new(keys::generate()?, AllowList::everyone_listed());
    let host = Host::start(config.bind([arguments.address]))?;
    let ticket = Ticket {
        node: host.node_id(),
        secret: None,
        addresses: host.addresses(),
        hosts: Vec::new(),
        via: None,
    };
    std::fs::write(&arguments.file, ticket.to_string())?;
    let session = host.accept().await.ok_or("the host ended")?;
    let stream = session.accept_stream().await?;
    let mut bytes = 0;
    while let Some(adu) = stream.recv().await? {
        bytes += adu.data.len() as u64;
    }
    // The sender waits for it: data that is delivered but not read is lost when the session ends.
    session.close(0, ALL_READ);
    host.shutdown().await;
    if bytes == 0 {
        return Err("nothing arrived".into());
    }
    Ok(())
}

pub async fn send(arguments: &Arguments) -> Outcome<Duration> {
    let config = HostConfig::new(keys::generate()?, AllowList::default());
    let host = Host::start(config.bind([arguments.address]))?;
    let ticket: Ticket = std::fs::read_to_string(&arguments.file)?.parse()?;
    let session = host.connect(ticket.node, &ticket.addresses).await?;
    let start = Instant::now();
    let stream = session.open_stream(StreamSpec::bulk("bulk"))?;
    let mut left = arguments.bytes.ok_or("BYTES is missing")?;
    while left > 0 {
        let length = left.min(CHUNK.len() as u64);
        let chunk = Bytes::from_static(CHUNK).slice(..length as usize);
        stream.send(chunk).await?;
        left -= length;
    }
    stream.finish()?;
    let delivered = stream.delivered().await;
    let elapsed = start.elapsed();
    let reason = session.closed().await.to_string();
    // The receiver may exit before its last acknowledgement arrives.
    if !reason.contains(ALL_READ) {
        delivered?;
        return Err(reason.into());
    }
    host.shutdown().await;
    Ok(elapsed)
}
