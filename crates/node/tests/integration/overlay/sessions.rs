//! Sessions of programs with members that are no peers.

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
