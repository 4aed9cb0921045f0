//! TCP on loopback, with a token.

use anabranch::{
    Client, ClientError, LocalAddress,
    config::LocalTcp,
    local::{
        STRANGERS_MAX,
        frame::{Frame, encode},
        message,
    },
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Pair, duplex, echo, hostile::is_well};

/// A pair whose near node listens on TCP, too, and the place of that.
async fn pair() -> (Pair, LocalAddress) {
    let pair = Pair::with_near(|config| {
        let local = config.local.as_mut().unwrap();
        local.tcp = Some(LocalTcp {
            address: "127.0.0.1:0".parse().unwrap(),
            token: local.path.with_extension("token"),
        });
    })
    .await;
    let address = pair.near.daemon.local().unwrap().tcp_address().unwrap();
    let token = pair.near.socket().with_extension("token");
    let place = format!("tcp:{address}");
    let place = LocalAddress::parse(place.as_ref(), Some(&token)).unwrap();
    (pair, place)
}

/// The answer to a greeting with this token, until the node ends the connection.
async fn greeted_with(place: &LocalAddress, token: Option<&str>) -> String {
    let LocalAddress::Tcp { address, .. } = place else {
        unreachable!("it is one of TCP");
    };
    let mut hello = json!({ "protocol": "anabranch-local", "versions": { "min": 1, "max": 1 } });
    if let Some(token) = token {
        hello["token"] = json!(token);
    }
    let mut bytes = Vec::new();
    let body = encode(&Frame::Hello(message::json(&hello)), &mut bytes);
    bytes.extend_from_slice(&body);
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is refused may be reset.
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_has_the_token_attaches_over_tcp() {
    let (pair, place) = pair().await;
    pair.run(async {
        let far = pair.far.attach().await;
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        let near = Client::attach_at(&place, "test").await.unwrap();
        let session = pair.session(&near).await;
        let stream = session.open_stream(duplex("echo")).await.unwrap();
        for size in [1, 70_000, 3_000_000] {
            let data = vec![size as u8; size];
            stream.send(data.clone()).await.unwrap();
            assert!(stream.recv().await.unwrap().unwrap().data == data);
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
        echoing.abort();
    })
    .await;
    let LocalAddress::Tcp { token, .. } = &place else {
        unreachable!("it is one of TCP");
    };
    assert!(token.exists());
    drop(pair);
    assert!(!token.exists());
    let error = Client::attach_at(&place, "test").await.unwrap_err();
    assert!(matches!(error, ClientError::Token { .. }), "{error}");
}

#[tokio::test]
async fn who_does_not_have_it_is_turned_away() {
    let (pair, place) = pair().await;
    pair.run(async {
        for token in [None, Some(""), Some("anabranch-token1:guessed")] {
            let answer = greeted_with(&place, token).await;
            assert!(answer.contains("not_allowed"), "{token:?}: {answer}");
        }
        let LocalAddress::Tcp { address, token } = &place else {
            unreachable!("it is one of TCP");
        };
        let other = token.with_file_name("other");
        std::fs::write(&other, "anabranch-token1:aaaa\n").unwrap();
        let wrong = LocalAddress::parse(format!("tcp:{address}").as_ref(), Some(&other)).unwrap();
        let error = Client::attach_at(&wrong, "test").await.unwrap_err();
        assert!(matches!(error, ClientError::TurnedAway(_)), "{error}");
        // Those who only connect take neither the places of those who have the token for long, nor any of the Unix socket.
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS_MAX + 8 {
            strangers.push(TcpStream::connect(address).await.unwrap());
        }
        let near = pair.near.attach().await;
        let far = pair.far.attach().await;
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        is_well(&near, &pair).await;
        let mut beyond = strangers.pop().unwrap();
        assert_eq!(beyond.read(&mut [0]).await.unwrap_or(0), 0);
        drop(strangers);
        while Client::attach_at(&place, "test").await.is_err() {
            tokio::task::yield_now().await;
        }
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn there_is_no_tcp_unless_it_is_configured() {
    let pair = Pair::start().await;
    assert_eq!(pair.near.daemon.local().unwrap().tcp_address(), None);
    assert!(!pair.near.socket().with_extension("token").exists());
}
