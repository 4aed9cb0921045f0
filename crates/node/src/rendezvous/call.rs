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
    kept: Arc<Mutex<Kept>>,
}

/// What is kept from one call to the next.
#[derive(Debug, Default)]
struct Kept {
    pairing: Option<Arc<Pairing>>,
    /// The last call failed, and that was reported.
    is_reported: bool,
}

impl Call {
    /// The way from `host` over the relay to `node`, which listens on this port; 0: not known.
    pub fn new(host: &Host, via: &Via, node: NodeId, port: u16) -> Self {
        Self {
            host: host.clone(),
            via: via.clone(),
            node,
            port,
            kept: Arc::default(),
        }
    }

    async fn pairing(&self) -> Option<Arc<Pairing>> {
        let mut kept = self.kept.lock().await;
        if let Some(pairing) = kept.pairing.as_ref().filter(|pairing| !pairing.is_over()) {
            return Some(pairing.clone());
        }
        kept.pairing = None;
        match self.call().await {
            Ok(pairing) => {
                kept.is_reported = false;
                Some(kept.pairing.insert(Arc::new(pairing)).clone())
            }
            Err(error) => {
                if !std::mem::replace(&mut kept.is_reported, true) {
                    self.report(&error);
                }
                None
            }
        }
    }

    async fn call(&self) -> Result<Pairing, RendezvousError> {
        let mut left = TRIES;
        loop {
            left -= 1;
            // It may have another port now.
            let port = if left == 0 { 0 } else { self.port };
            match Pairing::call(&self.host, &self.via, self.node, port).await {
                Err(RendezvousError::Refused(Refusal::Nobody)) if left > 0 => {
                    time::sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    fn report(&self, error: &RendezvousError) {
        match error {
            RendezvousError::Refused(Refusal::Nobody) => tracing::warn!(
                "no address answers, and the other side is not at the relay {}",
                self.via.node
            ),
            error => tracing::warn!("no address answers, and {error}"),
        }
    }

    /// Lets the node be called again, unless it has been since.
    async fn forget(&self, pairing: &Arc<Pairing>) {
        let mut kept = self.kept.lock().await;
        (kept.pairing).take_if(|kept| Arc::ptr_eq(kept, pairing));
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
        Box::pin(async move {
            let pairing = call.pairing().await?;
            if let Ok(circuit) = pairing.ask_circuit().await {
                return circuit;
            }
            // The relay may have been restarted since the node was called.
            call.forget(&pairing).await;
            call.pairing().await?.ask_circuit().await.ok()?
        })
    }
}
