//! Site of visitors that is served as long as its handle lives.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    body::Body,
    http::{Method, Request, Response},
};
use tokio::task::JoinHandle;

use crate::{
    name::PublicName,
    serve::StartError,
    site::{Site, Visitors, listen_at, run},
};

/// Address of a page: one of this machine, and the name of a web server in front of it, if there is one.
#[derive(Clone, Debug)]
pub struct Address {
    /// Address to listen on: one of loopback. With port 0, the system chooses one.
    pub listen: SocketAddr,
    /// Name under which a web server on this machine serves the page to others, over TLS.
    pub name: Option<PublicName>,
}

impl From<SocketAddr> for Address {
    fn from(listen: SocketAddr) -> Self {
        Self { listen, name: None }
    }
}

/// A site, served until this is dropped. Everything below `/api/` is for browsers that opened a link; what else it answers holds no data.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    visitors: Arc<Visitors>,
    serving: JoinHandle<()>,
}

/// A site behind its visitors.
struct Gated<S> {
    visitors: Arc<Visitors>,
    site: Arc<S>,
}

impl Served {
    /// Serves a site at an address of this machine from now on. `word` begins the name of its cookie, `remedy` says where there are new links.
    ///
    /// # Errors
    /// The address is not of this machine alone, or cannot be listened on.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start<S: Site>(
        address: impl Into<Address>,
        (word, remedy): (&str, &'static str),
        site: S,
    ) -> Result<Self, StartError> {
        let Address { listen, name } = address.into();
        let (listener, address) = listen_at(listen)?;
        let visitors = Visitors::new(address, word, remedy).behind(name);
        let visitors = Arc::new(visitors);
        let gated = Gated {
            visitors: visitors.clone(),
            site: Arc::new(site),
        };
        Ok(Self {
            address,
            visitors,
            serving: tokio::spawn(run(listener, Arc::new(gated))),
        })
    }

    /// Address at which it is served.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A link that opens the page once, within ten minutes.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&self) -> io::Result<String> {
        self.visitors.link()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl<S: Site> Site for Gated<S> {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        if path == "/api/enter" && request.method() == Method::POST {
            return self.visitors.enter(request).await;
        }
        if path.starts_with("/api/")
            && let Some(refusal) = self.visitors.refusal(request.headers())
        {
            return refusal;
        }
        self.site.clone().answer(request).await
    }

    fn name(&self) -> Option<&PublicName> {
        self.visitors.name()
    }
}
