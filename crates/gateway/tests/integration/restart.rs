//! The end of the far node under open connections, and its return.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{FAR, Node, Pair, echo, echoed, rights, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_end_with_the_node_and_new_ones_wait_for_its_return() {
    within(async {
        let target = echo().await;
        let Pair { near, far, folder } = Pair::to(target).await;
        let at = near.listening()[0];
        let mut open = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            open.push(stream);
        }
        let address = far.address().to_string();
        far.stop().await;
        for mut stream in open {
            let error = stream.read(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        // While there is no session, a connection waits.
        let waiting = TcpStream::connect(at).await.unwrap();
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        let again = Node::start(folder.path(), FAR, &address, &rights(&may)).await;
        assert_eq!(echoed(waiting, b"again").await, b"again");
        drop(again);
    })
    .await;
}
