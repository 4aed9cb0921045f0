//! Addresses of consoles of an origin and a proxy that cannot be used.

use std::{net::TcpListener, process::Output};

use crate::harness::{keygen, limited, private_folder};

#[test]
fn an_address_that_a_console_cannot_have_is_refused_with_one_that_it_can() {
    let folder = private_folder();
    let home = folder.path();
    std::fs::create_dir(home.join("films")).unwrap();
    keygen(home);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let node = anabranch::keys::generate().unwrap().node_id();
    let ticket = anabranch::Ticket {
        hosts: Vec::new(),
        via: None,
        node,
        secret: Some(anabranch::ticket::Secret([7; 16])),
        addresses: vec![([127, 0, 0, 1], 9).into()],
    };
    let ticket = ticket.to_string();
    let origin = [
        "origin",
        "--library",
        "films",
        "--listen",
        "127.0.0.1:0",
        "--state",
        "state",
    ];
    let proxy = [
        "proxy",
        "--cache",
        "cache",
        "--http",
        "127.0.0.1:0",
        "--origin",
        &ticket,
    ];
    for program in [&origin[..], &proxy[..]] {
        let with = |address: &str| -> Output {
            limited(home, 120)
                .arg("video")
                .args(program)
                .args(["--key", "mine.key", "--console", address])
                .output()
                .unwrap()
        };
        for (address, code, words) in [
            ("8471", 2, "such as 127.0.0.1:8471; with port 0, a free one"),
            ("localhost:8471", 2, "such as 127.0.0.1:8471"),
            ("0.0.0.0:8471", 2, "addresses of this machine only"),
            (&taken, 1, "choose another port, or 0 for a free one"),
        ] {
            let output = with(address);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{address}: {errors}");
            assert!(errors.contains(words), "{address}: {errors}");
            assert!(output.stdout.is_empty(), "nothing is offered: {output:?}");
        }
    }
}
