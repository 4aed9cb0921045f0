//! Programs at both ends of the tunnel: they know nothing of it.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use crate::{namespace::Namespace, stage::TIMEOUT};

const UDP_PORT: u16 = 7001;
const TCP_PORT: u16 = 7002;
const NAMING_PORT: u16 = 7003;

/// Servers of a namespace, which run until the test ends: one answers each datagram with the sender's address and the number of its
/// bytes; one sends as many bytes as it is asked for; one sends each connection the address of its peer.
pub(crate) fn serve(namespace: &Namespace) {
    let started = namespace.run(|| {
        let (report, started) = mpsc::channel();
        for any in [IpAddr::from([0, 0, 0, 0]), Ipv6Addr::UNSPECIFIED.into()] {
            let socket = Socket::new(
                Domain::for_address(SocketAddr::new(any, 0)),
                Type::DGRAM,
                None,
            );
            let socket = socket.unwrap();
            if any.is_ipv6() {
                socket.set_only_v6(true).unwrap();
            }
            socket.bind(&SocketAddr::new(any, UDP_PORT).into()).unwrap();
            let socket: UdpSocket = socket.into();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
                    let answer = format!("{} {bytes}", from.ip());
                    let _ = socket.send_to(answer.as_bytes(), from);
                }
            });
        }
        // For both families.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, TCP_PORT)).unwrap();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                std::thread::spawn(move || send(stream));
            }
        });
        let naming = TcpListener::bind((Ipv6Addr::UNSPECIFIED, NAMING_PORT)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, peer)) = naming.accept() {
                let _ = stream.write_all(peer.ip().to_canonical().to_string().as_bytes());
            }
        });
        report.send(()).unwrap();
        started
    });
    started.recv_timeout(TIMEOUT).unwrap();
}

