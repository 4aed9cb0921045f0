//! Configuration of a new node.

use std::{
    fs,
    io::{self, Write},
    net::UdpSocket,
    path::{Path, PathBuf},
};

use anabranch::{
    base::text::printable,
    config::{Layer, Places, edit},
    rendezvous::Via,
};

use super::Arguments;
use crate::exit::{Failure, Outcome};

/// Port of a node, unless another one is needed.
const PORT: u16 = 4433;

/// Makes the configuration, and the folder for received files.
pub(super) fn make(places: &Places, arguments: &Arguments) -> Outcome {
    let receive = match &arguments.receive {
        Some(named) => std::path::absolute(named).map_err(|error| at(named, &error))?,
        None => receive(places),
    };
    let port = match arguments.port {
        Some(port) => port,
        None => port().map_err(|error| Failure::other(format!("no UDP port: {error}")))?,
    };
    let text = text(
        arguments.name.as_deref(),
        &receive,
        port,
        arguments.via.as_ref(),
    )?;
    fs::create_dir_all(&receive).map_err(|error| at(&receive, &error))?;
    if let Some(folder) = places.config.parent() {
        fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    let mut options = fs::OpenOptions::new();
    // Another process may be quicker; what it wrote is not overwritten.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.write(true).create_new(true);
    let opened = file.open(&places.config);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(at(&places.config, &error))
        }
        _ => Ok(()),
    }
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::file(format!("cannot make {}: {error}", path.display()))
}

/// Text of the configuration.
fn text(
    name: Option<&str>,
    receive: &Path,
    port: u16,
    via: Option<&Via>,
) -> Result<String, Failure> {
    let Some(receive) = receive.to_str() else {
        return Err(Failure::usage(format!(
            "the name of {} is no UTF-8; name another folder with --receive",
            receive.display()
        )));
    };
    let name = match name {
        Some(name) => format!(
            "# Name that this machine suggests to others for itself.\nname = {}\n\n",
            edit::quoted(name)
        ),
        None => String::new(),
    };
    let receive = edit::quoted(receive);
    let via = match via {
        Some(via) => format!(
            "\n# Relay at which this machine meets others.\nvia = {}\n",
            edit::quoted(&via.to_string())
        ),
        None => String::new(),
    };
    let text = format!(
        "# Settings of the node of this machine (`anabranch up`). After a change, run `anabranch reload`.\n\n{name}\
         # Files from other machines arrive here.\nreceive = {receive}\n\n\
         # UDP port at every address of this machine; a firewall must let it in where others call this machine.\nport = {port}\n{via}"
    );
    // The name is refused before a file is written.
    let layer = Layer::from_toml(&text).map_err(Failure::usage)?;
    let somewhere = |_: &str| Some("/".to_owned());
    match layer.resolve(somewhere) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(printable(&error.to_string(), 400))),
    }
}

/// Folder for received files, if none is named.
fn receive(places: &Places) -> PathBuf {
    let downloads = std::env::home_dir().map(|home| home.join("Downloads"));
    let of_user = downloads.filter(|path| path.is_dir() && places.is_of_user());
    of_user.unwrap_or_else(|| places.receive.clone())
}

/// The usual port, or another one where it is taken.
fn port() -> io::Result<u16> {
    let bind = |port| UdpSocket::bind(("0.0.0.0", port));
    match bind(PORT) {
        Ok(_) => Ok(PORT),
        Err(_) => Ok(bind(0)?.local_addr()?.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_configuration_is_accepted() {
        let relay = format!("{}@192.0.2.1:4433", "a".repeat(52));
        let relay: Via = relay.parse().unwrap();
        let text = text(
            Some("studio"),
            Path::new("/srv/a \"b\""),
            4433,
            Some(&relay),
        )
        .unwrap();
        let layer = Layer::from_toml(&text).unwrap();
        assert_eq!(layer.receive.as_deref(), Some(Path::new("/srv/a \"b\"")));
        assert_eq!(
            (layer.port, layer.name.as_deref()),
            (Some(4433), Some("studio"))
        );
        assert_eq!(layer.via().unwrap(), Some(relay));
    }

    #[test]
    fn an_unsuitable_name_is_refused() {
        let failure = text(Some("my studio"), Path::new("/srv"), 1, None).unwrap_err();
        assert!(
            failure.message().contains("name = \"my studio\""),
            "{}",
            failure.message()
        );
    }
}
