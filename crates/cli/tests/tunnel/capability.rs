//! CAP_NET_ADMIN as the only capability, as `packaging/systemd/anabranch-tunnel.service` gives it.

use std::{fs, process::Command};

use crate::{
    exit::{has_nft, setting},
    namespace::Namespace,
    programs::{Download, serve, source},
    stage::{CLIENT, HOST, Running, Stage, skip},
};

/// User without any rights.
const NOBODY: u32 = 65_534;
/// As `capsh --decode` reads it: CAP_NET_ADMIN.
const NET_ADMIN: &str = "0000000000001000";
/// Starts a program as a user with CAP_NET_ADMIN alone. /dev/net/tun is that of udev's rules, open to everyone, in a mount namespace that
/// `ip netns exec` has made.
const RESTRICTED: &str = "\
mount -t tmpfs -o mode=755 tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 &&
user=$1 && shift &&
exec setpriv --reuid=\"$user\" --regid=\"$user\" --clear-groups --no-new-privs \
--bounding-set=-all,+net_admin --inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin -- \"$@\"";

/// Keys, a program and a folder that this user owns; `None`, after printing the reason, where that is not possible.
fn prepared(user: u32) -> Option<Stage> {
    if Command::new("setpriv").arg("--version").output().is_err() {
        skip("there is no setpriv");
        return None;
    }
    let stage = Stage::new()?;
    let program = stage.path("anabranch");
    fs::copy(env!("CARGO_BIN_EXE_anabranch"), &program).unwrap();
    for name in ["client.key", "server.key"] {
        stage.key(name);
    }
    for name in ["", "anabranch", "client.key", "server.key"] {
        std::os::unix::fs::chown(stage.path(name), Some(user), Some(user)).unwrap();
    }
    Some(stage)
}

/// Starts `anabranch tun` as a user with CAP_NET_ADMIN alone, and checks that it has no other one.
#[track_caller]
fn start(stage: &Stage, namespace: &Namespace, user: u32, arguments: &[&str]) -> Running {
    let id = user.to_string();
    let words = ["sh", "-c", RESTRICTED, "sh", &id, "./anabranch"];
    let mut running = stage.start_by(namespace, &words, arguments);
    let kind = match arguments.contains(&"--serve") {
        true => "ticket",
        false => "up",
    };
    running.wait(kind, 1);
    let status = format!("/proc/{}/status", running.process.id());
    let status = fs::read_to_string(status).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("Uid:"), id);
    assert_eq!(
        [field("CapPrm:"), field("CapEff:"), field("CapBnd:")],
        [NET_ADMIN; 3]
    );
    running
}

fn ticket(server: &Running) -> String {
    let event = server.events("ticket").remove(0);
    event["ticket"].as_str().unwrap().to_owned()
}

#[test]
fn both_ends_need_no_other_right_and_no_root() {
    let Some(stage) = prepared(NOBODY) else {
        return;
    };
    serve(&stage.server);
    let id = stage.id("client.key").to_string();
    let mut own = vec!["--serve", "--key", "server.key", "--allow", &id];
    if has_nft() {
        own.extend(["--masquerade", "--to", "any"]);
    }
    let server = start(&stage, &stage.server, NOBODY, &own);
    let forwarding = || setting(&stage.server, "net/ipv4/ip_forward");
    assert_eq!(forwarding(), if own.len() > 5 { "1" } else { "0" });
    // Turned off as on machines that have IPv6 for no new device.
    let disable = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    stage.client.run(|| fs::write(disable, "1").unwrap());
    let ticket = ticket(&server);
    let own = [&ticket, "--key", "client.key", "--default-route"];
    let client = start(&stage, &stage.client, NOBODY, &own);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    assert_eq!(source(&stage.client, "fd77:616e::1", 32), "fd77:616e::2");
    Download::start(&stage.client, HOST, 10_000_000).ended();
    stage.set_up(0, false);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    let rules = stage.shown("rule show") + &stage.shown("-6 rule show");
    assert!(!rules.contains("5272:"), "{rules}");
    server.process.signal("TERM");
    server.process.ended().is(0, &[]);
    assert_eq!(forwarding(), "0");
    let leases = fs::read_to_string(stage.path(".local/state/anabranch/leases")).unwrap();
    assert!(leases.contains(&id), "{leases}");
}

/// The file with the servers that resolve names belongs to root, which needs no capability to write it.
#[test]
fn names_are_set_by_root_without_another_right() {
    let Some(stage) = prepared(0) else { return };
    let (_server, ticket) = stage.serve(&[]);
    let before = "nameserver 192.0.2.53\n";
    let names = stage.names(before);
    // The file as it was is kept under the name of the device, which clients of other tests share: /run is not in a namespace.
    let own = [
        &[&ticket, "--key", "client.key"][..],
        &["--dns", "10.77.0.1", "--name", "names0"],
    ];
    let client = start(&stage, &stage.client, 0, &own.concat());
    let during = names.text();
    assert!(during.contains("nameserver 10.77.0.1\n"), "{during}");
    client.process.signal("INT");
    client.process.ended().is(0, &[]);
    assert_eq!(names.text(), before);
}
