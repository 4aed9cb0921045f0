//! An impostor at the address of a ticket's receiver.

use std::{net::UdpSocket, time::Duration};

use anabranch::{SecretKey, Ticket};

use crate::faults::{bare, process::Process};

/// The QUIC library panics at the answers, and the program continues.
#[test]
fn an_impostor_of_the_receiver_does_not_end_the_program() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film"), "a film").unwrap();
    let impostor = UdpSocket::bind("127.0.0.1:0").unwrap();
    impostor
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let ticket = Ticket {
        hosts: Vec::new(),
        via: None,
        node: SecretKey::from_seed([2; 32]).node_id(),
        secret: None,
        addresses: vec![impostor.local_addr().unwrap()],
    };
    let ticket = ticket.to_string();
    let arguments = ["send", "-q", "--key", "s.key", "film", &ticket];
    let sender = Process::start(folder.path(), &arguments, None);
    let mut first = [0; 2000];
    let (length, remote) = impostor.recv_from(&mut first).unwrap();
    // The sender receives all of them at once when it continues.
    sender.signal("STOP");
    for packets in bare::overfilling_answers(&first[..length]).chunks(20) {
        impostor.send_to(&packets.concat(), remote).unwrap();
    }
    sender.signal("CONT");
    // A packet with another connection ID belongs to another attempt to connect.
    let known = [first[6..14].to_vec(), bare::ID.to_vec()];
    while known.iter().any(|id| *id == first[6..14]) {
        impostor.recv_from(&mut first).unwrap();
    }
    sender.signal("INT");
    sender.ended().is(130, &["panicked at"]);
}
