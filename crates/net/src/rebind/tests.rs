use super::*;
use crate::socket::SocketStats;

fn bind(text: &str, interface: Option<&str>) -> Bind {
    Bind {
        address: text.parse().unwrap(),
        interface: interface.map(Into::into),
    }
}

fn socket(id: u64, text: &str, interface: Option<&str>) -> SocketEntry {
    SocketEntry {
        id: SocketId(id),
        bind: bind(text, interface),
        device: interface.map(Into::into),
        interface: None,
        local: text.parse().unwrap(),
        is_up: true,
        stage: Stage::InUse,
        stats: SocketStats::default(),
    }
}

fn fixed(sockets: &[SocketEntry], binds: &[&str]) -> (Vec<u64>, Vec<Bind>) {
    let binds: Vec<Bind> = binds.iter().map(|text| bind(text, None)).collect();
    let locals = Locals::Fixed(binds.clone());
    let (kept, new) = divide(sockets, &locals, &[], binds);
    (kept.into_iter().map(|id| id.0).collect(), new)
}

fn followed(sockets: &[SocketEntry], port: u16, only: &[&str], now: &[Bind]) -> (Vec<u64>, usize) {
    let only: Vec<String> = only.iter().map(|&name| name.into()).collect();
    let locals = Locals::Interfaces { port, only };
    let (kept, new) = divide(sockets, &locals, &["tun0".into()], now.to_vec());
    (kept.into_iter().map(|id| id.0).collect(), new.len())
}

#[test]
fn an_unchanged_address_keeps_its_socket_and_each_socket_stands_for_one() {
    let sockets = [
        socket(0, "127.0.0.1:40001", None),
        socket(1, "127.0.0.1:40002", None),
    ];
    assert_eq!(fixed(&sockets, &["127.0.0.1:40002"]), (vec![1], vec![]));
    // A given port first, then any port.
    let any = "127.0.0.1:0";
    assert_eq!(fixed(&sockets, &[any, "127.0.0.1:40001"]).0, [0, 1]);
    assert_eq!(
        fixed(&sockets, &[any, any, any]),
        (vec![0, 1], vec![bind(any, None)])
    );
    let other = "127.0.0.2:40001";
    assert_eq!(fixed(&sockets, &[other]), (vec![], vec![bind(other, None)]));
}

#[test]
fn a_retired_socket_is_used_again_after_those_in_use() {
    let mut sockets = [
        socket(0, "127.0.0.1:40001", None),
        socket(1, "127.0.0.1:40002", None),
    ];
    sockets[0].stage = Stage::Retired;
    assert_eq!(fixed(&sockets, &["127.0.0.1:0"]).0, [1]);
    assert_eq!(fixed(&sockets, &["127.0.0.1:40001"]).0, [0]);
}

#[test]
fn addresses_of_followed_interfaces_stay_even_while_they_are_gone() {
    let mut sockets = [
        socket(0, "192.0.2.1:7", Some("eth0")),
        socket(1, "192.0.2.2:7", Some("wwan0")),
        socket(2, "192.0.2.3:7", Some("tun0")),
    ];
    sockets[1].is_up = false;
    let now = [bind("192.0.2.1:0", Some("eth0"))];
    assert_eq!(followed(&sockets, 0, &[], &now), (vec![0, 1], 0));
    assert_eq!(followed(&sockets, 0, &["eth0"], &now), (vec![0], 0));
    let now = [bind("192.0.2.1:8", Some("eth0"))];
    assert_eq!(followed(&sockets, 8, &[], &now), (vec![], 1));
    // Nothing would open a lost one again.
    assert_eq!(fixed(&sockets, &["192.0.2.2:7"]).0, [0; 0]);
}

#[test]
fn a_socket_of_the_host_in_the_way_is_named() {
    let refused = |held: &SocketEntry, wanted: Bind| {
        overlap(std::slice::from_ref(held), &[wanted]).map(|error| error.to_string())
    };
    let wide = socket(0, "0.0.0.0:4433", None);
    let error = refused(&wide, bind("127.0.0.1:4433", None)).unwrap();
    assert!(error.contains("127.0.0.1:4433 while this node has one on 0.0.0.0:4433;"));
    let mut old = socket(0, "127.0.0.1:4433", None);
    assert!(refused(&old, bind("0.0.0.0:4433", None)).is_some());
    old.stage = Stage::Retired;
    let error = refused(&old, bind("0.0.0.0:4433", None)).unwrap();
    assert!(error.contains("still in use by sessions"), "{error}");
    for free in ["0.0.0.0:4434", "0.0.0.0:0", "[::]:4433", "127.0.0.2:4433"] {
        assert_eq!(refused(&old, bind(free, None)), None, "{free}");
    }
    let of_interface = socket(0, "192.0.2.1:7", Some("eth0"));
    assert!(refused(&of_interface, bind("192.0.2.1:7", None)).is_some());
    assert!(refused(&of_interface, bind("192.0.2.1:7", Some("eth1"))).is_none());
}
