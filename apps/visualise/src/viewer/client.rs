//! Connection of a client.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch as state,
    time::timeout,
};

use super::{Report, Shared, Steered, room::Seat};
use crate::imd::{Command, Commands, ImdError};

/// Time for the go of a client after the handshake.
const GO_TIME: Duration = Duration::from_secs(60);
/// Time for a client to close the connection after the end of the session.
const LEAVE_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read at a time: commands are small.
const READ_BYTES: usize = 4 << 10;

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Reason why a client is not served, or not any more.
#[derive(Debug, thiserror::Error)]
enum Gone {
    /// It left.
    #[error("it left")]
    Left,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// It does not speak IMD.
    #[error("it does not speak IMD: {0}")]
    Wrong(#[from] ImdError),
    /// It sent something before the handshake.
    #[error("it sent something before the handshake")]
    Early,
    /// It sent no go.
    #[error("it sent no go after the handshake")]
    Silent,
    /// The simulation sends nothing of the sections.
    #[error("the simulation sends no section of this endpoint")]
    Nothing,
}

/// One more, until this is dropped.
struct Counted<'a>(&'a state::Sender<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a state::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Serves a client until it leaves or the session is over.
pub(super) async fn serve(
    socket: TcpStream,
    address: SocketAddr,
    endpoint: usize,
    shared: &Shared,
) {
    let _connected = Counted::new(&shared.connected);
    let mut counts = (0, 0);
    let why = match serve_counted(socket, address, endpoint, shared, &mut counts).await {
        Ok(()) | Err(Gone::Left) => None,
        Err(gone) => Some(gone.to_string()),
    };
    let (served, skipped) = counts;
    shared.report(Report::Left {
        address,
        served,
        skipped,
        why,
    });
}

async fn serve_counted(
    socket: TcpStream,
    address: SocketAddr,
    endpoint: usize,
    shared: &Shared,
    counts: &mut (u64, u64),
) -> Result<(), Gone> {
    socket.set_nodelay(true)?;
    let mut rooms = shared.room.subscribe();
    let mut byte = [0];
    let room = tokio::select! {
        room = rooms.wait_for(Option::is_some) => room.ok().and_then(|room| room.clone()),
        early = socket.peek(&mut byte) => return Err(match early? {
            0 => Gone::Left,
            _ => Gone::Early,
        }),
    };
    let room = room.ok_or(Gone::Left)?;
    let info = room.info(endpoint);
    if info.sections.is_empty() {
        return Err(Gone::Nothing);
    }
    let (input, mut output) = socket.into_split();
    output.write_all(&info.to_bytes()).await?;
    let mut inbox = Inbox {
        input,
        commands: Commands::new(),
    };
    let go = async {
        loop {
            match inbox.next().await? {
                Command::Go => return Ok(()),
                Command::Disconnect => return Err(Gone::Left),
                _ => {}
            }
        }
    };
    timeout(GO_TIME, go).await.map_err(|_| Gone::Silent)??;
    let _seated = Counted::new(&shared.seated);
    let seat = room.sit(endpoint);
    room.go.notify_one();
    shared.report(Report::Client {
        address,
        sections: info.sections.to_string(),
    });
    let client = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let paused = state::Sender::new(false);
    let mut is_complete = false;
    let gone = tokio::select! {
        gone = commands(&mut inbox, client, &paused, shared) => gone,
        written = write(&mut output, &seat, paused.subscribe(), &mut counts.0) => {
            is_complete = written.is_ok();
            written
        }
    };
    counts.1 = seat.skipped.load(Ordering::Relaxed);
    room.leave(endpoint, &seat);
    if shared.settings.is_steering && *paused.borrow() {
        // Who has left does not keep the simulation paused.
        let command = Command::Resume;
        let sending = shared.steered.send(Steered { client, command });
        // After the end of the session, nobody takes commands until the next one.
        let _ = timeout(LEAVE_TIME, sending).await;
    }
    if is_complete {
        leave(&mut inbox).await;
    }
    gone
}

/// Writes whole frames until the session is over.
async fn write(
    output: &mut OwnedWriteHalf,
    seat: &Seat,
    mut paused: state::Receiver<bool>,
    served: &mut u64,
) -> Result<(), Gone> {
    loop {
        // The sender is there for longer.
        let _ = paused.wait_for(|is_paused| !is_paused).await;
        let Some(packets) = seat.queue.take().await else {
            break;
        };
        output.write_all(&packets).await?;
        *served += 1;
    }
    output.shutdown().await?;
    Ok(())
}

/// Takes commands until the client leaves.
async fn commands(
    inbox: &mut Inbox,
    client: u64,
    paused: &state::Sender<bool>,
    shared: &Shared,
) -> Result<(), Gone> {
    loop {
        let command = inbox.next().await?;
        match command {
            Command::Disconnect => return Err(Gone::Left),
            Command::Pause => {
                paused.send_replace(true);
            }
            Command::Resume => {
                paused.send_replace(false);
            }
            Command::Rate(_) | Command::Kill => {}
            Command::Go | Command::Wait(_) | Command::Forces(_) => continue,
        }
        if shared.settings.is_steering {
            // An error means that the viewer ends.
            let _ = shared.steered.send(Steered { client, command }).await;
        }
    }
}

/// Waits until the client has closed the connection: data that it has not read would be lost with what it has sent and nobody has read.
async fn leave(inbox: &mut Inbox) {
    let leaving = async {
        let mut bytes = [0; READ_BYTES];
        while inbox
            .input
            .read(&mut bytes)
            .await
            .is_ok_and(|read| read > 0)
        {}
    };
    // An error means that it is closed at this side.
    let _ = timeout(LEAVE_TIME, leaving).await;
}

struct Inbox {
    input: OwnedReadHalf,
    commands: Commands,
}

impl Inbox {
    async fn next(&mut self) -> Result<Command, Gone> {
        loop {
            if let Some(command) = self.commands.next_command()? {
                return Ok(command);
            }
            let buffer = self.commands.buffer();
            buffer.reserve(READ_BYTES);
            if self.input.read_buf(buffer).await? == 0 {
                return Err(Gone::Left);
            }
        }
    }
}
