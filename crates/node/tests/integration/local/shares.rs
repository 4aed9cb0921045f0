//! Shares of users: the streams of a user's applications belong to a tenant, whose share the engine knows.

use anabranch::{
    Guarantee, Priority, Share, StreamSpec, Tenant,
    base::Rate,
    config::{LocalLimits, LocalUser},
    daemon::Source,
};

use super::{ALL_SERVICES, Node, config, duplex, within};

fn own() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

fn guarantee() -> Guarantee {
    Guarantee::rate(Rate::from_mbps(1), 0.9).waiting()
}

/// Users of the node: the one who runs it with this share, and another one with half.
fn users(percent: u32) -> Vec<(LocalUser, LocalLimits)> {
    let limits = |share: f64| LocalLimits {
        promised_share_max: Share::new(share),
        ..LocalLimits::NONE
    };
    let share = f64::from(percent) / 100.0;
    [(own(), share), (own() + 1, 0.5)]
        .map(|(user, share)| (LocalUser::Uid(user), limits(share)))
        .to_vec()
}

/// Tenants of the streams with this label that ask for a promise.
fn tenants(node: &Node, label: &str) -> Vec<Option<Tenant>> {
    let promises = node.daemon.host().promises();
    let ours = promises.iter().filter(|row| row.spec.label == label);
    ours.map(|row| row.spec.tenant).collect()
}

#[tokio::test]
async fn streams_belong_to_their_users_and_shares_follow_reloads() {
    let folder = tempfile::tempdir().unwrap();
    let first = |config: &mut anabranch::config::NodeConfig| {
        config.local.as_mut().unwrap().users = users(40);
    };
    let node = Node::start_with(folder.path(), 1, 2, ALL_SERVICES, first).await;
    let listed = std::sync::Arc::new(std::sync::Mutex::new(users(25)));
    let source: Source = {
        let (folder, listed) = (node.folder.clone(), listed.clone());
        Box::new(move || {
            let mut config = config(&folder, 2, ALL_SERVICES);
            config.local.as_mut().unwrap().users = listed.lock().unwrap().clone();
            Ok(config)
        })
    };
    let node = Node {
        daemon: node.daemon.with_source(source),
        folder: node.folder,
    };
    let far = Node::start(folder.path(), 2, 1, ALL_SERVICES).await;
    let work = async {
        let ours = Tenant::new(own().into());
        let share = || {
            let shares = node.daemon.host().promised_shares();
            shares.get(&ours).map(ToString::to_string)
        };
        let (near, other) = (node.attach().await, far.attach().await);
        assert_eq!(share().as_deref(), Some("40 %"));
        let addresses = far.daemon.host().addresses();
        let session = near.connect_at("other", &addresses).await.unwrap();
        let spec = StreamSpec {
            priority: Priority::NORMAL,
            ..StreamSpec::messages("own").with_guarantee(guarantee())
        };
        let _stream = session.open_stream(spec).await.unwrap();
        assert_eq!(tenants(&node, "own"), [Some(ours)]);
        // The peer's spec names no tenant, and the guarantee is for what this side sends.
        let service = near.register("theirs").await.unwrap();
        let back = other.connect("other").await.unwrap();
        let opened = back.open_stream(duplex("theirs")).await.unwrap();
        opened.send("?").await.unwrap();
        let (_, accepted) = service.accept().await.unwrap();
        accepted.change_guarantee(Some(guarantee())).await.unwrap();
        assert_eq!(tenants(&node, "theirs"), [Some(ours)]);
        node.daemon.reload().await.unwrap();
        assert_eq!(share().as_deref(), Some("25 %"));
        listed.lock().unwrap().truncate(1);
        listed.lock().unwrap()[0].1.promised_share_max = None;
        node.daemon.reload().await.unwrap();
        assert!(node.daemon.host().promised_shares().is_empty());
    };
    within(async {
        tokio::select! {
            () = node.daemon.run() => unreachable!("it runs until dropped"),
            () = far.daemon.run() => unreachable!("it runs until dropped"),
            () = work => {}
        }
    })
    .await;
}
