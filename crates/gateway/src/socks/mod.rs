//! SOCKS5: programs name their targets themselves, and the peer resolves and connects.
//!
//! CONNECT and UDP ASSOCIATE of RFC 1928, without authentication or by name and password (RFC 1929). The codec is our own
//! ([`codec`]): libraries for it make the connection to the target themselves, or read ahead of the request.

mod associate;
pub mod codec;

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

use self::codec::{Command, Decoded, SocksError};
use crate::{
    connections::{Connections, Means, WeakConnections},
    endpoint::Endpoint,
    error::Refusal,
    forward::{ListenError, open},
    listener::{Accepted, Listener, tcp_source},
    notice::Notice,
    register::Begun,
    relay::{Phase, no_answer, relay},
    route::Chooser,
    rules::Facts,
    socket::Socket,
    target::is_local,
    wire::{Action, Message},
};

/// Time that a client has to send its request.
const GREETING_TIME: Duration = Duration::from_secs(30);

/// Name and password that clients must give.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    name: String,
    password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?})", self.name)
    }
}

/// A name or password that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("name and password for SOCKS have 1 to 255 bytes each")]
pub struct LoginError;

impl Login {
    /// A name and its password.
    ///
    /// # Errors
    /// One of them is empty or too long.
    pub fn new(name: &str, password: &str) -> Result<Self, LoginError> {
        let is_fine = |text: &str| (1..=255).contains(&text.len());
        if !is_fine(name) || !is_fine(password) {
            return Err(LoginError);
        }
        Ok(Self {
            name: name.to_owned(),
            password: password.to_owned(),
        })
    }

    /// True if these are the name and the password; takes the same time wherever they differ.
    fn admits(&self, name: &[u8], password: &[u8]) -> bool {
        let same = |known: &str, given: &[u8]| {
            let known = known.as_bytes();
            let differing = known.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
            (differing == 0) & (known.len() == given.len())
        };
        same(&self.name, name) & same(&self.password, password)
    }
}

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The endpoint cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Everybody could use it.
    #[error(
        "{0} can be reached from other machines, and anybody there could use the peer's network through it; listen on \
         127.0.0.1, or ask for a name and a password"
    )]
    Exposed(Endpoint),
}

/// A SOCKS5 server.
#[derive(Debug)]
pub struct Socks {
    listener: Listener,
    local: Endpoint,
    settings: Switch,
    connections: Connections,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name and password that clients must give.
    pub login: Option<Login>,
    /// Choice of the service and of the peer.
    pub chooser: Chooser,
}

/// The settings of a server, which can be changed while it runs. Clones share them.
#[derive(Clone, Debug)]
pub struct Switch(Arc<Mutex<Arc<Settings>>>);

impl Switch {
    fn settings(&self) -> Arc<Settings> {
        let settings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        settings.clone()
    }

    /// Serves clients that connect from now on by other settings.
    pub fn turn(&self, settings: Settings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}

/// Cause for which a client was not served.
#[derive(Debug, thiserror::Error)]
enum ClientError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Socks(#[from] SocksError),
    #[error("it did not send its request in time")]
    Slow,
    #[error(
        "it offers no method of authentication that is accepted here, or a wrong name or password"
    )]
    Login,
}

/// Checks that a server is safe at an endpoint.
///
/// # Errors
/// Other machines can reach it, and there is no login.
pub fn check_exposed(at: &Endpoint, login: Option<&Login>) -> Result<(), StartError> {
    match login.is_none() && !is_local(at) {
        true => Err(StartError::Exposed(at.clone())),
        false => Ok(()),
    }
}

impl Socks {
    /// Opens a server. Must be called within a runtime; clients are served while [`Socks::run`] runs.
    ///
    /// # Errors
    /// The endpoint cannot be opened, or can be reached from other machines and has no login.
    pub fn open(
        at: &Endpoint,
        settings: Settings,
        connections: Connections,
    ) -> Result<Self, StartError> {
        check_exposed(at, settings.login.as_ref())?;
        let (listener, local) = Listener::open(at)?;
        Ok(Self {
            listener,
            local,
            settings: Switch(Arc::new(Mutex::new(Arc::new(settings)))),
            connections,
        })
    }

    /// The endpoint, with the port that was assigned.
    pub fn local(&self) -> &Endpoint {
        &self.local
    }

    /// Its settings, for changes while it runs.
    pub fn switch(&self) -> Switch {
        self.settings.clone()
    }

    /// Serves clients until dropped.
    pub async fn run(self) {
        let notices = self.connections.notices();
        loop {
            self.connections.available().await;
            let Accepted::Tcp(stream) = self.listener.accept(notices).await else {
                continue;
            };
            let place = self.connections.place().await;
            let (settings, flows) = (self.settings.settings(), self.connections.downgrade());
            let means = self.connections.means().clone();
            self.connections.spawn(async move {
                let _place = place;
                let client = Client {
                    settings: &settings,
                    means: &means,
                };
                match client.serve(stream, flows).await {
                    Ok(()) => {}
                    Err(Failure::Target(to, refusal)) => {
                        means.notices.show(&Notice::Failed { to, refusal });
                    }
                    Err(Failure::Client(error)) => {
                        anabranch::net::limited!(info, %error, "a client of SOCKS is not served");
                    }
                }
            });
        }
    }
}

#[derive(Debug)]
enum Failure {
    Client(ClientError),
    Target(Endpoint, Refusal),
}

