//! Split TCP: connections that end at the nodes, and what programs see of that.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
};

use crate::{
    programs::{self, Download, serve, source},
    stage::{CLIENT, HOST, Running, SERVER, Stage, TIMEOUT, until},
};

const SPLIT: [&str; 2] = ["--default-route", "--split-tcp"];
/// The hosts here have addresses of no public network.
const ANY: [&str; 2] = ["--to", "any"];
/// Port at which programs of these tests listen.
const PORT: u16 = 7010;

/// Number of connections that a client has carried as streams, which it prints in the end.
#[track_caller]
fn ended(client: Running) -> u64 {
    client.process.signal("INT");
    let text = client.process.ended().is(0, &["sent"]);
    match text.err.split_once(" TCP connections") {
        Some((before, _)) => before.rsplit(' ').next().unwrap().parse().unwrap(),
        None => 0,
    }
}

/// Connects from the client's machine.
fn connect(stage: &Stage, to: &str, port: u16) -> std::io::Result<TcpStream> {
    let to = SocketAddr::new(to.parse().unwrap(), port);
    let stream = stage.client.run(|| programs::connect(to))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Listens at every address of the server's machine.
fn listen(stage: &Stage) -> TcpListener {
    let any: IpAddr = "::".parse().unwrap();
    stage.server.run(|| TcpListener::bind((any, PORT)).unwrap())
}

/// Address from which a connection to this one arrives.
#[track_caller]
fn arrives_from(stage: &Stage, listener: &TcpListener, to: &str) -> IpAddr {
    let stream = connect(stage, to, PORT).unwrap();
    let (accepted, from) = listener.accept().unwrap();
    drop((stream, accepted));
    from.ip().to_canonical()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn connections_are_carried_whole_and_other_packets_as_before() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &SPLIT);
    Download::start(&stage.client, HOST, 20_000_000).ended();
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    // To the tunnel's own network, connections are packets.
    Download::start(&stage.client, SERVER, 1_000_000).ended();
    let many: Vec<Download> = (0..50)
        .map(|_| Download::start(&stage.client, HOST, 100_000))
        .collect();
    for download in many {
        download.ended();
    }
    assert_eq!(ended(client), 51);
    assert!(server.events("warning").is_empty());
}

/// A program that sends its question, ends its side, and reads the answer until its end, as many do.
#[test]
fn each_direction_ends_by_itself_and_resets_are_resets() {
    let Some(stage) = Stage::new() else { return };
    let listener = listen(&stage);
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    let question: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let stream = connect(&stage, HOST, PORT).unwrap();
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(
        from.ip().to_canonical(),
        address(HOST),
        "made by the server"
    );
    let asking = std::thread::spawn({
        let (mut stream, question) = (stream, question.clone());
        move || {
            stream.write_all(&question).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        }
    });
    let mut heard = Vec::new();
    accepted.read_to_end(&mut heard).unwrap();
    assert!(heard == question);
    accepted.write_all(&heard).unwrap();
    drop(accepted);
    assert!(asking.join().unwrap() == question);

    let mut stream = connect(&stage, HOST, PORT).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let linger = Some(std::time::Duration::ZERO);
    socket2::SockRef::from(&accepted)
        .set_linger(linger)
        .unwrap();
    drop(accepted);
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    // A program that is gone is gone at the other end.
    let stream = connect(&stage, HOST, PORT).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket2::SockRef::from(&stream).set_linger(linger).unwrap();
    drop(stream);
    let error = accepted.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn programs_learn_that_their_target_refuses_or_cannot_be_reached() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&ANY);
    let client = stage.join(&ticket, &SPLIT);
    for address in [HOST, "2001:db8:9::1"] {
        stage
            .server
            .ip("-6 address replace 2001:db8:9::1/128 dev lo nodad");
        let refused = connect(&stage, address, 9).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{address}");
    }
    // The server's machine has no route there.
    for address in ["203.0.113.77", "2001:db8:ffff::1"] {
        let error = connect(&stage, address, 9).unwrap_err();
        let kinds = [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
        assert!(kinds.contains(&error.kind()), "{address}: {error}");
    }
    assert_eq!(ended(client), 0);
}

/// Those that the server does not make pass as packets, and the server's kernel decides.
#[test]
fn connections_that_the_server_does_not_make_pass_as_packets() {
    let Some(stage) = Stage::new() else { return };
    let listener = listen(&stage);
    let (server, ticket) = stage.serve(&[]);
    let client = stage.join(&ticket, &SPLIT);
    // Not a public address.
    assert_eq!(arrives_from(&stage, &listener, HOST), address(CLIENT));
    assert_eq!(arrives_from(&stage, &listener, HOST), address(CLIENT));
    assert!(client.events("warning").is_empty());
    assert_eq!(ended(client), 0);
    drop(server);

    let id = stage.id("client.key");
    let config = format!(
        "listen = [\"10.95.0.2:4433\", \"10.95.1.2:4433\"]\nkey = \"server.key\"\ncontrol = \"control\"\nlocal = \"\"\n\
         [[peer]]\nname = \"client\"\nnode = \"{id}\"\nmay = [\"call\", \"tunnel\"]\n\
         [tunnel.server]\npools = [\"10.77.0.0/24\"]\nsplit_tcp = false\n"
    );
    std::fs::write(stage.path("node.toml"), config).unwrap();
    let node = stage.node("node.toml");
    let mut client = stage.join(&ticket, &SPLIT);
    assert_eq!(arrives_from(&stage, &listener, HOST), address(CLIENT));
    let text = client.wait("warning", 1)["text"].to_string();
    assert!(text.contains("pass as packets"), "{text}");
    assert_eq!(ended(client), 0);
    drop(node);
}

