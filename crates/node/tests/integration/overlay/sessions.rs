//! Sessions of programs with members that are no peers.

use anabranch::{AllowList, Host, HostConfig, StreamSpec};

use super::*;

/// Each side sends a file to the other, whichever has opened the session of the overlay: nothing but the overlay is served on that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_reached_beside_the_session_of_the_overlay() {
    within(async {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let outgoing = tempfile::tempdir().unwrap();
        let at = addresses(2);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at.iter().copied()).collect();
        let mut daemons = Vec::new();
        for (n, folder) in (1..).zip(&folders) {
            let config = config(folder.path(), n, at[usize::from(n) - 1], &known);
            daemons.push(Daemon::start(config).await.unwrap());
        }
        let [one, two] = &daemons[..] else {
            unreachable!()
        };
        let check = async {
            until(one, id(2), &[State::Alive]).await;
            until(two, id(1), &[State::Alive]).await;
            for (from, to) in [(one, 2), (two, 1)] {
                let file = outgoing.path().join(format!("for-{to}"));
                std::fs::write(&file, vec![to; 100_000]).unwrap();
                let session = from
                    .handle()
                    .session_with(id(to), Vec::new())
                    .await
                    .unwrap();
                let sent = send(&session, None, Source::Path(file), &Progress::default()).await;
                assert_eq!(sent.unwrap().bytes, 100_000);
                // It is the same one the next time.
                let again = from
                    .handle()
                    .session_with(id(to), Vec::new())
                    .await
                    .unwrap();
                assert_eq!(again.id(), session.id());
            }
        };
        tokio::select! {
            () = one.run() => unreachable!(),
            () = two.run() => unreachable!(),
            () = check => {}
        }
    })
    .await;
}

/// A session that a member has just opened may be for the overlay, and is not used for anything else before that is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_turns_out_to_be_of_the_overlay_is_not_used() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(2);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at.iter().copied()).collect();
        let config = config(folder.path(), 1, at[0], &known);
        let one = Daemon::start(config).await.unwrap();
        let two = HostConfig::new(key(2), AllowList::everyone()).bind([at[1]]);
        let two = Host::start(two).unwrap();
        let check = async {
            let handle = one.handle();
            let is_incoming = |session: &anabranch::Session| session.stats().unwrap().incoming;
            for is_for_overlay in [true, false] {
                let theirs = two.connect(id(1), vec![at[0]]).await.unwrap();
                // Until the node has it.
                let pause = Duration::from_millis(200);
                let opened = async {
                    tokio::time::sleep(pause).await;
                    loop {
                        let opened = handle.session_with(id(2), Vec::new()).await.unwrap();
                        // It may still be on its way, on a busy machine.
                        if is_for_overlay || is_incoming(&opened) {
                            return opened;
                        }
                        opened.close(0, "another one");
                    }
                };
                let gossip = async {
                    if !is_for_overlay {
                        return;
                    }
                    tokio::time::sleep(pause + Duration::from_millis(50)).await;
                    let label = "anabranch-overlay-gossip/1".to_owned();
                    let duplex = true;
                    let spec = StreamSpec {
                        label,
                        duplex,
                        ..StreamSpec::default()
                    };
                    let stream = theirs.open_stream(spec).unwrap();
                    stream.send([0_u8].to_vec().into()).await.unwrap();
                    std::future::pending::<()>().await;
                };
                let opened = tokio::select! {
                    opened = opened => opened,
                    () = gossip, if is_for_overlay => unreachable!(),
                };
                assert_eq!(is_incoming(&opened), !is_for_overlay);
                theirs.close(0, "over");
                opened.close(0, "over");
            }
        };
        tokio::select! {
            () = one.run() => unreachable!(),
            () = check => {}
        }
    })
    .await;
}