fn send(mut stream: TcpStream) -> std::io::Result<()> {
    let socket = socket2::SockRef::from(&stream);
    if let Some(controller) = std::env::var_os("TUNNEL_TCP") {
        socket.set_tcp_congestion(controller.as_encoded_bytes())?;
    }
    // What the other side may send, by its SYN.
    let mss = socket.tcp_mss()?;
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    stream.write_all(&mss.to_be_bytes())?;
    let mut left = u64::from_be_bytes(count);
    let data = [7; 65_536];
    while left > 0 {
        let now = left.min(data.len() as u64) as usize;
        stream.write_all(&data[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Address from which a datagram of so many bytes arrives, sent from a namespace to an address, again and again until it is answered;
/// `None` if it is not within a time.
pub(crate) fn source_within(
    namespace: &Namespace,
    to: &str,
    bytes: usize,
    within: Duration,
) -> Option<IpAddr> {
    let to: IpAddr = to.parse().unwrap();
    namespace.run(|| {
        let start = Instant::now();
        while start.elapsed() < within {
            // A new socket each time: its source follows the routes. The answer may come from another address of the same machine.
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            let wait = Duration::from_millis(300);
            socket.set_read_timeout(Some(wait)).unwrap();
            if socket.send_to(&vec![1; bytes], (to, UDP_PORT)).is_err() {
                std::thread::sleep(wait / 3);
                continue;
            }
            let mut buffer = [0; 100];
            if let Ok(length) = socket.recv(&mut buffer) {
                let text = std::str::from_utf8(&buffer[..length]).unwrap();
                let (address, arrived) = text.split_once(' ').unwrap();
                assert_eq!(arrived, bytes.to_string());
                return Some(address.parse().unwrap());
            }
        }
        None
    })
}

/// Connects, and waits for it in the kernel, for as long as everything here takes at most. `TcpStream::connect_timeout` polls, and Linux lets a poll
/// return for an ICMP error that answers a SYN before the socket has that error: it is first queued for `MSG_ERRQUEUE`.
pub(crate) fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    socket.connect(&to.into())?;
    socket.set_write_timeout(None)?;
    Ok(socket.into())
}

/// Address from which a connection arrives, made again and again until it is accepted; `None` if it is not within a time. Its answers come
/// from the address that it was made to, as machines behind others need it.
pub(crate) fn peer_within(namespace: &Namespace, to: &str, within: Duration) -> Option<String> {
    let to = SocketAddr::new(to.parse().unwrap(), NAMING_PORT);
    namespace.run(|| {
        let start = Instant::now();
        while start.elapsed() < within {
            let mut text = String::new();
            let wait = Duration::from_millis(500);
            let named = TcpStream::connect_timeout(&to, wait)
                .and_then(|mut stream| stream.read_to_string(&mut text));
            if named.is_ok() {
                return Some(text);
            }
            std::thread::sleep(wait / 5);
        }
        None
    })
}

/// As [`peer_within`], within the time that everything here takes at most.
#[track_caller]
pub(crate) fn peer(namespace: &Namespace, to: &str) -> String {
    peer_within(namespace, to, TIMEOUT).expect("no connection")
}

/// Time to the answer to a small datagram; `None`: none came within 300 ms.
pub(crate) fn round_trip(namespace: &Namespace, to: &str) -> Option<Duration> {
    let start = Instant::now();
    source_within(namespace, to, 100, Duration::from_millis(300))?;
    Some(start.elapsed())
}

/// As [`source_within`], within the time that everything here takes at most.
#[track_caller]
pub(crate) fn source(namespace: &Namespace, to: &str, bytes: usize) -> String {
    let source = source_within(namespace, to, bytes, TIMEOUT);
    source.expect("no answer").to_string()
}

/// A download that runs on a thread of its own.
pub(crate) struct Download {
    thread: std::thread::JoinHandle<std::io::Result<(u32, Duration)>>,
    progress: mpsc::Receiver<u64>,
    arrived: u64,
    is_stopped: Arc<AtomicBool>,
}

impl Download {
    pub(crate) fn start(namespace: &Namespace, from: &str, bytes: u64) -> Self {
        let (report, progress) = mpsc::channel();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = is_stopped.clone();
        let from = from.to_owned();
        let thread = namespace.run(move || {
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect((from.as_str(), TCP_PORT))?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.write_all(&bytes.to_be_bytes())?;
                let mut gap = Duration::ZERO;
                let mut mss = [0; 4];
                stream.read_exact(&mut mss)?;
                let mut buffer = vec![0; 65_536];
                let mut arrived = 0;
                let mut last = Instant::now();
                while arrived < bytes && !stopped.load(Ordering::Relaxed) {
                    let length = stream.read(&mut buffer)?;
                    gap = gap.max(last.elapsed());
                    last = Instant::now();
                    if length == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                    assert!(buffer[..length].iter().all(|&byte| byte == 7));
                    arrived += length as u64;
                    let _ = report.send(arrived);
                }
                Ok((u32::from_be_bytes(mss), gap))
            })
        });
        Self {
            thread,
            progress,
            arrived: 0,
            is_stopped,
        }
    }

    /// One that goes on until it is stopped, however long the test takes.
    pub(crate) fn endless(namespace: &Namespace, from: &str) -> Self {
        Self::start(namespace, from, u64::MAX)
    }

    /// Ends one that goes on.
    pub(crate) fn stop(self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().unwrap().unwrap();
    }

    /// Waits until so many more bytes have arrived.
    #[track_caller]
    pub(crate) fn goes_on(&mut self, bytes: u64) {
        while let Ok(arrived) = self.progress.try_recv() {
            self.arrived = arrived;
        }
        let until = self.arrived + bytes;
        while self.arrived < until {
            let arrived = self.progress.recv_timeout(TIMEOUT);
            self.arrived = arrived.expect("the download goes on");
        }
    }

    /// Waits for its end; returns the segment size that its server knows.
    #[track_caller]
    pub(crate) fn ended(self) -> u32 {
        self.ended_with_gap().0
    }

    /// As [`Download::ended`], with the longest time in which nothing arrived.
    #[track_caller]
    pub(crate) fn ended_with_gap(self) -> (u32, Duration) {
        self.thread.join().unwrap().unwrap()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}
