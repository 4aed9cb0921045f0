//! Database of the demonstration: a PostgreSQL server of this machine with its own client, or a table in this process where
//! there is none.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::exit::Failure;

/// Time that the server has to start.
const STARTED: Duration = Duration::from_secs(60);
/// Customers of the table; customer n has orders of the amounts n, 2 n, … up to 10 n.
const CUSTOMERS: u64 = 1000;
const ORDERS: u64 = 10;
/// User as which PostgreSQL runs if this is root, which it refuses to run as.
#[cfg(unix)]
const NOBODY: u32 = 65_534;

/// A running database; it ends when this is dropped.
pub(super) enum Database {
    Postgres {
        programs: PathBuf,
        at: SocketAddr,
        _server: Box<Child>,
    },
    Table {
        at: SocketAddr,
    },
}

/// Folder with the programs of PostgreSQL, the newest if there are several.
fn programs() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.reverse();
    folders.extend(std::env::split_paths(&path));
    let is_complete = |folder: &PathBuf| {
        ["initdb", "postgres", "psql"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    folders.into_iter().find(is_complete)
}

/// True if this process is root's, as which the server does not run.
#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Gives the server's folder to the user as whom it runs.
fn give_away(folder: &Path) -> Result<(), Failure> {
    #[cfg(unix)]
    if is_root() {
        let given = std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY));
        given.map_err(Failure::file)?;
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// A program of PostgreSQL that reads and writes nothing of ours.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(unix)]
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn sum_of(customer: u64) -> u64 {
    customer * ORDERS * (ORDERS + 1) / 2
}

impl Database {
    /// Starts a database with the table `orders`. `folder` must be empty; it is given to the user of the server.
    ///
    /// # Errors
    /// PostgreSQL is installed, but does not start.
    pub(super) async fn start(folder: &Path) -> Result<Self, Failure> {
        match programs() {
            Some(programs) => Self::start_postgres(programs, folder).await,
            None => Self::start_table().await,
        }
    }

    async fn start_postgres(programs: PathBuf, folder: &Path) -> Result<Self, Failure> {
        give_away(folder)?;
        let data = folder.join("data");
        let made = command(&programs.join("initdb"))
            .args(["--auth=trust", "--username=demo", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(folder)
            .status()
            .await;
        if !made.map_err(Failure::other)?.success() {
            return Err(Failure::other(format!(
                "{} failed in {}",
                programs.join("initdb").display(),
                data.display()
            )));
        }
        // A free port; PostgreSQL takes a number only.
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let at = (listener.and_then(|listener| listener.local_addr())).map_err(Failure::other)?;
        let server = command(&programs.join("postgres"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
            .arg("-k")
            .arg(folder)
            .args(["-p", &at.port().to_string(), "-D"])
            .arg(&data)
            .current_dir(folder)
            .spawn()
            .map_err(Failure::other)?;
        let database = Self::Postgres {
            programs,
            at,
            _server: Box::new(server),
        };
        let fill = format!(
            "create table orders as select c as customer, c * n as amount \
             from generate_series(0, {}) c, generate_series(1, {ORDERS}) n",
            CUSTOMERS - 1
        );
        let filled = async {
            while database.sql(at, &fill).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let filled = tokio::time::timeout(STARTED, filled).await;
        filled.map_err(|_| Failure::other("PostgreSQL did not start within a minute"))?;
        Ok(database)
    }

    async fn start_table() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(Failure::other)?;
        let at = listener.local_addr().map_err(Failure::other)?;
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(answer(client));
            }
        });
        Ok(Self::Table { at })
    }

    /// Address of the server.
    pub(super) fn at(&self) -> SocketAddr {
        match self {
            Self::Postgres { at, .. } | Self::Table { at } => *at,
        }
    }

    /// Name for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => "PostgreSQL, asked by psql",
            Self::Table { .. } => "a table in this process (no PostgreSQL is installed)",
        }
    }

    /// Asks through `at` for what a customer ordered, with a connection of its own.
    ///
    /// # Errors
    /// No answer, or a wrong one.
    pub(super) async fn ask(&self, at: SocketAddr, number: u64) -> Result<(), Failure> {
        let customer = number % CUSTOMERS;
        let answer = match self {
            Self::Postgres { .. } => {
                let query = format!("select sum(amount) from orders where customer = {customer}");
                self.sql(at, &query).await?
            }
            Self::Table { .. } => ask_table(at, customer)
                .await
                .map_err(Failure::unreachable)?,
        };
        match answer.trim().parse::<u64>() {
            Ok(sum) if sum_of(customer) == sum => Ok(()),
            _ => Err(Failure::other(format!(
                "the database answered '{}'",
                answer.trim()
            ))),
        }
    }

    /// Output of psql for a statement.
    async fn sql(&self, at: SocketAddr, statement: &str) -> Result<String, Failure> {
        let Self::Postgres { programs, .. } = self else {
            return Err(Failure::other("there is no PostgreSQL"));
        };
        let done = command(&programs.join("psql"))
            .args(["-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-U", "demo"])
            .args([
                "-p",
                &at.port().to_string(),
                "-d",
                "postgres",
                "-c",
                statement,
            ])
            .current_dir("/")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .await
            .map_err(Failure::other)?;
        if !done.status.success() {
            let cause = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            return Err(Failure::other(format!("psql: {cause}")));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// Serves a connection to the table: a customer's number a line, and the sum of the orders as the answer.
async fn answer(client: TcpStream) {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    while client
        .read_line(&mut line)
        .await
        .is_ok_and(|count| count > 0)
    {
        let sum = line.trim().parse().map(sum_of);
        let text = sum.map_or("error\n".to_owned(), |sum| format!("{sum}\n"));
        if client.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        line.clear();
    }
}

async fn ask_table(at: SocketAddr, customer: u64) -> std::io::Result<String> {
    let mut server = BufReader::new(TcpStream::connect(at).await?);
    server.write_all(format!("{customer}\n").as_bytes()).await?;
    let mut line = String::new();
    server.read_line(&mut line).await?;
    Ok(line)
}

/// Gives everyone access to a folder's entries by name, as the server of another user needs to its own folder.
pub(super) fn open_folder(folder: &Path) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(folder, mode).map_err(Failure::file)?;
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
