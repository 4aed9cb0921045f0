//! Loads of nodes that process streams, in an overlay with losses.

use std::time::Duration;

use anabranch_base::Seed;
use anabranch_overlay::{Config, Load};
use anabranch_sim::overlay::{Agents, Net, check};

const COUNT: usize = 20;
/// Nodes that process streams.
const BUSY: [usize; 2] = [3, 9];

fn busy(operators: f64) -> Load {
    Load {
        machine: Some(0.5),
        cores: 4,
        operators,
        memory_bound: 512 << 20,
        unit_ps: 1_000,
        ..Load::default()
    }
    .rounded()
}

/// Runs for five minutes in which the loads are set ten times a second; returns the bytes that were sent.
fn run(agents: &mut Agents, operators: impl Fn(u32) -> f64) -> u64 {
    let bytes = |agents: &Agents| (0..COUNT).map(|n| agents.traffic(n).bytes).sum::<u64>();
    let before = bytes(agents);
    for tenth in 0..3_000 {
        for n in BUSY {
            let (agent, now) = agents.agent_mut(n).expect("it runs");
            agent.set_load(Some(busy(operators(tenth))), now);
        }
        agents.run_for(Duration::from_millis(100));
    }
    bytes(agents) - before
}

#[test]
fn loads_reach_all_nodes_and_their_changes_cost_little() {
    let mut agents = Agents::new(COUNT, Config::default(), Net::default(), Seed(21));
    for n in 0..COUNT {
        agents.start(n, (n > 0).then_some(0)).expect("valid");
    }
    let settled = agents.run_until(
        Duration::from_secs(60),
        Duration::from_millis(100),
        |agents| check::settled(agents).is_none(),
    );
    settled.expect("all hold the same records");
    let steady = run(&mut agents, |_| 0.5);
    // One that is lost on the way comes with the next record, two minutes later at most.
    let mut seen = 0;
    for n in 0..COUNT {
        for busy_node in BUSY {
            let (node, now) = (agents.id(busy_node), agents.now());
            let member = agents.agent(n).expect("it runs").member(&node, now);
            let load = member.expect("it is on the list").load;
            assert!(load.is_none_or(|load| load == busy(0.5)), "{load:?}");
            seen += usize::from(load.is_some());
        }
    }
    assert!(seen >= 2 * COUNT - 3, "{seen} of {}", 2 * COUNT);
    // A load that changes all the time: two nodes publish a record every ten seconds.
    let wild = run(&mut agents, |tenth| f64::from(tenth % 2));
    assert!(wild < 2 * steady, "{wild} and {steady} bytes");
    assert_eq!(check::members(&agents), None);
}
