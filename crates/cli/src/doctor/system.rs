//! Checks of the system: buffers, files, clock, rights, disks.

use super::{
    facts::{Clock, Facts},
    finding::{Finding, State},
};

/// Buffer that the host asks for (`crates/net/src/socket.rs`).
const BUFFER_BYTES: u64 = 8 << 20;
/// Open files below which connections of programs may be refused.
const FILES: u64 = 4_096;
/// Time before which no version of this program existed: 2026-01-01.
const CLOCK_MIN_S: u64 = 1_767_225_600;
/// Free bytes below which the files of the node may not be written, and those below which that is near.
const DISK_PROBLEM_BYTES: u64 = 16 << 20;
const DISK_WARNING_BYTES: u64 = 1 << 30;

/// Difference of two looks at the clock beyond which it jumped, in ms; reading takes less.
const JUMP_MS: i64 = 500;
/// The same since the node began, whose start is known less well.
const JUMP_BACK_MS: i64 = -5_000;
const JUMP_FORWARD_MS: i64 = 60_000;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![buffers(facts), files(facts), clock(facts)];
    all.extend(tunnel(facts));
    all.extend(disks(facts));
    all
}

fn buffers(facts: &Facts) -> Finding {
    const CHECK: &str = "buffers";
    let Some((receive, send)) = facts.system.buffers_max else {
        return Finding::unknown(CHECK, "the limits of socket buffers cannot be read here");
    };
    if receive >= BUFFER_BYTES && send >= BUFFER_BYTES {
        return Finding::ok(CHECK, "sockets get the buffers that they ask for");
    }
    let words = format!(
        "sockets get buffers of {receive} B for receiving and {send} B for sending, in place of {BUFFER_BYTES} B: packets are \
         dropped above some 300 Mbit/s"
    );
    Finding::warning(CHECK, words).mended_by(format!(
        "sysctl -w net.core.rmem_max={BUFFER_BYTES} net.core.wmem_max={BUFFER_BYTES}"
    ))
}

fn files(facts: &Facts) -> Finding {
    const CHECK: &str = "files";
    match facts.system.open_files {
        None => Finding::unknown(CHECK, "the limit of open files cannot be read here"),
        Some(limit) if limit >= FILES => Finding::ok(CHECK, format!("{limit} files may be open")),
        Some(limit) => {
            let words =
                format!("only {limit} files may be open: connections through the node are refused");
            Finding::warning(CHECK, words).mended_by(format!("ulimit -Hn {}", 16 * FILES))
        }
    }
}

fn clock(facts: &Facts) -> Finding {
    const CHECK: &str = "clock";
    let clock = &facts.system.clock;
    if clock.unix_s < CLOCK_MIN_S {
        let words = "the clock is wrong by years: caps of a month, and what the log and the record of promises say of times, are wrong";
        return Finding::problem(CHECK, words).mended_by("timedatectl set-ntp true");
    }
    if let Some(jump) = jumped(clock) {
        return Finding::warning(CHECK, jump).mended_by("timedatectl timesync-status");
    }
    match clock.is_synchronised {
        None => Finding::unknown(
            CHECK,
            "it cannot be seen if the clock follows a server of time",
        ),
        Some(true) => Finding::ok(CHECK, "it follows a server of time"),
        Some(false) => Finding::warning(
            CHECK,
            "the clock follows no server of time; caps of a month begin when it says so",
        )
        .mended_by("timedatectl set-ntp true"),
    }
}

/// A jump of the clock, in words.
fn jumped(clock: &Clock) -> Option<String> {
    let seconds = |ms: i64| ms.unsigned_abs() as f64 / 1e3;
    let side = |ms: i64| if ms < 0 { "back" } else { "forward" };
    if let Some((first, last)) = clock.looks_ms
        && (last - first).abs() >= JUMP_MS
    {
        let by = last - first;
        return Some(format!(
            "the clock jumped {} by {:.1} s while this command looked; something sets it again and again, perhaps two programs at once",
            side(by),
            seconds(by)
        ));
    }
    let by = clock.since_node_ms?;
    let cause = match by {
        ..=JUMP_BACK_MS => "it was set",
        JUMP_FORWARD_MS.. => "it was set, or the machine slept",
        _ => return None,
    };
    Some(format!(
        "since the node began, the clock moved {} by {:.0} s against the node's own time ({cause}): times in the log and in the record of \
         promises, and caps of a month, are off by as much",
        side(by),
        seconds(by)
    ))
}

fn tunnel(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "tunnel";
    if !facts.config.has_tunnel {
        return None;
    }
    let system = &facts.system;
    Some(if !system.has_tun {
        Finding::problem(CHECK, "the kernel has no TUN devices").mended_by("modprobe tun")
    } else if system.is_net_admin == Some(false) {
        let words =
            "this user may not make devices and routes (CAP_NET_ADMIN), which [tunnel] needs";
        Finding::problem(CHECK, words)
            .mended_by("setcap cap_net_admin+ep \"$(command -v anabranch)\"")
    } else if facts.config.needs_nft && !system.has_nft {
        Finding::problem(CHECK, "[tunnel] needs nft, which is not installed")
            .mended_by("apt-get install nftables")
    } else {
        Finding::ok(CHECK, "devices and routes can be made")
    })
}

