//! TCP and Unix connections: bytes, ends, resets, refusals, slow programs, many at a time.

use std::{io, time::Duration};

use anabranch_gateway::Code;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinSet,
};

use crate::harness::{Pair, bytes, echo, echoed, within};

/// A listener of a target, and a pair of nodes with a forward to it.
async fn target() -> (TcpListener, Pair) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pair = Pair::to(listener.local_addr().unwrap()).await;
    (listener, pair)
}

/// Both ends of a forwarded connection.
async fn ends(listener: &TcpListener, pair: &Pair) -> (TcpStream, TcpStream) {
    let (near, far) = tokio::join!(pair.connect(), listener.accept());
    (near, far.unwrap().0)
}

fn is_reset(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionReset
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_arrive_in_both_directions_and_the_end_behind_them() {
    within(async {
        let pair = Pair::to(echo().await).await;
        for count in [0, 1, 65_536, 65_537, 5_000_000] {
            let data = bytes(count as u64, count);
            let back = echoed(pair.connect().await, &data).await;
            assert!(back == data, "{} of {count} bytes", back.len());
        }
        // Nothing is left of them at either node.
        while pair.near.gateway.connections().count() + pair.far_count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_direction_ends_by_itself() {
    within(async {
        let (listener, pair) = target().await;
        for is_near_first in [true, false] {
            let (near, far) = ends(&listener, &pair).await;
            let (mut first, mut last) = if is_near_first {
                (near, far)
            } else {
                (far, near)
            };
            first.write_all(b"question").await.unwrap();
            first.shutdown().await.unwrap();
            let mut all = Vec::new();
            last.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, b"question");
            // The other direction carries as much as it likes, after the end of the first.
            let answer = bytes(7, 3_000_000);
            let (written, mut all) = (answer.clone(), Vec::new());
            let writing = async {
                last.write_all(&written).await.unwrap();
                last.shutdown().await.unwrap();
            };
            let ((), read) = tokio::join!(writing, first.read_to_end(&mut all));
            read.unwrap();
            assert!(all == answer);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_a_reset_at_the_other_end() {
    within(async {
        let (listener, pair) = target().await;
        for is_near_first in [true, false] {
            for is_half_closed in [false, true] {
                let (near, far) = ends(&listener, &pair).await;
                let (mut first, mut last) = if is_near_first {
                    (near, far)
                } else {
                    (far, near)
                };
                // Both ends are known to be connected.
                last.write_all(b"x").await.unwrap();
                first.read_exact(&mut [0]).await.unwrap();
                first.write_all(b"x").await.unwrap();
                last.read_exact(&mut [0]).await.unwrap();
                if is_half_closed {
                    first.shutdown().await.unwrap();
                    assert_eq!(last.read(&mut [0; 8]).await.unwrap(), 0);
                }
                first.set_zero_linger().unwrap();
                drop(first);
                // After FIN was read, only writing shows it.
                let error = loop {
                    let result = match is_half_closed {
                        true => last.write(b"x").await,
                        false => last.read(&mut [0; 8]).await,
                    };
                    match result {
                        Ok(0) => panic!("an end, where the connection was reset"),
                        Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                        Err(error) => break error,
                    }
                };
                let is_expected = is_reset(&error) || error.kind() == io::ErrorKind::BrokenPipe;
                assert!(is_expected, "{error}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_refuses_is_a_reset_and_a_notice() {
    within(async {
        let (listener, pair) = target().await;
        drop(listener);
        // On a machine that is busy the reset comes before the program has seen that it is connected.
        let read = async {
            let mut near = TcpStream::connect(pair.near.listening()[0]).await?;
            near.read(&mut [0; 8]).await
        };
        let error = read.await.unwrap_err();
        assert!(is_reset(&error), "{error}");
        assert_eq!(pair.near.refusal().await.code, Code::Refused);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_not_read_holds_up_its_writer_and_nobody_else() {
    /// More than everything in between may hold: windows, buffers of streams and of the kernel.
    const HELD_MAX: u64 = 40 << 20;
    within(async {
        let (listener, pair) = target().await;
        let mut stuck = Vec::new();
        for _ in 0..6 {
            stuck.push(ends(&listener, &pair).await);
        }
        // Writers write until nothing moves for a while.
        let piece = vec![7; 64 << 10];
        let mut written = 0;
        for (near, _) in &mut stuck {
            let mut of_this = 0;
            let pause = Duration::from_secs(1);
            while let Ok(result) = tokio::time::timeout(pause, near.write(&piece)).await {
                of_this += result.unwrap() as u64;
                assert!(of_this < HELD_MAX, "nothing holds the writer up");
            }
            written += of_this;
        }
        // Another connection is served meanwhile.
        let (mut near, mut far) = ends(&listener, &pair).await;
        let data = bytes(3, 2_000_000);
        let copy = data.clone();
        let writing = async {
            near.write_all(&copy).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let mut all = Vec::new();
        let ((), read) = tokio::join!(writing, far.read_to_end(&mut all));
        read.unwrap();
        assert!(all == data);
        // And nothing of what was held up is lost.
        let mut total = 0;
        for (mut near, mut far) in stuck {
            near.shutdown().await.unwrap();
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            assert!(all.iter().all(|&byte| byte == 7));
            total += all.len() as u64;
        }
        assert_eq!(total, written);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_connections_of_mixed_sizes_carry_every_byte() {
    within(async {
        let pair = Pair::to(echo().await).await;
        let address = pair.near.listening()[0];
        let mut tasks = JoinSet::new();
        for number in 0..500_usize {
            tasks.spawn(async move {
                let count = match number % 5 {
                    0 => number,
                    1..=3 => 20 * number,
                    _ => 400 * number,
                };
                let data = bytes(number as u64, count);
                let stream = TcpStream::connect(address).await.unwrap();
                assert!(echoed(stream, &data).await == data, "connection {number}");
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|error| {
                panic!(
                    "{error}\nnear: {}\nfar: {}",
                    pair.near.seen(),
                    pair.far.seen()
                )
            });
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_on_both_sides() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (accept, target) = (folder.path().join("a"), folder.path().join("b"));
        let listener = UnixListener::bind(&target).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                    writer.shutdown().await.unwrap();
                });
            }
        });
        let (local, to) = (
            format!("unix:{}", accept.display()),
            format!("unix:{}", target.display()),
        );
        let may = format!("{{ right = \"forward\", to = [\"{to}\"] }}");
        let pair = Pair::start(&may, &[(&local, &to, "")]).await;
        let mut stream = UnixStream::connect(&accept).await.unwrap();
        let data = bytes(1, 300_000);
        let copy = data.clone();
        let (mut reader, mut writer) = stream.split();
        let writing = async {
            writer.write_all(&copy).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let mut back = Vec::new();
        let ((), read) = tokio::join!(writing, reader.read_to_end(&mut back));
        read.unwrap();
        assert!(back == data);
        drop(pair);
    })
    .await;
}

impl Pair {
    fn far_count(&self) -> usize {
        self.far
            .gateway
            .server()
            .count(&crate::harness::id(crate::harness::NEAR))
    }
}
