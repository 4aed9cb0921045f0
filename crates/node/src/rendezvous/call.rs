//! Way to a node that attends at a relay: the addresses at which the relay sees it, and a circuit.

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use anabranch_base::NodeId;
use anabranch_net::{Detour, Host};
use tokio::{sync::Mutex, time};

use super::{
    client::{Pairing, RendezvousError},
    message::Refusal,
    via::Via,
};

/// Times that a node which does not attend is called: it may be serving another caller, or coming back.
const TRIES: u32 = 4;
/// Pause between them.
const PAUSE: Duration = Duration::from_secs(1);

/// The way to one node. It is called when the way is needed, and again when the connection is over.
#[derive(Clone, Debug)]
pub struct Call {
    host: Host,
    via: Via,
    node: NodeId,
    port: u16,
    pairing: Arc<Mutex<Option<Arc<Pairing>>>>,
}

impl Call {
    /// The way from `host` over the relay to `node`, which listens on this port; 0: not known.
    pub fn new(host: &Host, via: &Via, node: NodeId, port: u16) -> Self {
        Self {
            host: host.clone(),
            via: via.clone(),
            node,
            port,
            pairing: Arc::default(),
        }
    }

    async fn pairing(&self) -> Option<Arc<Pairing>> {
        let mut kept = self.pairing.lock().await;
        if let Some(pairing) = kept.as_ref().filter(|pairing| !pairing.is_over()) {
            return Some(pairing.clone());
        }
        *kept = None;
        for left in (0..TRIES).rev() {
            // It may have another port now.
            let port = if left == 0 { 0 } else { self.port };
            match Pairing::call(&self.host, &self.via, self.node, port).await {
                Ok(pairing) => return Some(kept.insert(Arc::new(pairing)).clone()),
                Err(RendezvousError::Refused(Refusal::Nobody)) if left > 0 => {
                    time::sleep(PAUSE).await;
                }
                Err(RendezvousError::Refused(Refusal::Nobody)) => {
                    tracing::warn!(
                        "no address answers, and the other side is not at the relay {}",
                        self.via.node
                    );
                }
                Err(error) => {
                    tracing::warn!("no address answers, and {error}");
                    break;
                }
            }
        }
        None
    }
}

impl Detour for Call {
    fn addresses(&self) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>> {
        let call = self.clone();
        Box::pin(async move {
            let pairing = call.pairing().await;
            pairing.map_or_else(Vec::new, |pairing| pairing.addresses.clone())
        })
    }

    fn open(&self) -> Pin<Box<dyn Future<Output = Option<SocketAddr>> + Send>> {
        let call = self.clone();
        Box::pin(async move { call.pairing().await?.open().await })
    }
}
