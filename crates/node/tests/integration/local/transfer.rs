//! Transfers over the sessions of a running node.

use std::fs;

use anabranch::{
    StreamSpec,
    transfer::{FileProgress, Progress, Source, TransferError, send, send_observed},
};

use super::Pair;

#[tokio::test]
async fn files_go_over_the_session_that_the_node_has() {
    let pair = Pair::with(r#"may = ["call", "send-files"]"#).await;
    pair.run(async {
        let (root, to) = (&pair.near.folder, pair.far.folder.join("received"));
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let tree = root.join("tree");
        fs::create_dir_all(tree.join("empty")).unwrap();
        fs::write(tree.join("large"), vec![7; 5_000_000]).unwrap();
        fs::write(tree.join("nothing"), "").unwrap();
        let progress = Progress::default();
        let source = Source::Path(tree.clone());
        let sent = send(&session, None, source, &progress).await.unwrap();
        assert_eq!((sent.files, sent.bytes), (2, 5_000_000));
        let state = progress.snapshot();
        assert_eq!((state.bytes_done, state.files_done), (5_000_000, 2));
        let large = FileProgress {
            path: "tree/large".to_owned(),
            bytes_total: Some(5_000_000),
            bytes_done: 5_000_000,
        };
        assert_eq!(
            state.file,
            Some(large),
            "an empty file has no bytes to move"
        );
        assert!(fs::read(to.join("tree/large")).unwrap() == vec![7; 5_000_000]);
        assert!(to.join("tree/empty").is_dir());
        // Another one, of a reader, with the data stream in view.
        let source = Source::Reader {
            name: "words".to_owned(),
            reader: Box::new(&b"some words"[..]),
        };
        let (mut seen, data) = (None, StreamSpec::bulk(""));
        let observe = |stream: &anabranch::local::client::Stream| seen = Some(stream.id());
        let sent = send_observed(&session, None, source, &data, &progress, observe).await;
        assert_eq!(sent.unwrap().bytes, 10);
        assert!(seen.is_some());
        assert_eq!(fs::read(to.join("words")).unwrap(), b"some words");
        assert_eq!(pair.near.daemon.host().sessions().len(), 1);
        // The receiver's reason arrives.
        let again = send(&session, None, Source::Path(tree), &progress).await;
        let error = again.unwrap_err();
        assert!(
            matches!(error, TransferError::Refused(_) | TransferError::Failed(_)),
            "{error}"
        );
        assert!(error.to_string().contains("exists"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn without_the_right_to_send_files_nothing_is_sent() {
    let pair = Pair::with(r#"may = ["call"]"#).await;
    pair.run(async {
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let source = Source::Path(pair.near.folder.join("key"));
        let error = send(&session, None, source, &Progress::default()).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, TransferError::Refused(_)) || error.is_interruption(),
            "{error}"
        );
        assert!(!pair.far.folder.join("received/key").exists());
    })
    .await;
}
