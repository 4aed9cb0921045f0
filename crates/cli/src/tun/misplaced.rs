//! Arguments of the other end of a tunnel: a client's given to the server, or the reverse. Each is an error, because the user expects
//! an effect, such as that of `--allow`.

use super::Arguments;
use crate::exit::Failure;

/// Names of the arguments that are given.
fn given<const N: usize>(arguments: [(&'static str, bool); N]) -> String {
    let given = arguments.into_iter().filter(|(_, is_given)| *is_given);
    given.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// Checks that each argument has an effect.
pub(super) fn check(arguments: &Arguments) -> Result<(), Failure> {
    let of_server = given([
        ("--allow", !arguments.server.allow.is_empty()),
        ("--pool", !arguments.server.pools.is_empty()),
        ("--masquerade", arguments.server.masquerade),
        ("--to", !arguments.server.to.is_empty()),
        ("--listen", !arguments.server.listen.is_empty()),
        ("--port", arguments.server.port.is_some()),
        ("--leases", arguments.server.leases.is_some()),
    ]);
    let of_client = given([
        ("the ticket or peer", arguments.peer.is_given()),
        ("--default-route", arguments.default_route),
        ("--route", !arguments.route.is_empty()),
        ("--split-tcp", arguments.split_tcp),
        ("--dns", !arguments.dns.is_empty()),
        ("--lan", !arguments.lan.is_empty()),
        ("--allow-ipv6-leak", arguments.allow_ipv6_leak),
        ("--bind", !arguments.bind.is_empty()),
    ]);
    match arguments.serve {
        true if !of_client.is_empty() => Err(Failure::usage(format!(
            "a server takes no {of_client}: that is for the client, which `anabranch tun TICKET` starts on another machine. Leave it out \
             here, or leave out --serve"
        ))),
        true if arguments.peer.has_file() => Err(Failure::usage(
            "--serve reads no --config: give the settings as arguments, or run `anabranch node --config FILE` with a section \
             [tunnel.server]",
        )),
        false if !of_server.is_empty() => Err(Failure::usage(format!(
            "a client takes no {of_server}: that is for the server, `anabranch tun --serve --allow NODE`. Leave it out here, or give \
             --serve in place of the ticket"
        ))),
        false if arguments.allow_ipv6_leak && !arguments.default_route => Err(Failure::usage(
            "--allow-ipv6-leak has no effect without --default-route: add that, or leave it out",
        )),
        _ => Ok(()),
    }
}
