//! Messages a second of a session between two nodes of this process over loopback, from one thread to another, given their number
//! and size. `rate.py` compares the Python library with it.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement"
)]

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use anabranch::{AllowList, Host, HostConfig, SecretKey, Session, StreamSpec};

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits in this thread, as the Python library's `sync` does.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// Seconds from the first to the last of `count` messages of `size` bytes.
fn seconds(outgoing: &Session, incoming: &Session, count: usize, size: usize) -> f64 {
    let data = vec![7; size];
    let stream = outgoing.open_stream(StreamSpec::default()).unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let reader = wait(incoming.accept_stream()).unwrap();
            let mut received = 0;
            while wait(reader.recv()).unwrap().is_some() {
                received += 1;
            }
            assert_eq!(received, count);
        });
        for _ in 0..count {
            // A program makes its messages, so that each is written once here, too.
            wait(stream.send(data.clone().into())).unwrap();
        }
        stream.finish().unwrap();
    });
    started.elapsed().as_secs_f64()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let (count, size) = (arguments.next().unwrap(), arguments.next().unwrap());
    let node = |own: u8, peer: u8| {
        let peer = SecretKey::from_seed([peer; 32]).node_id();
        let config = HostConfig::new(SecretKey::from_seed([own; 32]), AllowList::of([peer]));
        Host::start(config.bind(["127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()])).unwrap()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (here, there) = (node(1, 2), node(2, 1));
    let outgoing = wait(here.connect(there.node_id(), &there.addresses())).unwrap();
    let incoming = wait(there.accept()).unwrap();
    println!(
        "{:.1}",
        count as f64 / seconds(&outgoing, &incoming, count, size)
    );
}
