//! Connections over pipes in memory, in virtual time: the results do not depend on the load of the machine.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const CLOCK: Clock = Clock::system();

/// A handler that answers every request with so many bytes.
#[derive(Clone)]
struct Plain(usize);

impl Handler for Plain {
    async fn answer(self, _: SocketAddr, _: Request<()>) -> Response<Body> {
        Response::new(Body::from(vec![b'x'; self.0]))
    }
}

struct World {
    guests: Arc<Guests>,
    stopping: watch::Sender<bool>,
    handler: Plain,
}

impl World {
    fn new(bytes: usize) -> Self {
        let limits = Limits {
            total: 8,
            per_address: 8,
        };
        Self {
            guests: Guests::new(limits, CLOCK),
            stopping: watch::Sender::new(false),
            handler: Plain(bytes),
        }
    }

    /// The player's end of a new connection.
    fn connect(&self) -> DuplexStream {
        let (player, here) = duplex(4_096);
        let peer: SocketAddr = ([192, 0, 2, 1], 4_000).into();
        let place = self.guests.admit(CLOCK.now(), peer.ip());
        let place = place.expect("a place");
        let stopping = self.stopping.subscribe();
        tokio::spawn(converse(self.handler.clone(), here, peer, place, stopping));
        player
    }
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn rest(player: &mut DuplexStream) -> String {
    let mut all = Vec::new();
    let _ = player.read_to_end(&mut all).await;
    String::from_utf8(all).unwrap()
}

#[tokio::test(start_paused = true)]
async fn half_a_request_is_given_up() {
    let world = World::new(5);
    for half in [&GET[..GET.len() - 1], b"G", b""] {
        let begun = CLOCK.now();
        let mut player = world.connect();
        player.write_all(half).await.unwrap();
        let response = rest(&mut player).await;
        assert!(
            response.is_empty() || response.contains(" 408 "),
            "{response}"
        );
        let took = CLOCK.since(begun);
        assert!(took >= HEAD_MAX && took < HEAD_MAX + Duration::from_secs(1));
    }
    assert_eq!(world.guests.len(), 0);
}

/// A connection that sends a byte now and then is closed as well.
#[tokio::test(start_paused = true)]
async fn a_slow_request_is_given_up() {
    let world = World::new(5);
    let begun = CLOCK.now();
    let mut player = world.connect();
    for byte in GET.iter().cycle() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if player.write_all(&[*byte]).await.is_err() {
            break;
        }
        assert!(CLOCK.since(begun) < 2 * HEAD_MAX);
    }
    assert_eq!(world.guests.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_and_a_used_one_does_not() {
    let world = World::new(5);
    let mut player = world.connect();
    let begun = CLOCK.now();
    for _ in 0..5 {
        player.write_all(GET).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"xxxxx") {
            assert!(player.read_buf(&mut answer).await.unwrap() > 0);
        }
        tokio::time::sleep(HEAD_MAX / 2).await;
    }
    assert_eq!(world.guests.len(), 1);
    assert_eq!(rest(&mut player).await, "");
    assert!(CLOCK.since(begun) < 4 * HEAD_MAX);
    assert_eq!(world.guests.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn long_heads_are_refused() {
    let world = World::new(5);
    let line = format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
    let value = format!(
        "GET / HTTP/1.1\r\nx: {}\r\n",
        "x".repeat(2 * HEAD_BYTES_MAX)
    );
    let lines = format!(
        "GET / HTTP/1.1\r\n{}",
        "x: y\r\n".repeat(HEAD_LINES_MAX + 1)
    );
    for head in [line, value, lines] {
        let mut player = world.connect();
        let (mut reading, mut writing) = tokio::io::split(&mut player);
        let asking = async {
            // It is not read to its end.
            let _ = writing.write_all(format!("{head}\r\n").as_bytes()).await;
        };
        let mut answer = Vec::new();
        let (_, _) = tokio::join!(asking, reading.read_to_end(&mut answer));
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

/// A player that pauses has time; one that has disappeared silently is closed in the end.
#[tokio::test(start_paused = true)]
async fn a_player_that_reads_nothing_is_given_up() {
    let bytes = 1 << 20;
    let world = World::new(bytes);
    let mut player = world.connect();
    player.write_all(GET).await.unwrap();
    let mut some = [0; 1_000];
    player.read_exact(&mut some).await.unwrap();
    tokio::time::sleep(STALL_MAX - Duration::from_secs(1)).await;
    let mut more = vec![0; bytes / 2];
    player.read_exact(&mut more).await.unwrap();
    tokio::time::sleep(STALL_MAX + Duration::from_secs(1)).await;
    assert_eq!(world.guests.len(), 0, "given up");
    let mut last = Vec::new();
    let _ = player.read_to_end(&mut last).await;
    assert!(last.len() < bytes / 2 - 10_000, "{} bytes", last.len());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_taken_is_left_at_once() {
    let world = World::new(5);
    let begun = CLOCK.now();
    let mut first = world.connect();
    first.write_all(&GET[..5]).await.unwrap();
    let _others: Vec<_> = (0..8).map(|_| world.connect()).collect();
    assert_eq!(rest(&mut first).await, "");
    assert_eq!(CLOCK.since(begun), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn on_stop_it_ends_requests_in_progress() {
    let world = World::new(100_000);
    let mut idle = world.connect();
    let mut player = world.connect();
    player.write_all(GET).await.unwrap();
    let mut some = [0; 1_000];
    player.read_exact(&mut some).await.unwrap();
    world.stopping.send_replace(true);
    assert_eq!(rest(&mut idle).await, "");
    assert!(rest(&mut player).await.len() > 98_000);
}
