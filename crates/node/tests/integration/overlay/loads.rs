//! Load that an application states is published to other members.

use std::{collections::BTreeMap, net::SocketAddr};

use anabranch::{Client, daemon::Daemon, local::message::LoadBody, overlay::Load};

use super::{addresses, config, id, run_until};
use crate::common::{wait_for, within};

async fn seen(daemon: &Daemon, n: u8) -> Option<Load> {
    let members = daemon.overlay().unwrap().members().await;
    members.into_iter().find(|view| view.node == id(n))?.load
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_of_an_application_is_seen_by_other_members_until_it_leaves() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(3);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at).collect();
        let mut daemons = Vec::new();
        for n in 1..=3 {
            let config = config(folder.path(), n, known[&n], &known);
            daemons.push(Daemon::start(config).await.unwrap());
        }
        let [first, second, third] = &daemons[..] else {
            unreachable!("there are three");
        };
        let check = async {
            let at = folder.path().join("control-1-local");
            let client = Client::attach(&at, "test").await.unwrap();
            let load = LoadBody {
                machine: Some(0.25),
                cores: 4,
                operators: 1.5,
                memory_bound: 1 << 29,
                unit_ps: 1_250,
                ..LoadBody::default()
            };
            let refused = client.state_load(load).await.unwrap_err();
            assert!(refused.to_string().contains("service"), "{refused}");
            let service = client.register("x/*").await.unwrap();
            assert!(client.state_load(load).await.unwrap());
            let wrong = LoadBody {
                machine: Some(1.5),
                ..load
            };
            assert!(client.state_load(wrong).await.is_err());
            let other = Client::attach(&at, "other").await.unwrap();
            let _second_service = other.register("y/*").await.unwrap();
            let refused = other.state_load(load).await.unwrap_err();
            assert!(refused.to_string().contains("another"), "{refused}");
            let expected = Some(load.resolve().unwrap());
            wait_for(async || {
                // A statement holds for ten seconds.
                client.state_load(load).await.unwrap();
                seen(second, 1).await == expected && seen(third, 1).await == expected
            })
            .await;
            drop((service, client));
            wait_for(async || seen(second, 1).await.is_none() && seen(third, 1).await.is_none())
                .await;
        };
        run_until([first, second, third], check).await;
    })
    .await;
}