/// A firewall that lets nothing in: the second halves of connections never arrive.
#[test]
fn a_firewall_in_the_way_is_named() {
    let Some(stage) = Stage::new() else { return };
    let listener = listen(&stage);
    let (_server, ticket) = stage.serve(&ANY);
    let mut client = stage.join(&ticket, &SPLIT);
    // A strict filter, to which their source is unknown.
    stage.client.run(|| {
        std::fs::write("/proc/sys/net/ipv4/conf/anabranch0/rp_filter", "1").unwrap();
    });
    stage
        .client
        .ip("rule add to 10.77.0.1 priority 10 blackhole");
    let stream = connect(&stage, HOST, PORT).unwrap();
    // The first one was made by the server, and ended; the next is that of the packets.
    until("a connection of packets", || {
        let (_, from) = listener.accept().unwrap();
        from.ip().to_canonical() == address(CLIENT)
    });
    drop(stream);
    let text = client.wait("warning", 1)["text"].to_string();
    assert!(
        text.contains("firewall") && text.contains("anabranch0"),
        "{text}"
    );
}

#[test]
fn connections_end_with_the_server_and_new_ones_follow_its_return() {
    let Some(stage) = Stage::new() else { return };
    let listener = listen(&stage);
    let (server, ticket) = stage.serve(&ANY);
    let mut client = stage.join(&ticket, &SPLIT);
    let mut stream = connect(&stage, HOST, PORT).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(b"before").unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    server.process.signal("KILL");
    drop(server);
    let (_server, _) = stage.serve(&ANY);
    client.wait("down", 1);
    client.wait("up", 2);
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(arrives_from(&stage, &listener, HOST), address(HOST));
    assert_eq!(ended(client), 2);
}

/// Both families, over a path that is cut and mended while the connection lasts.
#[test]
fn a_connection_goes_on_while_paths_change() {
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    let mut download = Download::start(&stage.client, HOST, 30_000_000);
    for index in [0, 1, 0] {
        download.goes_on(2_000_000);
        stage.set_up(index, false);
        download.goes_on(2_000_000);
        stage.set_up(index, true);
    }
    download.ended();
}

/// The listener for second halves takes none of another program.
#[test]
fn a_program_that_connects_to_the_listener_itself_is_sent_away() {
    let Some(stage) = Stage::new() else { return };
    let (_server, ticket) = stage.serve(&ANY);
    let _client = stage.join(&ticket, &SPLIT);
    // Rows of listening sockets: local address, remote address, state 0A; addresses are hexadecimal, in the order of the machine.
    let table = stage
        .client
        .run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let wanted = format!("{:08X}:", u32::from_ne_bytes([10, 77, 0, 2]));
    let mut ports = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next()?, words.next()?, words.next()?);
        let port = local.strip_prefix(&wanted).filter(|_| state == "0A")?;
        u16::from_str_radix(port, 16).ok()
    });
    let port = ports.next_back().unwrap();
    let mut stream = connect(&stage, CLIENT, port).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
}

/// Those of a node are shown with its other flows, and its rules apply.
#[test]
fn rules_apply_and_connections_are_shown_with_other_flows() {
    let Some(stage) = Stage::new() else { return };
    let listener = listen(&stage);
    let (_server, _) = stage.serve(&ANY);
    let server = stage.id("server.key");
    let config = format!(
        "key = \"client.key\"\ncontrol = \"control-client\"\nlocal = \"\"\n\
         [[peer]]\nname = \"exit\"\nnode = \"{server}\"\nmay = []\naddresses = [\"10.95.0.2:4433\", \"10.95.1.2:4433\"]\n\
         [[rule]]\nname = \"no mail\"\nmatch = {{ port = 25 }}\ndeny = true\n\
         [[rule]]\nname = \"bulk\"\nmatch = {{ address = \"198.51.100.0/24\" }}\nservice = \"bulk\"\n\
         [tunnel.client]\npeer = \"exit\"\ndefault_route = true\nsplit_tcp = true\n"
    );
    std::fs::write(stage.path("client.toml"), config).unwrap();
    let node = stage.node_in(&stage.client, "client.toml");
    until("the rules are set", || {
        stage.shown("rule").contains("5272:")
    });
    let stream = connect(&stage, HOST, PORT).unwrap();
    let (_accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_canonical(), address(HOST));
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["flows", "--json", "--control"])
        .arg(stage.path("control-client"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(
        text.contains(&format!("{HOST}:{PORT}")) && text.contains("bulk"),
        "{text}{shown:?}"
    );
    let error = connect(&stage, HOST, 25).unwrap_err();
    assert!(
        !matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::ConnectionRefused
        ),
        "{error}"
    );
    drop(stream);
    node.signal("TERM");
    node.ended().is(0, &[]);

    // The command takes the rules of the same file.
    let own = ["--config", "client.toml"];
    let _client = stage.join("exit", &[&own[..], &SPLIT].concat());
    let (_made, _) = (connect(&stage, HOST, PORT).unwrap(), listener.accept());
    let error = connect(&stage, HOST, 25).unwrap_err();
    assert_ne!(
        error.kind(),
        ErrorKind::ConnectionRefused,
        "nobody was asked"
    );
}