impl<E: Into<ClientError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Client(error.into())
    }
}

/// Reads one message, and nothing behind it.
async fn read<T>(
    stream: &mut TcpStream,
    decode: impl Fn(&[u8]) -> Result<Decoded<T>, SocksError>,
) -> Result<T, ClientError> {
    let mut bytes = Vec::new();
    loop {
        match decode(&bytes)? {
            Decoded::Whole(message) => return Ok(message),
            Decoded::Needs(more) => {
                let begin = bytes.len();
                bytes.resize(begin + more, 0);
                stream.read_exact(&mut bytes[begin..]).await?;
            }
        }
    }
}

/// One client.
struct Client<'s> {
    settings: &'s Settings,
    means: &'s Means,
}

impl Client<'_> {
    async fn serve(&self, mut stream: TcpStream, flows: WeakConnections) -> Result<(), Failure> {
        let command = timeout(GREETING_TIME, self.greet(&mut stream)).await;
        match command.map_err(|_| ClientError::Slow)?? {
            Command::Connect(target) => self.connect(stream, target).await,
            Command::Associate => {
                let chooser = self.settings.chooser.clone();
                associate::serve(stream, chooser, flows).await?;
                Ok(())
            }
            Command::Other(_) => {
                let reply = codec::reply(Err(codec::REPLY_COMMAND));
                stream.write_all(&reply).await?;
                Ok(())
            }
        }
    }

    /// Authenticates a client, and reads its request.
    async fn greet(&self, stream: &mut TcpStream) -> Result<Command, ClientError> {
        let methods = read(stream, codec::methods).await?;
        let wanted = match self.settings.login {
            Some(_) => codec::METHOD_LOGIN,
            None => codec::METHOD_NONE,
        };
        if !methods.contains(&wanted) {
            stream
                .write_all(&codec::chosen(codec::METHOD_REFUSED))
                .await?;
            return Err(ClientError::Login);
        }
        stream.write_all(&codec::chosen(wanted)).await?;
        if let Some(login) = &self.settings.login {
            let (name, password) = read(stream, codec::login).await?;
            let is_admitted = login.admits(&name, &password);
            stream.write_all(&codec::admitted(is_admitted)).await?;
            if !is_admitted {
                return Err(ClientError::Login);
            }
        }
        match read(stream, codec::request).await {
            Err(ClientError::Socks(error)) => {
                let reply = codec::reply(Err(codec::reply_to(error)));
                stream.write_all(&reply).await?;
                Err(error.into())
            }
            read => read,
        }
    }

    async fn connect(&self, stream: TcpStream, target: Endpoint) -> Result<(), Failure> {
        let source = tcp_source(&stream);
        let socket = Socket::from(stream);
        let means = self.means;
        let by = Instant::now() + means.timeouts.connect();
        let asking = async {
            let facts = Facts {
                target: &target,
                source: &source,
                dscp: None,
            };
            let choice = self.settings.chooser.choose(means, facts).await?;
            let flow = means
                .register
                .enter(Begun::by(&choice, source.clone(), &target));
            let action = Action::Connect(target.clone());
            let (session, stream) = open(&choice, &target, &action, &means.notices, by).await?;
            let failed = |cause: String| Refusal::new(crate::Code::Failed, cause);
            let answer = timeout_at(by, stream.recv()).await;
            let answer = answer.map_err(|_| no_answer())?;
            let answer = answer.map_err(|failure| failed(failure.to_string()))?;
            match answer.map(|adu| Message::decode(adu.data)) {
                Some(Ok(Message::Answer(Ok(_)))) => Ok((session, stream, choice, flow)),
                Some(Ok(Message::Answer(Err(refusal)))) => Err(refusal),
                _ => Err(failed("the peer does not keep to the protocol".to_owned())),
            }
        };
        let asked = tokio::select! {
            asked = asking => asked,
            // The program did not wait.
            _ = socket.failed() => return Ok(()),
        };
        let (session, stream, choice, flow) = match asked {
            Ok(open) => open,
            Err(refusal) => {
                let reply = codec::reply(Err(codec::reply_code(refusal.code)));
                // The client may be gone; the failure is that of the target in any case.
                if socket.write_all(&reply, || ()).await.is_ok() {
                    socket.shut_write();
                    socket.close();
                }
                return Err(Failure::Target(target, refusal));
            }
        };
        let reply = codec::reply(Ok(Endpoint::tcp(([0, 0, 0, 0], 0).into())));
        socket.write_all(&reply, || ()).await?;
        let shared = means.of(&session);
        drop(session);
        tokio::select! {
            result = relay(socket, &stream, Phase::Open, shared, &flow) => {
                if let Err(broken) = result {
                    tracing::debug!(%broken, "a connection ended");
                }
            }
            () = choice.service.watch(&stream, &target, &means.notices, &flow) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_compared_whole() {
        let login = Login::new("ada", "secret").unwrap();
        assert!(login.admits(b"ada", b"secret"));
        for (name, password) in [
            ("ada", "secre"),
            ("ada", "secrets"),
            ("ada", ""),
            ("bob", "secret"),
            ("", "secret"),
            ("ad", "secret"),
        ] {
            assert!(!login.admits(name.as_bytes(), password.as_bytes()));
        }
        assert!(Login::new("", "x").is_err());
        assert!(Login::new("x", &"y".repeat(256)).is_err());
        assert!(!format!("{login:?}").contains("secret"));
    }
}
