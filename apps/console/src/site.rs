//! Pages of programs on this machine: what the console shares with other programs that show something in a browser.
//!
//! A [`Site`] answers requests that the guard let through; [`Served`] serves it to its visitors; [`Visitors`] are the browsers that opened a link; [`listen_at`] and [`run`] accept
//! connections of this machine alone, and limit them.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::{
    body::to_bytes,
    http::{HeaderMap, header},
};
pub use axum::{
    body::{Body, Bytes},
    http::{Method, Request, Response, StatusCode},
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    access::{Access, COOKIE_AGE_MAX},
    guard, listen,
    serve::StartError,
};
pub use crate::{
    name::{NameError, PublicName},
    page::answer,
    served::{Address, Served},
};

/// Longest body of a request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
const JSON: &str = "application/json";

/// Program that answers the requests of its own page.
pub trait Site: Send + Sync + 'static {
    /// Answers a request, which is of a page of this machine.
    fn answer(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Name of a web server in front of it, under which its pages are answered, too; `None`: those of this machine only.
    fn name(&self) -> Option<&PublicName> {
        None
    }
}

/// The answer of a site, or a refusal if the request is of another site's page.
pub(crate) async fn guarded<S: Site>(site: Arc<S>, request: Request<Body>) -> Response<Body> {
    match guard::refusal(&request, site.name()) {
        Some(reason) => refused(StatusCode::FORBIDDEN, reason),
        None => site.answer(request).await,
    }
}

/// Listens on an address; returns that with its port, too.
///
/// # Errors
/// The address is not of this machine alone, or cannot be listened on.
///
/// # Panics
/// Outside a Tokio runtime.
pub fn listen_at(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    if !is_loopback(listen.ip()) {
        return Err(StartError::Remote(listen));
    }
    let failed = |error| StartError::Listen(listen, error);
    let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Serves a site until it is dropped; does not return.
pub async fn run<S: Site>(listener: TcpListener, site: Arc<S>) {
    listen::run(listener, site).await;
}

/// A refusal, in JSON.
pub fn refused(status: StatusCode, reason: &str) -> Response<Body> {
    answer(status, JSON, json!({ "error": reason }).to_string())
}

/// An answer whose body comes piece by piece, for as long as it is read: `next` makes each piece, and is not called before the one before
/// is on its way.
pub fn streamed<T, N, F>(mime: &str, state: T, next: N) -> Response<Body>
where
    T: Send + 'static,
    N: FnMut(T) -> F + Send + 'static,
    F: Future<Output = Option<(Bytes, T)>> + Send + 'static,
{
    let pieces = stream::unfold(state, next).map(Ok::<_, Infallible>);
    answer(StatusCode::OK, mime, Body::from_stream(pieces))
}

/// The body of a request.
///
/// # Errors
/// A refusal: it is too long, or does not come.
pub async fn body(request: Request<Body>) -> Result<Bytes, Response<Body>> {
    to_bytes(request.into_body(), REQUEST_BYTES_MAX)
        .await
        .map_err(|_| {
            refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is longer than 64 kB",
            )
        })
}

/// Browsers that opened a link, each of which is good once, within ten minutes.
#[derive(Debug)]
pub struct Visitors {
    access: Access,
    address: SocketAddr,
    /// Web server in front of the page.
    name: Option<PublicName>,
    /// Name of the cookie; browsers keep those of all ports of a host together.
    cookie: String,
    /// Remedy for a link that is not valid.
    remedy: &'static str,
}

impl Visitors {
    /// Visitors of a page at an address; `word` begins the name of its cookie, `remedy` says where there are new links.
    pub fn new(address: SocketAddr, word: &str, remedy: &'static str) -> Self {
        Self {
            access: Access::default(),
            address,
            name: None,
            cookie: format!("{word}-{}", address.port()),
            remedy,
        }
    }

    /// The same behind a web server with this name: links lead there.
    #[must_use]
    pub fn behind(self, name: Option<PublicName>) -> Self {
        Self { name, ..self }
    }

    /// Name of the web server in front of the page.
    pub const fn name(&self) -> Option<&PublicName> {
        self.name.as_ref()
    }

    /// A link that opens the page once, within ten minutes.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&self) -> io::Result<String> {
        let token = self.access.token(Instant::now());
        let token = token.map_err(|error| io::Error::other(error.to_string()))?;
        let origin = match &self.name {
            Some(name) => name.origin(),
            None => format!("http://{}", self.address),
        };
        Ok(format!("{origin}/#token={token}"))
    }

    /// The refusal of a request without a valid cookie; `None`: it has one.
    pub fn refusal(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let is_known = pairs
            .any(|(name, value)| name == self.cookie && self.access.knows(value, Instant::now()));
        let words = || format!("this page needs a new link; {}", self.remedy);
        (!is_known).then(|| refused(StatusCode::UNAUTHORIZED, &words()))
    }

    /// Answers the request of a page to exchange the token of its link for a cookie.
    pub async fn enter(&self, request: Request<Body>) -> Response<Body> {
        // A browser keeps it from connections without TLS.
        let is_under = |name| guard::is_under(request.headers(), name);
        let secure = match self.name.as_ref().is_some_and(is_under) {
            true => "; Secure",
            false => "",
        };
        let body = match body(request).await {
            Ok(body) => body,
            Err(response) => return response,
        };
        let token = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
        let token = token
            .get("token")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        match self.access.enter(token, Instant::now()) {
            Ok(Some(secret)) => {
                tracing::info!("a page is open");
                let cookie = format!(
                    "{}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
                    self.cookie,
                    COOKIE_AGE_MAX.as_secs()
                );
                let mut response = answer(StatusCode::NO_CONTENT, JSON, Body::empty());
                if let Ok(value) = cookie.parse() {
                    response.headers_mut().insert(header::SET_COOKIE, value);
                }
                response
            }
            Ok(None) => {
                tracing::warn!(
                    "the link of a page was refused: it was used before, is older than 10 minutes, or is wrong"
                );
                let words = format!("this link was used before or has expired; {}", self.remedy);
                refused(StatusCode::FORBIDDEN, &words)
            }
            Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}
