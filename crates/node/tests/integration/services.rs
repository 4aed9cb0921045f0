//! Services of a node: streams of peers by label, and sessions shared and opened on demand.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch::{
    SecretKey, Session, Stream, StreamFailure, StreamSpec,
    config::Layer,
    daemon::{CODE_NO_RIGHT, Daemon},
    service::{Service, Serving},
};

use crate::common::{id, within};

/// A node that lets the other one call.
async fn node(folder: &Path, own: u8, peer: u8) -> Daemon {
    let folder = folder.join(own.to_string());
    fs::create_dir(&folder).unwrap();
    let key_file = folder.join("key");
    fs::write(&key_file, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key_file, owner_only).unwrap();
    let text = format!(
        "key = {key_file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\n\
         [[peer]]\nname = \"other\"\nnode = \"{}\"\nmay = [\"call\"]\n",
        folder.join("control"),
        id(peer)
    );
    let layer = Layer::from_toml(&text).unwrap();
    Daemon::start(layer.resolve(|_| None).unwrap())
        .await
        .unwrap()
}

/// Sends back what it receives, on streams labelled `echo`.
#[derive(Debug, Default)]
struct Echo {
    served: AtomicUsize,
}

impl Service for Echo {
    fn takes(&self, label: &str) -> bool {
        label == "echo"
    }

    fn serve(self: Arc<Self>, _: Session, stream: Stream) -> Serving {
        self.served.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            while let Ok(Some(adu)) = stream.recv().await {
                stream.send(adu.data).await.unwrap();
            }
            stream.finish().unwrap();
        })
    }
}

fn duplex(label: &str) -> StreamSpec {
    StreamSpec {
        duplex: true,
        ..StreamSpec::messages(label)
    }
}

async fn echo(session: &Session, text: &'static str) {
    let stream = session.open_stream(duplex("echo")).unwrap();
    stream.send(text.into()).await.unwrap();
    let back = stream.recv().await.unwrap().unwrap();
    assert_eq!(back.data, text);
    stream.finish().unwrap();
    assert!(stream.recv().await.unwrap().is_none());
}

#[tokio::test]
async fn streams_reach_the_service_of_their_label_over_one_session_opened_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        node(folder.path(), 1, 2).await,
        node(folder.path(), 2, 1).await,
    );
    let service = Arc::new(Echo::default());
    let registration = other.handle().services().register(service.clone()).unwrap();
    let test = async {
        let (near, far) = (one.handle(), other.handle());
        let addresses = far.host().addresses();
        let peer = near.node_named("other").unwrap();
        assert_eq!(peer, id(2));
        // Two requests at a time share one session, and so does the peer.
        let (first, second) = tokio::join!(
            near.session_with(peer, &addresses),
            near.session_with(peer, &addresses)
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(first.id(), second.id());
        tokio::join!(echo(&first, "a"), echo(&second, "b"));
        let back = far.session_with(id(1), &[]).await.unwrap();
        assert_eq!(far.host().sessions().len(), 1);

        // No service takes these: they are stopped, and nothing else happens to the session.
        for session in [&back, &first] {
            let refused = session.open_stream(duplex("unknown")).unwrap();
            refused.send("?".into()).await.unwrap();
            let failure = refused.recv().await.unwrap_err();
            assert!(
                matches!(failure, StreamFailure::Reset(CODE_NO_RIGHT)),
                "{failure}"
            );
        }
        echo(&first, "c").await;
        assert_eq!(service.served.load(Ordering::Relaxed), 3);

        // After the registration, too.
        drop(registration);
        let refused = first.open_stream(duplex("echo")).unwrap();
        refused.send("?".into()).await.unwrap();
        assert!(refused.recv().await.is_err());

        // The session ends when nothing uses it any more.
        drop((second, back, refused));
        let id = first.id();
        drop(first);
        while near
            .host()
            .sessions()
            .iter()
            .any(|open| open.stats.session == id)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(async {
        tokio::select! {
            () = one.run() => unreachable!("it runs until dropped"),
            () = other.run() => unreachable!("it runs until dropped"),
            () = test => {}
        }
    })
    .await;
}
