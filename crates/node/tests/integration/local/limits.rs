//! Limits of users, and who may attach at all.

use std::time::{Duration, Instant};

use anabranch::{
    Client, ClientError, Failure, Guarantee, Priority, StreamSpec,
    base::Rate,
    config::{LocalLimits, LocalUser},
    daemon::Source,
};

use super::{ALL_SERVICES, Node, Pair, config, duplex, echo, within};

/// The user that runs this test.
fn own() -> LocalUser {
    use std::os::unix::fs::MetadataExt;
    LocalUser::Uid(std::fs::metadata("/proc/self").unwrap().uid())
}

const FEW: LocalLimits = LocalLimits {
    priority_max: Priority::NORMAL,
    promised_rate_max: Some(Rate::from_mbps(5)),
    streams_max: Some(3),
    may_change_objectives: false,
    ..LocalLimits::NONE
};

#[track_caller]
fn limited<T: std::fmt::Debug>(result: Result<T, ClientError>, of: &str, allows: &str) {
    match result.unwrap_err() {
        ClientError::Limited {
            key,
            allowed,
            message,
            ..
        } => {
            assert_eq!((key.as_str(), allowed.as_str()), (of, allows));
            assert!(message.contains(of), "{message}");
        }
        other => panic!("{other}"),
    }
}

fn asking(mbps: u64) -> StreamSpec {
    let guarantee = Guarantee::rate(Rate::from_mbps(mbps), 0.9).waiting();
    StreamSpec {
        priority: Priority::NORMAL,
        ..StreamSpec::messages("x").with_guarantee(guarantee)
    }
}

