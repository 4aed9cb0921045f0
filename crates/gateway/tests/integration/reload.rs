//! Change of `[[forward]]` while the node runs.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::harness::{Pair, echo, echoed, forwards, within};

/// A server that sends one byte and keeps the connection.
pub(crate) async fn sends(byte: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(&[byte]).await.unwrap();
            kept.push(stream);
        }
    });
    address
}

async fn first_byte(at: &str) -> u8 {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.read_u8().await.unwrap()
}

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwards_change_and_open_connections_go_on() {
    within(async {
        let (one, other, echo) = (sends(1).await, sends(2).await, echo().await.to_string());
        let may = format!("{{ right = \"forward\", to = [\"{one}\", \"{other}\", \"{echo}\"] }}");
        let (first, second) = (free_port(), free_port());
        let pair = Pair::start(&may, &[(&first, &one, ""), (&second, &echo, "")]).await;
        let far = pair.far.address();
        assert_eq!(first_byte(&first).await, 1);
        let mut open = TcpStream::connect(&second).await.unwrap();
        open.write_all(b"x").await.unwrap();
        assert_eq!(open.read_u8().await.unwrap(), b'x');
        let sessions = |pair: &Pair| {
            let all = pair.near.daemon.host().sessions();
            all.iter()
                .map(|open| open.stats.session)
                .collect::<Vec<_>>()
        };
        let before = sessions(&pair);

        // The target of one changes, the other is removed, a third is new.
        let third = free_port();
        let changed = forwards(far, &[(&first, &other, ""), (&third, &echo, "")]);
        pair.near.reload(&changed).await.unwrap();
        assert_eq!(first_byte(&first).await, 2);
        while TcpStream::connect(&second).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let stream = TcpStream::connect(&third).await.unwrap();
        assert_eq!(echoed(stream, b"new").await, b"new");
        // What was open goes on, on the same session.
        open.write_all(b"y").await.unwrap();
        assert_eq!(open.read_u8().await.unwrap(), b'y');
        assert_eq!(sessions(&pair), before);

        // A reload that is refused changes nothing: a port that is taken, a peer that does not exist.
        let taken = forwards(far, &[(&first, &one, ""), (&one, &echo, "")]);
        let error = pair.near.reload(&taken).await.unwrap_err();
        assert!(error.contains("another program"), "{error}");
        let unknown = changed.replace("peer = \"far\"", "peer = \"who\"");
        let error = pair.near.reload(&unknown).await.unwrap_err();
        assert!(error.contains("forward.peer"), "{error}");
        assert_eq!(first_byte(&first).await, 2);
    })
    .await;
}
