//! Membership and link state of many agents, with faults.

use std::time::Duration;

use anabranch_base::{Rate, Seed};
use anabranch_overlay::{Config, Member, State, agent::Setup};
use anabranch_sim::overlay::{Agents, Net, check};

const SECOND: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(100);

fn agents(count: usize, seed: u64) -> Agents {
    Agents::new(count, Config::default(), Net::default(), Seed(seed))
}

/// Starts all nodes, each with the address of node 0 only.
fn running(count: usize, seed: u64) -> Agents {
    let mut agents = agents(count, seed);
    for n in 0..count {
        agents.start(n, (n > 0).then_some(0)).expect("valid");
    }
    settle(&mut agents, 60);
    agents
}

/// Time until all agree on the members.
fn agree(agents: &mut Agents, seconds: u32) -> Duration {
    let took = agents.run_until(SECOND * seconds, OFTEN, |agents| {
        check::members(agents).is_none()
    });
    took.unwrap_or_else(|| panic!("{}", check::members(agents).unwrap_or_default()))
}

/// Time until all hold the same records.
fn settle(agents: &mut Agents, seconds: u32) -> Duration {
    let took = agents.run_until(SECOND * seconds, OFTEN, |agents| {
        check::settled(agents).is_none()
    });
    took.unwrap_or_else(|| panic!("{}", check::settled(agents).unwrap_or_default()))
}

#[test]
fn all_find_each_other_through_one() {
    for count in [2, 3, 5, 10, 50] {
        running(count, 1);
    }
}

#[test]
fn a_new_node_has_everything_soon() {
    let mut agents = agents(30, 2);
    for n in 0..29 {
        agents.start(n, (n > 0).then_some(0)).unwrap();
    }
    settle(&mut agents, 60);
    agents.start(29, Some(7)).unwrap();
    let took = agree(&mut agents, 20);
    assert!(took <= 5 * SECOND, "{took:?}");
}

#[test]
fn a_crashed_node_is_removed_and_a_returning_one_is_added() {
    let mut agents = running(20, 3);
    agents.crash(5);
    agents.crash(6);
    let took = agree(&mut agents, 40);
    assert!(took <= 15 * SECOND, "{took:?}");
    agents.start(5, Some(1)).unwrap();
    let took = agree(&mut agents, 40);
    assert!(took <= 5 * SECOND, "{took:?}");
}

#[test]
fn a_node_that_restarts_at_once_is_never_removed() {
    let mut agents = running(12, 4);
    agents.crash(3);
    agents.start(3, Some(8)).unwrap();
    settle(&mut agents, 30);
    agents.run_for(30 * SECOND);
    assert_eq!(check::settled(&agents), None);
}

#[test]
fn a_node_that_leaves_is_removed_at_once() {
    let mut agents = running(20, 5);
    agents.leave(9);
    let took = agree(&mut agents, 20);
    assert!(took <= 3 * SECOND, "{took:?}");
    let left = agents
        .agent(0)
        .unwrap()
        .member(&agents.id(9), agents.now())
        .unwrap();
    assert_eq!(left.state, State::Left);
}

#[test]
fn a_partition_heals() {
    let mut agents = running(16, 6);
    agents.partition(|n| u32::from(n % 3 == 0));
    agents.run_for(60 * SECOND);
    let sees = |agents: &Agents, n: usize| {
        let agent = agents.agent(n).unwrap();
        agent
            .members(agents.now())
            .filter(|view| view.state == State::Alive)
            .count()
    };
    assert_eq!((sees(&agents, 0), sees(&agents, 1)), (6, 10));
    agents.partition(|_| 0);
    let took = agree(&mut agents, 120);
    assert!(took <= 60 * SECOND, "{took:?}");
}

#[test]
fn no_node_is_suspected_without_reason() {
    let mut agents = running(30, 7);
    agents.set_loss(0.02);
    agents.run_for(1800 * SECOND);
    let alarms: usize = (0..30)
        .flat_map(|n| agents.events(n))
        .filter(|(at, event)| {
            at.as_secs_f64() > 60.0 && matches!(event, anabranch_overlay::Event::Died(_))
        })
        .count();
    assert_eq!(alarms, 0);
    assert_eq!(check::always(&agents), None);
}

#[test]
fn a_stranger_never_enters() {
    let mut agents = agents(8, 8);
    agents.estrange(7);
    for n in 0..8 {
        agents.start(n, (n > 0).then_some(0)).unwrap();
    }
    settle(&mut agents, 60);
    assert_eq!(check::always(&agents), None);
    let alone = agents.agent(7).unwrap();
    assert!(
        alone
            .members(agents.now())
            .filter(|view| view.state.is_live())
            .count()
            == 1
    );
}

