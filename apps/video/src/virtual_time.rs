//! A film from an origin to a viewer in virtual time: through both sides' decisions, the streams of a session, congestion
//! control and a simulated link. The result does not depend on the load of the machine.

use std::{sync::Arc, time::Duration};

use anabranch::{
    AllowList, HostConfig,
    base::{Instant, Rate, Seed},
    net::{
        emulate::link::{Loss, Queue, RateSource, duplex::Configs},
        session::ChannelStatus,
    },
};
use anabranch_media::Part;
use anabranch_sim::{Hop, World};

use crate::{
    origin::{self, virtual_time::frame_bytes},
    proxy::{self, virtual_time::frame},
    samples,
    video::Video,
};

/// Results of a film.
struct Played {
    world: World,
    video: Arc<Video>,
}

const PROXY: usize = 0;
const ORIGIN: usize = 1;

/// A film of a minute, 336 kbit/s on average, over a pipe.
struct Pipe {
    rate: Rate,
    loss: f64,
    capacity: Option<Rate>,
    repairs: bool,
    seed: u64,
}

impl Pipe {
    const GOOD: Self = Self {
        rate: Rate::from_mbps(20),
        loss: 0.0,
        capacity: None,
        repairs: true,
        seed: 1,
    };
}

fn play(pipe: &Pipe) -> Played {
    let video = Arc::new(samples::film(60));
    let mut world = World::new(Seed(pipe.seed));
    let link = anabranch::net::emulate::link::Config {
        rate: RateSource::Constant(pipe.rate),
        delay: Duration::from_millis(10),
        queue: Queue::time(Duration::from_millis(200)),
        loss: Loss::Random {
            probability: pipe.loss,
        },
        ..Default::default()
    };
    let wire = world.add_trunk(Configs::symmetric(link)).expect("in range");
    let engine = |config: HostConfig| config.engine;
    let key = || anabranch::keys::generate().expect("a key");
    let near = engine(HostConfig::new(key(), AllowList::default()));
    let far = HostConfig::new(key(), AllowList::default());
    let far = engine(origin::Origin::host_config(far, pipe.capacity));
    let viewer =
        proxy::virtual_time::Proxy::new(video.clone(), World::node_id(ORIGIN), pipe.repairs);
    world.add_node(near, AllowList::default(), viewer);
    let library = origin::virtual_time::Origin::new(video.clone(), pipe.capacity);
    world.add_node(far, AllowList::of([World::node_id(PROXY)]), library);
    let hops = [Hop::forward(wire)];
    let route = world.add_route([PROXY, ORIGIN], &hops, &Hop::reversed(&hops));
    let links = vec![world.route_link(PROXY, route)];
    world.app::<proxy::virtual_time::Proxy>(PROXY).call(links);
    world.with_node(PROXY, |_| ());
    world.run_while(Instant::from_secs(120), |world| {
        !world.app::<proxy::virtual_time::Proxy>(PROXY).is_over()
    });
    Played { world, video }
}

impl Played {
    fn proxy(&mut self) -> &mut proxy::virtual_time::Proxy {
        self.world.app(PROXY)
    }

    /// Checks that all chunks came before the viewer wanted them, that all frames are those of the film, and that none of the
    /// essential part is missing. Returns the number of missing enhanced frames.
    fn missing(&mut self) -> u32 {
        let video = self.video.clone();
        let proxy = self.proxy();
        assert!(proxy.is_over(), "the whole film in two minutes");
        let mut missing = 0;
        for (content, at) in &proxy.finished {
            let wanted = proxy.wanted_at(content.chunk).expect("it plays");
            assert!(
                *at <= wanted,
                "chunk {} at {at}, wanted at {wanted}",
                content.chunk
            );
            for part in [Part::Essential, Part::Enhanced] {
                for id in video.frames(content.chunk, part) {
                    match frame(content, id.track, id.sample) {
                        Some(bytes) => assert!(bytes == frame_bytes(&video, id), "{id:?}"),
                        None => {
                            assert_eq!(part, Part::Enhanced, "{id:?}");
                            missing += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(proxy.finished.len(), video.count() as usize);
        missing
    }

    fn dropped(&mut self) -> u64 {
        self.world
            .app::<origin::virtual_time::Origin>(ORIGIN)
            .dropped
    }
}

/// Without loss in the network, and without drops before it: no frame is missing, none was late, and none was requested again.
#[test]
fn a_clean_pipe_loses_no_frame() {
    for (rate, capacity) in [
        (Rate::from_mbps(20), None),
        (Rate::from_mbps(2), None),
        (Rate::from_mbps(1), Some(Rate::from_mbps(1))),
    ] {
        let mut played = play(&Pipe {
            rate,
            capacity,
            ..Pipe::GOOD
        });
        assert_eq!(played.missing(), 0, "{rate}");
        assert_eq!(played.dropped(), 0, "{rate}");
        let proxy = played.proxy();
        assert_eq!((proxy.late, proxy.repaired), (0, 0), "{rate}");
    }
}

/// Two of a hundred packets are lost, both ways: all frames arrive in time, as lost frames are requested again. The origin does
/// not take the losses for lack of capacity: it leaves nothing out. (Repair covers a fifth of a chunk's enhanced data at most;
/// frames here take one packet or three, and loss would touch more of larger ones.) Without repair some enhanced frames are
/// missing, but nothing essential.
#[test]
fn with_two_percent_of_loss_all_frames_arrive() {
    for seed in 1..=3 {
        let lossy = Pipe {
            loss: 0.02,
            seed,
            ..Pipe::GOOD
        };
        let mut played = play(&lossy);
        let missing = played.missing();
        let proxy = played.proxy();
        let (repaired, left_out, late) = (proxy.repaired, proxy.left_out, proxy.late);
        println!(
            "seed {seed}: {missing} missing, {repaired} repaired, {left_out} left out, {late} late"
        );
        assert_eq!((missing, left_out), (0, 0), "seed {seed}");
        assert!(repaired >= 10, "seed {seed}: {repaired}");
        let mut without = play(&Pipe {
            repairs: false,
            ..lossy
        });
        let missing = without.missing();
        assert!(missing >= 10, "seed {seed}: {missing}");
    }
}

/// A pipe with less capacity than the film needs: all essential data arrives in time, and much of the rest.
#[test]
fn a_narrow_pipe_costs_enhanced_frames_only() {
    let mut played = play(&Pipe {
        rate: Rate::from_kbps(250),
        ..Pipe::GOOD
    });
    let missing = played.missing();
    let enhanced: usize = (0..played.video.count())
        .map(|chunk| played.video.frames(chunk, Part::Enhanced).count())
        .sum();
    assert!(
        missing > 0 && (missing as usize) < enhanced,
        "{missing} of {enhanced}"
    );
    let reports = played.world.engine(ORIGIN).session_ids();
    let channels = played
        .world
        .engine(ORIGIN)
        .session(reports[0])
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    assert_eq!(channels[0].state, ChannelStatus::Active);
}
