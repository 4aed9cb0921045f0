//! Connection to the simulation.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::timeout,
};

use super::{Report, Source, live::Live};
use crate::{
    error::VisualiseError,
    imd::{Command, Event, ImdError, SessionInfo, Simulation},
};

/// Time for the connection and the handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;
/// Commands that wait for the connection.
const COMMANDS_MAX: usize = 64;

/// Reason why reading has ended.
enum Ended {
    Closed,
    Failed(std::io::Error),
    Wrong(ImdError),
}

impl Source {
    /// Connects to the simulation and sends its frames to those who watch, until the simulation is over; returns the reason. Without
    /// viewers, a source that waits does not connect.
    ///
    /// # Errors
    /// The simulation cannot be reached, does not speak IMDv3, or not what it announced. Frames that had arrived are sent.
    pub async fn simulate(&self) -> Result<String, VisualiseError> {
        if self.settings.is_waiting {
            // The sender is of this source.
            let _ = self.watching.subscribe().wait_for(|count| *count > 0).await;
        }
        let unreachable = |why| VisualiseError::Unreachable {
            address: self.settings.address.clone(),
            why,
        };
        let connecting = timeout(
            HANDSHAKE_TIME,
            TcpStream::connect(self.settings.address.as_str()),
        );
        let connected = connecting.await.map_err(|_| {
            let words = "no answer";
            unreachable(std::io::Error::new(std::io::ErrorKind::TimedOut, words))
        })?;
        let socket = connected.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let (input, output) = socket.into_split();
        let mut reader = Reader {
            input,
            simulation: Simulation::new(),
        };
        let info = match timeout(HANDSHAKE_TIME, reader.next()).await {
            Ok(Ok(Event::Begun(info))) => info,
            Ok(Ok(_)) => unreachable!("a session begins with its info"),
            Ok(Err(Ended::Wrong(why))) => return Err(self.wrong(why)),
            Ok(Err(Ended::Failed(why))) => return Err(unreachable(why)),
            Ok(Err(Ended::Closed)) => {
                let words = "it closed the connection before its handshake; is another receiver connected to it?";
                return Err(unreachable(std::io::Error::other(words)));
            }
            Err(_) => {
                let words = "it sends no handshake; is this the port of its IMD?";
                return Err(unreachable(std::io::Error::other(words)));
            }
        };
        let (commands, waiting) = mpsc::channel(COMMANDS_MAX);
        tokio::select! {
            ended = self.sessions(&mut reader, info, &commands) => ended,
            never = write(output, waiting) => match never {},
        }
    }

    /// Sessions on one connection: a system with another number of atoms is another session.
    async fn sessions(
        &self,
        reader: &mut Reader,
        info: SessionInfo,
        commands: &mpsc::Sender<Command>,
    ) -> Result<String, VisualiseError> {
        self.report(Report::Begun(info));
        let mut session = self.begin(info, commands);
        if self.settings.is_waiting {
            session.live.ready().await;
        }
        // There is space: it is the first one.
        let _ = commands.try_send(Command::Go);
        let mut of_session = None;
        loop {
            let why = match reader.next().await {
                Ok(Event::Frame(frame)) => {
                    let atoms = frame.atoms();
                    match of_session {
                        None => self.report(Report::First { atoms }),
                        Some(before) if before != atoms => {
                            let words = |atoms: Option<u32>| atoms.unwrap_or_default();
                            let why = format!(
                                "the simulation went from {} atoms to {}",
                                words(before),
                                words(atoms)
                            );
                            session.end(&why);
                            session = self.begin(info, commands);
                            self.report(Report::First { atoms });
                        }
                        Some(_) => {}
                    }
                    of_session = Some(atoms);
                    if self.settings.is_waiting {
                        session.live.ready().await;
                    }
                    session.live.give(&frame, self.settings.is_waiting).await;
                    continue;
                }
                Ok(Event::Begun(_)) => unreachable!("a connection begins once"),
                Ok(Event::Ended) => Ok("the simulation ended the session".to_owned()),
                Err(Ended::Closed) if reader.simulation.is_within_frame() => Ok(
                    "the simulation closed the connection within a frame, which is left out"
                        .to_owned(),
                ),
                Err(Ended::Closed) => Ok("the simulation closed the connection".to_owned()),
                Err(Ended::Failed(error)) => {
                    Ok(format!("the connection to the simulation broke: {error}"))
                }
                Err(Ended::Wrong(why)) => Err(self.wrong(why)),
            };
            match &why {
                Ok(words) => session.end(words),
                Err(error) => session.end(&error.to_string()),
            }
            return why;
        }
    }

    fn begin<'a>(&'a self, info: SessionInfo, commands: &mpsc::Sender<Command>) -> Session<'a> {
        let live = Arc::new(Live::new(self.number(), info, commands.clone()));
        self.live.send_replace(Some(live.clone()));
        Session { source: self, live }
    }

    fn wrong(&self, why: ImdError) -> VisualiseError {
        let address = self.settings.address.clone();
        VisualiseError::Simulation { address, why }
    }
}

/// The session that is served, which is over when this is dropped.
struct Session<'a> {
    source: &'a Source,
    live: Arc<Live>,
}

impl Session<'_> {
    fn end(&self, why: &str) {
        if self.live.end(why) {
            self.source.report(Report::Ended {
                why: why.to_owned(),
                frames: self.live.frames(),
            });
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end("the source stops");
        self.source.live.send_if_modified(|live| {
            // Another session may have begun already.
            let is_own = (live.as_ref()).is_some_and(|live| Arc::ptr_eq(live, &self.live));
            if is_own {
                *live = None;
            }
            is_own
        });
    }
}

struct Reader {
    input: OwnedReadHalf,
    simulation: Simulation,
}

impl Reader {
    async fn next(&mut self) -> Result<Event, Ended> {
        loop {
            if let Some(event) = self.simulation.next_event().map_err(Ended::Wrong)? {
                return Ok(event);
            }
            let buffer = self.simulation.buffer();
            buffer.reserve(READ_BYTES);
            match self.input.read_buf(buffer).await {
                Ok(0) => return Err(Ended::Closed),
                Ok(_) => {}
                Err(error) => return Err(Ended::Failed(error)),
            }
        }
    }
}

/// Writes commands; does not return. An error shows in what is read.
async fn write(
    mut output: OwnedWriteHalf,
    mut commands: mpsc::Receiver<Command>,
) -> std::convert::Infallible {
    while let Some(command) = commands.recv().await {
        if output.write_all(&command.to_bytes()).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}
