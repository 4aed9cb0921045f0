//! Small messages beside the download: UDP datagrams that the host behind the server answers, and their round-trip times.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::net::UdpSocket;

use super::super::stage::{Place, percentile};
use crate::exit::Failure;

/// Interval between two messages, as in a call.
const EVERY: Duration = Duration::from_millis(20);
/// Size of a message.
const BYTES: usize = 160;
/// Time after which an answer is not waited for any more, in the count of those that are missing.
const LATE: Duration = Duration::from_secs(2);
/// Wait between two attempts to reach the host.
const AGAIN: Duration = Duration::from_millis(200);

/// Opens a UDP socket in a place.
fn open(place: Place<'_>, at: SocketAddr) -> Result<UdpSocket, Failure> {
    let opened = place.within(|| {
        let socket = std::net::UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        UdpSocket::from_std(socket)
    })?;
    opened.map_err(Failure::other)
}

/// Answers messages until the runtime ends: the number at the beginning of each, and the address from which it came.
pub(super) fn serve(place: Place<'_>, at: IpAddr) -> Result<SocketAddr, Failure> {
    let socket = open(place, SocketAddr::new(at, 0))?;
    let at = socket.local_addr().map_err(Failure::other)?;
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        loop {
            // An error belongs to an earlier answer, whose sender is gone.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                continue;
            };
            let number = &buffer[..length.min(8)];
            let answer = [number, from.ip().to_string().as_bytes()].concat();
            let _ = socket.send_to(&answer, from).await;
        }
    });
    Ok(at)
}

fn unspecified(of: SocketAddr) -> SocketAddr {
    let any: IpAddr = match of {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, 0)
}

fn number_and_source(answer: &[u8]) -> Option<(usize, IpAddr)> {
    let (number, source) = answer.split_first_chunk::<8>()?;
    let source = std::str::from_utf8(source).ok()?.parse().ok()?;
    Some((usize::try_from(u64::from_be_bytes(*number)).ok()?, source))
}

/// Address that the host sees of who is in a place; `None` if nothing arrives within a time.
pub(super) async fn source(
    place: Place<'_>,
    host: SocketAddr,
    within: Duration,
) -> Result<Option<IpAddr>, Failure> {
    let begin = Instant::now();
    while begin.elapsed() < within {
        // A new socket each time: its address follows the routes.
        let socket = open(place, unspecified(host))?;
        let mut buffer = [0; 100];
        let answered = async {
            socket.send_to(&[0; BYTES], host).await.ok()?;
            let length = socket.recv(&mut buffer).await.ok()?;
            number_and_source(&buffer[..length])
        };
        match tokio::time::timeout(AGAIN, answered).await {
            Ok(Some((_, source))) => return Ok(Some(source)),
            Ok(None) => tokio::time::sleep(AGAIN).await,
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Messages of one family.
pub(super) struct Messages {
    socket: UdpSocket,
    host: SocketAddr,
    sent: Vec<Instant>,
    /// Round-trip times of those that were answered, by number.
    times: Vec<Option<Duration>>,
}

impl Messages {
    pub(super) fn new(place: Place<'_>, host: SocketAddr) -> Result<Self, Failure> {
        Ok(Self {
            socket: open(place, unspecified(host))?,
            host,
            sent: Vec::new(),
            times: Vec::new(),
        })
    }

    /// Sends and receives until dropped.
    pub(super) async fn run(&mut self) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut buffer = [0; 100];
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    let mut message = [0; BYTES];
                    message[..8].copy_from_slice(&(self.sent.len() as u64).to_be_bytes());
                    self.sent.push(Instant::now());
                    self.times.push(None);
                    // What the kernel refuses counts as missing.
                    let _ = self.socket.send_to(&message, self.host).await;
                }
                Ok(length) = self.socket.recv(&mut buffer) => self.answered(&buffer[..length]),
            }
        }
    }

    fn answered(&mut self, answer: &[u8]) {
        let Some((number, _)) = number_and_source(answer) else {
            return;
        };
        if let (Some(sent), Some(time @ None)) = (self.sent.get(number), self.times.get_mut(number))
        {
            *time = Some(sent.elapsed());
        }
    }

    /// Measurements so far; the next report begins anew.
    pub(super) fn report(&mut self) -> Value {
        let sent = std::mem::take(&mut self.sent);
        let times = std::mem::take(&mut self.times);
        let times_ms: Vec<f64> = times
            .iter()
            .flatten()
            .map(|time| time.as_secs_f64() * 1e3)
            .collect();
        let is_missing =
            |(sent, time): &(&Instant, &Option<Duration>)| time.is_none() && sent.elapsed() > LATE;
        json!({
            "answered": times_ms.len(),
            "missing": sent.iter().zip(&times).filter(is_missing).count(),
            "p50_ms": percentile(&times_ms, 0.5),
            "p99_ms": percentile(&times_ms, 0.99),
            "max_ms": percentile(&times_ms, 1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = [&7_u64.to_be_bytes()[..], b"10.77.0.2"].concat();
        let source = "10.77.0.2".parse().unwrap();
        assert_eq!(number_and_source(&answer), Some((7, source)));
        assert_eq!(number_and_source(&answer[..7]), None);
        assert_eq!(number_and_source(&answer[..10]), None);
    }

    #[tokio::test]
    async fn messages_are_answered_and_reported_once() {
        let host = serve(Place::Here, [127, 0, 0, 1].into()).unwrap();
        let within = Duration::from_secs(10);
        let seen = source(Place::Here, host, within).await.unwrap();
        assert_eq!(seen, Some([127, 0, 0, 1].into()));
        let mut messages = Messages::new(Place::Here, host).unwrap();
        let answered = |messages: &Messages| messages.times.iter().flatten().count();
        while answered(&messages) < 3 {
            let running = tokio::time::timeout(Duration::from_millis(100), messages.run()).await;
            assert!(running.is_err());
        }
        let report = messages.report();
        assert!(report["answered"].as_u64() >= Some(3), "{report}");
        assert!(report["p50_ms"].as_f64() > Some(0.0), "{report}");
        assert_eq!(messages.report()["answered"], 0);
    }
}