fn disks(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "disk";
    let findings = facts.system.disks.iter().map(|(path, free)| {
        let path = path.display();
        let megabytes = free / 1_000_000;
        let state = match *free {
            0..DISK_PROBLEM_BYTES => State::Problem,
            DISK_PROBLEM_BYTES..DISK_WARNING_BYTES => State::Warning,
            _ => State::Ok,
        };
        Finding {
            check: CHECK,
            state,
            words: format!("{megabytes} MB are free at {path}"),
            mend: match state {
                State::Ok => Vec::new(),
                _ => vec![format!("du -xh '{path}' | sort -h | tail")],
            },
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::facts::{Clock, Config, System},
        *,
    };

    fn good() -> Facts {
        Facts {
            config: Config {
                has_tunnel: true,
                ..Config::default()
            },
            system: System {
                buffers_max: Some((8 << 20, 16 << 20)),
                open_files: Some(1 << 20),
                clock: Clock {
                    is_synchronised: Some(true),
                    unix_s: CLOCK_MIN_S + 1,
                    looks_ms: Some((7_000, 7_010)),
                    since_node_ms: Some(900),
                },
                is_net_admin: Some(true),
                has_tun: true,
                has_nft: true,
                disks: vec![("/srv".into(), 2 << 30)],
            },
            ..Facts::default()
        }
    }

    /// The finding of a check about facts with one change.
    fn finding(name: &str, change: impl FnOnce(&mut Facts)) -> Finding {
        let mut facts = good();
        change(&mut facts);
        let mut all = check(&facts).into_iter();
        all.find(|finding| finding.check == name).unwrap()
    }

    #[test]
    fn a_good_system_has_no_findings() {
        let all = check(&good());
        assert_eq!(all.len(), 5);
        assert!(
            all.iter()
                .all(|own| own.state == State::Ok && own.mend.is_empty())
        );
        assert!(
            check(&Facts::default())
                .iter()
                .any(|own| own.state == State::Unknown)
        );
    }

    #[test]
    fn jumps_of_the_clock_are_warned_of() {
        for (looks_ms, since_node_ms, words) in [
            ((7_000, 4_000), 0, "jumped back by 3.0 s while"),
            ((7_000, 67_000), 0, "jumped forward by 60.0 s while"),
            ((0, 20), -3_600_000, "moved back by 3600 s against"),
            (
                (0, 20),
                90_000,
                "forward by 90 s against the node's own time (it was set, or the machine slept)",
            ),
        ] {
            let found = finding("clock", |facts| {
                facts.system.clock.looks_ms = Some(looks_ms);
                facts.system.clock.since_node_ms = Some(since_node_ms);
            });
            assert_eq!(found.state, State::Warning);
            assert!(found.words.contains(words), "{}", found.words);
        }
        let found = finding("clock", |facts| {
            facts.system.clock.since_node_ms = Some(-1_500);
        });
        assert_eq!(
            found.state,
            State::Ok,
            "the start of the node is not known so well"
        );
    }

    #[test]
    fn each_fault_is_named_with_a_command() {
        let found = finding("buffers", |facts| {
            facts.system.buffers_max = Some((212_992, 8 << 20));
        });
        assert_eq!(found.state, State::Warning);
        assert_eq!(
            found.mend,
            ["sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"]
        );
        let found = finding("files", |facts| {
            facts.system.open_files = Some(256);
        });
        assert_eq!(
            (found.state, &found.mend[0][..]),
            (State::Warning, "ulimit -Hn 65536")
        );
        let found = finding("clock", |facts| {
            facts.system.clock.is_synchronised = Some(false);
        });
        assert_eq!(found.state, State::Warning);
        let found = finding("clock", |facts| {
            facts.system.clock.unix_s = 0;
        });
        assert_eq!(found.state, State::Problem);
        let found = finding("tunnel", |facts| {
            facts.system.is_net_admin = Some(false);
        });
        assert!(found.state == State::Problem && found.mend[0].starts_with("setcap"));
        let found = finding("tunnel", |facts| {
            facts.system.has_tun = false;
        });
        assert_eq!(found.mend, ["modprobe tun"]);
        let found = finding("tunnel", |facts| {
            facts.config.needs_nft = true;
            facts.system.has_nft = false;
        });
        assert_eq!(found.state, State::Problem);
        let found = finding("disk", |facts| {
            facts.system.disks[0].1 = 5;
        });
        assert_eq!(found.state, State::Problem);
        let found = finding("disk", |facts| {
            facts.system.disks[0].1 = 100 << 20;
        });
        assert_eq!(found.state, State::Warning);
    }
}