#[tokio::test]
async fn a_refusal_names_the_limit_and_what_is_allowed() {
    let pair = Pair::with_near(|config| {
        config.local.as_mut().unwrap().users = vec![(own(), FEW)];
    })
    .await;
    pair.run(async {
        // Two applications of one user share the limits.
        let (one, other) = (pair.near.attach().await, pair.near.attach().await);
        let (session, again) = (pair.session(&one).await, pair.session(&other).await);
        let urgent = StreamSpec {
            priority: Priority::URGENT,
            ..StreamSpec::messages("x")
        };
        limited(
            session.open_stream(urgent.clone()).await,
            "priority_max",
            "128",
        );
        limited(session.admit(&urgent).await, "priority_max", "128");
        let first = session.open_stream(asking(3)).await.unwrap();
        limited(
            again.open_stream(asking(3)).await,
            "promised_rate_max",
            "5000000 bit/s",
        );
        let second = again.open_stream(asking(2)).await.unwrap();
        let more = Guarantee::rate(Rate::from_mbps(3), 0.9).waiting();
        limited(
            second.change_guarantee(Some(more)).await,
            "promised_rate_max",
            "5000000 bit/s",
        );
        first.change_guarantee(None).await.unwrap();
        second.change_guarantee(Some(more)).await.unwrap();
        let _third = session
            .open_stream(duplex_of(Priority::BULK))
            .await
            .unwrap();
        limited(
            again.open_stream(duplex_of(Priority::BULK)).await,
            "streams_max",
            "3",
        );
        drop(first);
        let reopened = async {
            while again.open_stream(duplex_of(Priority::BULK)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        reopened.await;
        limited(
            session.inject_objectives("hose 2").await,
            "objectives",
            "false",
        );
    })
    .await;
}

fn duplex_of(priority: Priority) -> StreamSpec {
    StreamSpec {
        priority,
        ..duplex("x")
    }
}

#[tokio::test]
async fn a_rate_holds_for_all_streams_of_a_user_together() {
    let rate_max = Rate::from_mbps(8);
    let pair = Pair::with_near(|config| {
        let limits = LocalLimits {
            rate_max: Some(rate_max),
            ..LocalLimits::NONE
        };
        config.local.as_mut().unwrap().users = vec![(own(), limits)];
    })
    .await;
    pair.run(async {
        let far = pair.far.attach().await;
        let echoing = tokio::spawn(echo(far.register("echo").await.unwrap()));
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let session = session.clone();
            tasks.spawn(async move {
                let stream = session.open_stream(duplex("echo")).await.unwrap();
                for _ in 0..10 {
                    stream.send(vec![0; 100_000]).await.unwrap();
                }
                stream.finish().unwrap();
                stream.delivered().await.unwrap();
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        // 4 MB at 1 MB a second, less the first quarter of a second and the last batch of each stream.
        assert!(
            began.elapsed() > Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        echoing.abort();
    })
    .await;
}

#[tokio::test]
async fn a_reload_changes_the_limits_of_new_streams() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), 1, 2, ALL_SERVICES).await;
    let users = std::sync::Arc::new(std::sync::Mutex::new(vec![(own(), FEW)]));
    let source: Source = {
        let (folder, users) = (node.folder.clone(), users.clone());
        Box::new(move || {
            let mut config = config(&folder, 2, ALL_SERVICES);
            config.local.as_mut().unwrap().users = users.lock().unwrap().clone();
            Ok(config)
        })
    };
    let node = Node {
        daemon: node.daemon.with_source(source),
        folder: node.folder,
    };
    let far = Node::start(folder.path(), 2, 1, ALL_SERVICES).await;
    let work = async {
        let near = node.attach().await;
        let addresses = far.daemon.host().addresses();
        let session = near.connect_at("other", &addresses).await.unwrap();
        let urgent = StreamSpec::messages("x");
        let before = session.open_stream(urgent.clone()).await.unwrap();
        let reloaded = node.daemon.reload().await.unwrap();
        assert_eq!(reloaded.restart, Vec::<&str>::new());
        limited(
            session.open_stream(urgent.clone()).await,
            "priority_max",
            "128",
        );
        // What was open goes on.
        before.send("?").await.unwrap();
        *users.lock().unwrap() = vec![(LocalUser::Name("no such user".to_owned()), FEW)];
        let refused = node.daemon.reload().await.unwrap_err();
        assert!(refused.to_string().contains("no such user"), "{refused}");
        limited(
            session.open_stream(urgent.clone()).await,
            "priority_max",
            "128",
        );
        users.lock().unwrap().clear();
        node.daemon.reload().await.unwrap();
        session.open_stream(urgent).await.unwrap();
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

/// Only root can be another user, so that this has an effect for root only.
#[tokio::test]
async fn another_user_is_refused_unless_listed() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: u32 = 65_534;
    const ATTACH: &str = "import socket, sys, struct\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        hello = b'{\"protocol\": \"anabranch-local\", \"versions\": {\"min\": 1, \"max\": 1}}'\n\
        # Who is refused is not waited for.\n\
        try: s.sendall(struct.pack('>IB', len(hello) + 1, 1) + hello)\n\
        except OSError: pass\n\
        length, kind = struct.unpack('>IB', s.recv(5, socket.MSG_WAITALL))\n\
        print(kind, s.recv(length - 1, socket.MSG_WAITALL).decode())";
    if own() != LocalUser::Uid(0) {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let start = async |listed: bool| {
        Pair::with_near(|config| {
            let local = config.local.as_mut().unwrap();
            let other = LocalUser::Uid(if listed { NOBODY } else { NOBODY - 1 });
            local.users = vec![(other, LocalLimits::NONE)];
        })
        .await
    };
    for (is_listed, expected) in [(false, "3 "), (true, "2 ")] {
        let pair = start(is_listed).await;
        let open = std::fs::Permissions::from_mode(0o755);
        for folder in [pair.near.folder.parent().unwrap(), &pair.near.folder] {
            std::fs::set_permissions(folder, open.clone()).unwrap();
        }
        pair.run(async {
            let output = tokio::process::Command::new("python3")
                .args(["-c", ATTACH])
                .arg(pair.near.socket())
                .uid(NOBODY)
                .gid(NOBODY)
                .output()
                .await;
            let Ok(output) = output else {
                eprintln!("skipped: there is no python3 for others");
                return;
            };
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with(expected), "{said} {errors}");
            assert_eq!(said.contains("not_allowed"), !is_listed, "{said}");
            // The owner may attach in any case.
            let own = Client::attach(pair.near.socket(), "own").await;
            assert!(own.is_ok(), "{:?}", own.err().map(|e| e.is_session_over()));
        })
        .await;
    }
}
