//! UDP ASSOCIATE: datagrams of one client, for as long as its connection is open.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use anabranch::rights::Transport;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use super::codec;
use crate::{
    connections::WeakConnections,
    datagram::{self, Received},
    endpoint::Endpoint,
    flow::{DATAGRAM_BYTES_MAX, framed},
    flows::{Beginning, Flows},
    route::Chooser,
    source::Source,
    wire::Action,
};

/// Carries datagrams until the client closes its connection.
pub(super) async fn serve(
    mut stream: TcpStream,
    chooser: Chooser,
    connections: WeakConnections,
) -> io::Result<()> {
    let (local, client) = (stream.local_addr()?.ip(), stream.peer_addr()?.ip());
    let socket = match datagram::open((local, 0).into()) {
        Ok(socket) => Arc::new(socket),
        Err(error) => {
            stream.write_all(&codec::reply(Err(1))).await?;
            return Err(error);
        }
    };
    let at = Endpoint::udp(socket.local_addr()?);
    stream.write_all(&codec::reply(Ok(at))).await?;
    tokio::select! {
        () = carry(socket, client, chooser, connections) => {}
        () = end_of(&mut stream) => {}
    }
    Ok(())
}

/// Waits for the end of the connection; what the client sends on it has no meaning.
async fn end_of(stream: &mut TcpStream) {
    let mut buffer = [0; 64];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

async fn carry(
    socket: Arc<UdpSocket>,
    client: IpAddr,
    chooser: Chooser,
    connections: WeakConnections,
) {
    let Ok(at) = socket.local_addr() else { return };
    let mut flows = Flows::new(connections);
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    // The port of the client is that of its first datagram.
    let mut known: Option<SocketAddr> = None;
    loop {
        // An error is that of an earlier answer.
        let Ok(Received {
            count,
            client: from,
            dscp,
        }) = datagram::receive(&socket, &mut buffer).await
        else {
            tokio::task::yield_now().await;
            continue;
        };
        if from.ip() != client || known.is_some_and(|known| known != from) {
            continue;
        }
        let (target, begin) = match codec::datagram(&buffer[..count]) {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(%error, "a datagram of a client was dropped");
                continue;
            }
        };
        known = Some(from);
        flows.forward(
            (from, target),
            framed(&buffer[begin..count]),
            |(_, target)| {
                let head = codec::datagram_head(target);
                let socket = socket.clone();
                let reply = move |datagram: &[u8]| {
                    let whole = [&head, datagram].concat();
                    // A datagram that the system does not take now is lost.
                    drop(socket.try_send_to(&whole, from));
                };
                Beginning {
                    source: Source::Address {
                        transport: Transport::Udp,
                        client: from,
                        at,
                    },
                    dscp,
                    chooser: chooser.clone(),
                    action: Action::Connect(target.clone()),
                    reply: Arc::new(reply),
                }
            },
        );
    }
}
