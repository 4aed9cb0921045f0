//! Clients of a simulation that stops for a while.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{pause, resume, sleep},
};

use super::{Report, Settings, Viewer, room::Room};
use crate::imd::{ByteOrder, Command, HELLO_BYTES, Section, Sections, SessionInfo};

/// Longer than every limit.
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_client_of_a_simulation_that_stops_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings {
        name: "adk".to_owned(),
        is_waiting: false,
        is_steering: false,
    };
    let (reports, mut reported) = mpsc::channel(100);
    let positions = Sections::of(&[Section::Positions]);
    let viewer = Viewer::new(vec![(listener, positions)], settings, reports);
    let info = SessionInfo {
        order: ByteOrder::Little,
        sections: positions,
        is_wrapped: false,
    };
    let room = Arc::new(Room::new(info, [positions].into_iter()));
    viewer.shared.room.send_replace(Some(room.clone()));
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut hello = [0; HELLO_BYTES];
    client.read_exact(&mut hello).await.unwrap();
    client.write_all(&Command::Go.to_bytes()).await.unwrap();
    assert!(matches!(reported.recv().await, Some(Report::Client { .. })));
    for packets in [&b"before"[..], b"after"] {
        pause();
        sleep(DAY).await;
        resume();
        room.give(0, &Bytes::from_static(packets), false).await;
        let mut read = vec![0; packets.len()];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, packets);
    }
    room.close();
    assert_eq!(client.read(&mut hello).await.unwrap(), 0);
    drop(client);
    let left = reported.recv().await;
    let is_served = matches!(
        left,
        Some(Report::Left {
            served: 2,
            skipped: 0,
            why: None,
            ..
        })
    );
    assert!(is_served, "{left:?}");
}