/// Random histories: crashes, leaves, returns, partitions, loss; then quiet.
#[test]
fn all_agree_in_the_end_whatever_happens() {
    for seed in 0..30 {
        let mut random = Seed(seed).stream("storm of agents");
        let count = random.between(3, 24) as usize;
        let mut agents = agents(count, seed);
        for n in 0..count {
            agents.start(n, Some((n + 1) % count)).unwrap();
        }
        for _ in 0..random.between(3, 25) {
            agents.run_for(Duration::from_secs_f64(random.exponential(6.0)));
            let n = random.below(count as u64) as usize;
            match random.below(8) {
                0 | 1 => agents.crash(n),
                2 => agents.leave(n),
                3 | 4 => {
                    if agents.agent(n).is_none() || random.chance(0.3) {
                        agents.crash(n);
                        agents.start(n, Some((n + 1) % count)).unwrap();
                    }
                }
                5 => {
                    let cut = random.between(1, 3);
                    agents.partition(|n| ((n as u64 * 7 + seed) % (cut + 1)) as u32);
                }
                6 => agents.partition(|_| 0),
                _ => agents.set_loss(random.uniform(0.0, 0.3)),
            }
            assert_eq!(check::always(&agents), None, "seed {seed}");
        }
        agents.partition(|_| 0);
        agents.set_loss(0.01);
        if (0..count).all(|n| agents.agent(n).is_none()) {
            continue;
        }
        let settled = |agents: &Agents| check::settled(agents).is_none();
        let took = agents.run_until(SECOND * 240, SECOND, settled);
        assert!(took.is_some(), "seed {seed}: {:?}", check::settled(&agents));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut agents = running(10, 9);
        agents.crash(2);
        agents.run_for(60 * SECOND);
        (0..10)
            .map(|n| (agents.traffic(n), agents.events(n).to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// An overlay whose direct link from 0 to 1 is narrow, with relays, that has run for a minute.
fn narrow(count: usize, seed: u64, noise: f64) -> Agents {
    let mut config = Config::default();
    config.routing.relays = Some(Rate::from_mbps(500));
    let net = Net {
        noise,
        ..Net::default()
    };
    let mut agents = Agents::new(count, config, net, Seed(seed));
    for a in 0..count {
        for b in 0..count {
            agents.set_rate(a, b, Rate::from_mbps(40));
        }
    }
    agents.set_rate(0, 1, Rate::from_mbps(10));
    for n in 0..count {
        agents.start(n, (n > 0).then_some(0)).expect("valid");
    }
    agents.run_for(SECOND * 60);
    agents
}

/// A small one in which 0 has sent to 1 for a minute.
fn carrying(seed: u64, noise: f64) -> (Agents, usize) {
    let mut agents = narrow(7, seed, noise);
    let load = agents.carry(0, 1, 10_000_000).expect("valid");
    agents.run_for(SECOND * 60);
    (agents, load)
}

fn rate_at(agents: &Agents, load: usize) -> f64 {
    agents.carried(load).last().expect("valid").rate.as_bps() as f64 / 1e6
}

#[test]
fn several_paths_are_used_at_once() {
    let (agents, load) = carrying(1, 0.03);
    let used = agents.carried(load).last().unwrap();
    // The direct link and four relays.
    assert_eq!(used.paths.len(), 5, "{used:?}");
    assert!(used.paths.iter().all(|path| path.len() <= 1), "{used:?}");
    assert!(rate_at(&agents, load) >= 160.0, "{used:?}");
}

/// Few of thirty relays know their link to the destination before traffic goes there. When more do, paths through them
/// are added to those in use.
#[test]
fn new_paths_are_used_soon() {
    for seed in 1..=5 {
        let mut agents = narrow(30, seed, 0.03);
        // Long enough to use up the initial burst allowance.
        agents.run_for(SECOND * 540);
        let load = agents.carry(0, 1, 10_000_000).expect("valid");
        let took = agents.run_until(SECOND * 60, Duration::from_millis(500), |agents| {
            agents
                .carried(load)
                .last()
                .is_some_and(|used| used.paths.len() == 5)
        });
        assert!(
            took.is_some_and(|took| took <= 10 * SECOND),
            "seed {seed}: {took:?}"
        );
    }
}

#[test]
fn a_relay_that_dies_is_replaced() {
    let (mut agents, load) = carrying(2, 0.03);
    let relay = agents
        .carried(load)
        .last()
        .unwrap()
        .paths
        .iter()
        .find_map(|path| path.first().copied());
    agents.crash(relay.unwrap());
    let took = agents.run_until(SECOND * 10, Duration::from_millis(50), |agents| {
        let used = agents.carried(load).last().unwrap();
        used.paths
            .iter()
            .all(|path| !path.contains(&relay.unwrap()))
            && used.paths.len() == 5
    });
    assert!(took.is_some_and(|took| took <= 2 * SECOND), "{took:?}");
}

#[test]
fn a_link_that_degrades_is_left() {
    for is_own in [true, false] {
        let (mut agents, load) = carrying(3, 0.05);
        let used = agents.carried(load).last().unwrap().paths.clone();
        let relay = used.iter().find_map(|path| path.first().copied()).unwrap();
        let link = if is_own { (0, relay) } else { (relay, 1) };
        agents.set_rate(link.0, link.1, Rate::from_mbps(4));
        let took = agents.run_until(SECOND * 10, Duration::from_millis(50), |agents| {
            let used = agents.carried(load).last().unwrap();
            used.paths.iter().all(|path| !path.contains(&relay))
        });
        assert!(
            took.is_some_and(|took| took <= 3 * SECOND),
            "own link: {is_own}: {took:?}"
        );
    }
}

#[test]
fn noise_of_a_fifth_changes_routes_once_in_half_an_hour() {
    // Uniform ±20 % has a standard deviation of 11.5 %.
    let changes: Vec<usize> = (1..=16)
        .map(|seed| {
            let (mut agents, load) = carrying(seed, 0.115);
            let before = agents.carried(load).len();
            agents.run_for(SECOND * 1800);
            let history = &agents.carried(load)[before..];
            let pairs = history.windows(2);
            pairs.filter(|pair| pair[0].paths != pair[1].paths).count()
        })
        .collect();
    let is_rare = changes.iter().sum::<usize>() <= 16 && changes.iter().all(|&count| count <= 3);
    assert!(is_rare, "{changes:?}");
}

/// Gives node `n` the list of all nodes but these.
fn list_all_but(agents: &mut Agents, n: usize, left_out: &[usize]) {
    let members = (0..agents.len()).filter(|other| !left_out.contains(other));
    let members = members.map(|other| Member {
        node: agents.id(other),
        addresses: Vec::new(),
    });
    let members = members.collect();
    let setup = Setup::new(Config::default(), agents.id(n), members).unwrap();
    let (agent, now) = agents.agent_mut(n).unwrap();
    agent.change(setup, now);
}

/// Lists change node by node: a node that only some list disturbs none of the others, and costs them little.
#[test]
fn different_lists_are_no_harm_while_a_change_goes_round() {
    const COUNT: usize = 14;
    const LATE: usize = COUNT - 1;
    let minutes = 5;
    let mut agents = running(COUNT, 31);
    let sent = |agents: &Agents| (0..LATE).map(|n| agents.traffic(n).bytes).sum::<u64>();
    let period = |agents: &mut Agents| {
        let before = sent(agents);
        agents.run_for(60 * minutes * SECOND);
        sent(agents) - before
    };
    let quiet = period(&mut agents);
    // Half of the nodes no longer list the last one.
    (0..LATE / 2).for_each(|n| list_all_but(&mut agents, n, &[LATE]));
    let mixed = period(&mut agents);
    assert!(mixed < 4 * quiet, "{mixed} bytes after {quiet}");
    let states = |agents: &Agents, n: usize| {
        let views = agents.agent(n).unwrap().members(agents.now());
        let states = views.map(|view| (agents.index(&view.node), view.state));
        states.collect::<std::collections::BTreeMap<_, _>>()
    };
    for n in 0..LATE {
        let mut seen = states(&agents, n);
        let late = seen.remove(&LATE);
        assert_eq!(late.is_none(), n < LATE / 2, "{n}: {late:?}");
        let away = seen.iter().find(|(_, state)| !state.is_live());
        assert_eq!(away, None, "{n}");
    }
    // All of them, then none.
    for n in LATE / 2..LATE {
        list_all_but(&mut agents, n, &[LATE]);
        agents.run_for(10 * SECOND);
    }
    agents.run_for(60 * SECOND);
    let without = period(&mut agents);
    assert!(without < 2 * quiet, "{without} bytes after {quiet}");
    for n in 0..LATE {
        list_all_but(&mut agents, n, &[]);
        agents.run_for(10 * SECOND);
    }
    settle(&mut agents, 60);
}
