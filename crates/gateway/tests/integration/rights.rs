//! The right to forward: what it does not allow, and its withdrawal.

use std::{sync::Arc, time::Duration};

use anabranch::{
    Session, Stream,
    service::{Service, Serving},
};
use anabranch_gateway::{
    Code, Refusal,
    wire::{LABEL, Message},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::harness::{FAR, NEAR, Node, Pair, daemon, echo, echoed, forwards, rights, within};

/// The code with which a connection to each target is refused.
async fn refusals(may: &str, targets: &[&str]) -> Vec<Code> {
    let listed: Vec<_> = targets.iter().map(|to| ("127.0.0.1:0", *to, "")).collect();
    // Port 0 is one endpoint each; the configuration refuses the same twice.
    let mut codes = Vec::new();
    for one in listed {
        let pair = Pair::start(may, &[one]).await;
        // The refusal may come while the program still connects.
        let reading = async {
            let mut near = TcpStream::connect(pair.near.listening()[0]).await?;
            near.read(&mut [0; 8]).await
        };
        let error = reading.await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        codes.push(pair.near.refusal().await.code);
    }
    codes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_allowed_without_the_right() {
    within(async {
        let target = echo().await.to_string();
        assert_eq!(refusals("", &[&target]).await, [Code::NotAllowed]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn special_addresses_are_refused_though_everything_is_allowed() {
    within(async {
        let wide = "{ right = \"forward\", to = [\"0.0.0.0/0:*\", \"[::]/0:*\", \"*.localhost.example:*\"] }";
        let port = echo().await.port();
        let targets = [
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
            format!("0.0.0.0:{port}"),
            format!("[::]:{port}"),
            format!("[::ffff:127.0.0.1]:{port}"),
            // Resolves to loopback, as a name under a stranger's control may.
            format!("localhost:{port}"),
            "169.254.169.254:80".to_owned(),
            "[::ffff:169.254.169.254]:80".to_owned(),
            "[fd00:ec2::254]:80".to_owned(),
            "100.100.100.200:80".to_owned(),
            "169.254.1.1:80".to_owned(),
            "[fe80::1]:80".to_owned(),
            "224.0.0.1:80".to_owned(),
            "[ff02::1]:80".to_owned(),
        ];
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let codes = refusals(wide, &targets).await;
        for (target, code) in targets.iter().zip(codes) {
            assert_eq!(code, Code::NotAllowed, "{target}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_resolved_at_the_far_side_and_its_address_is_checked() {
    within(async {
        let target = echo().await;
        // The loopback address is allowed as such, so a name for it is.
        let may = format!(
            "{{ right = \"forward\", to = [\"127.0.0.1:{}\"] }}",
            target.port()
        );
        let to = format!("localhost:{}", target.port());
        let pair = Pair::start(&may, &[("127.0.0.1:0", &to, "")]).await;
        assert_eq!(echoed(pair.connect().await, b"hello").await, b"hello");
        let codes = refusals(
            "{ right = \"forward\", to = [\"10.0.0.0/8:*\"] }",
            &["name.invalid:80"],
        );
        assert_eq!(codes.await, [Code::NoSuchName]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawn_right_ends_what_rests_on_it_and_nothing_else() {
    within(async {
        let (one, other) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let at = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let (to_one, to_other) = (at(&one), at(&other));
        let both = format!("{{ right = \"forward\", to = [\"{to_one}\", \"{to_other}\"] }}");
        let forwards = [
            ("127.0.0.1:0", to_one.as_str(), ""),
            ("[::1]:0", to_other.as_str(), ""),
        ];
        let pair = Pair::start(&both, &forwards).await;
        let listening = pair.near.listening();
        let open = async |listener: &TcpListener, at| {
            let (near, far) = tokio::join!(TcpStream::connect(at), listener.accept());
            (near.unwrap(), far.unwrap().0)
        };
        let (mut ended, mut ended_far) = open(&one, listening[0]).await;
        let (mut stays, mut stays_far) = open(&other, listening[1]).await;
        let only_other = format!("{{ right = \"forward\", to = [\"{to_other}\"] }}");
        pair.far.reload(&rights(&only_other)).await.unwrap();
        for end in [&mut ended, &mut ended_far] {
            let error = end.read(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        stays.write_all(b"x").await.unwrap();
        stays_far.read_exact(&mut [0]).await.unwrap();
        // No new ones.
        // The reset may arrive before the connection is noticed.
        let reading = async {
            TcpStream::connect(listening[0])
                .await?
                .read(&mut [0; 8])
                .await
        };
        reading.await.unwrap_err();
        assert_eq!(pair.near.refusal().await.code, Code::NotAllowed);
    })
    .await;
}

/// Stops the stream of a request before it refuses it, as a peer may whose packets are reordered on the way.
#[derive(Debug)]
struct Reluctant;

impl Service for Reluctant {
    fn takes(&self, label: &str) -> bool {
        label == LABEL
    }

    fn serve(self: Arc<Self>, _: Session, stream: Stream) -> Serving {
        Box::pin(async move {
            stream.recv().await.unwrap();
            stream.stop(0x11).unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            let refusal = Refusal::new(Code::NotAllowed, "not here");
            let answer = Message::Answer(Err(refusal)).encode();
            stream.send(answer).await.unwrap();
            stream.finish().unwrap();
            let _ = stream.delivered().await;
        })
    }
}

/// The program's owner would not learn why its connection was reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_comes_behind_the_end_of_its_stream_is_reported() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let may = rights("{ right = \"forward\", to = [\"192.0.2.0/24:*\"] }");
        let (far, ..) = daemon(folder.path(), FAR, "127.0.0.1:0", &may).await;
        let _service = far
            .handle()
            .services()
            .register(Arc::new(Reluctant))
            .unwrap();
        let address = far.host().addresses()[0];
        let running = tokio::spawn(async move { far.run().await });
        let sections = forwards(address, &[("127.0.0.1:0", "192.0.2.1:80", "")]);
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &sections).await;
        let mut program = TcpStream::connect(near.listening()[0]).await.unwrap();
        assert!(program.read(&mut [0; 8]).await.is_err(), "it is reset");
        let refusal = near.refusal().await;
        assert_eq!(refusal.code, Code::NotAllowed);
        running.abort();
    })
    .await;
}
