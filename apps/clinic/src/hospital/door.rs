//! The node to which the ticket is bound, and the session of each case that is open. A ticket is bound to the first node that shows it.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anabranch::base::NodeId;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, watch};

use crate::error::ClinicError;

/// File with the node to which the ticket is bound.
const FILE: &str = "ambulance";

/// The door.
#[derive(Debug)]
pub(super) struct Door {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    node: Option<NodeId>,
    /// By run.
    open: BTreeMap<u64, Case>,
}

/// A case that is open: whoever has the turn writes its files.
#[derive(Debug)]
struct Case {
    turn: Arc<Turn<()>>,
    /// Number of the newest session; earlier ones leave.
    newest: watch::Sender<u64>,
}

/// The turn of a session, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    newest: watch::Receiver<u64>,
    _turn: OwnedMutexGuard<()>,
}

/// Cases that one ambulance can have open at a time.
const CASES_MAX: usize = 64;

impl Door {
    pub(super) fn open(store: &Path) -> Result<Self, ClinicError> {
        let path = store.join(FILE);
        let node = match fs::read_to_string(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => return Err(ClinicError::file(&path, why)),
            Ok(text) => Some(text.trim().parse().map_err(|_| {
                let words = "it holds no node; remove it to let another ambulance use the ticket";
                ClinicError::file(&path, io::Error::other(words))
            })?),
        };
        let inner = Mutex::new(Inner {
            node,
            open: BTreeMap::new(),
        });
        Ok(Self { path, inner })
    }

    /// Binds the ticket to this node, if it is not bound yet.
    ///
    /// # Errors
    /// It is bound to another node, or that cannot be noted; in words.
    pub(super) fn bind(&self, node: NodeId) -> Result<(), String> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.node {
            Some(other) if other == node => Ok(()),
            Some(_) => Err("the ticket was used by another ambulance; use its key (--key), or the ticket of a hospital with another --store".to_owned()),
            None => {
                let draft = self.path.with_extension("new");
                let write = || {
                    let mut file = fs::File::create(&draft)?;
                    writeln!(file, "{node}")?;
                    file.sync_all()?;
                    fs::rename(&draft, &self.path)
                };
                let written: io::Result<()> = write();
                written.map_err(|why| format!("the hospital cannot write to its store: {why}"))?;
                inner.node = Some(node);
                Ok(())
            }
        }
    }

    /// Waits for the turn of a session in a case. Earlier sessions leave.
    ///
    /// # Errors
    /// Too many cases are open, in words.
    pub(super) async fn enter(&self, run: u64) -> Result<Place, String> {
        let (turn, newest, number) = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner
                .open
                .retain(|other, case| *other == run || Arc::strong_count(&case.turn) > 1);
            if inner.open.len() >= CASES_MAX && !inner.open.contains_key(&run) {
                return Err("the ambulance has too many cases open".to_owned());
            }
            let case = inner.open.entry(run).or_insert_with(|| Case {
                turn: Arc::default(),
                newest: watch::Sender::new(0),
            });
            case.newest.send_modify(|number| *number += 1);
            let number = *case.newest.borrow();
            (case.turn.clone(), case.newest.subscribe(), number)
        };
        Ok(Place {
            number,
            newest,
            _turn: turn.lock_owned().await,
        })
    }
}

impl Place {
    /// Ready when a later session of the case waits for the turn.
    pub(super) async fn taken(&mut self) {
        let number = self.number;
        // Without a sender, no other session can come.
        if self
            .newest
            .wait_for(|newest| *newest > number)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::SecretKey;

    use super::*;

    #[test]
    fn a_ticket_is_bound_to_the_first_node_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [1, 2].map(|seed| SecretKey::from_seed([seed; 32]).node_id());
        let door = Door::open(folder.path()).unwrap();
        door.bind(one).unwrap();
        door.bind(one).unwrap();
        let words = door.bind(other).unwrap_err();
        assert!(words.contains("was used by another ambulance"), "{words}");
        let door = Door::open(folder.path()).unwrap();
        door.bind(one).unwrap();
        assert!(door.bind(other).is_err());
        fs::write(folder.path().join(FILE), "x").unwrap();
        let words = Door::open(folder.path()).unwrap_err().to_string();
        assert!(words.contains("remove it"), "{words}");
    }

    #[tokio::test]
    async fn a_later_session_of_a_case_takes_the_turn() {
        let folder = tempfile::tempdir().unwrap();
        let door = Arc::new(Door::open(folder.path()).unwrap());
        let mut first = door.enter(1).await.unwrap();
        let _other_case = door.enter(2).await.unwrap();
        let later = tokio::spawn({
            let door = door.clone();
            async move { door.enter(1).await.map(drop) }
        });
        first.taken().await;
        assert!(!later.is_finished());
        drop(first);
        later.await.unwrap().unwrap();
        let _again = door.enter(1).await.unwrap();
        let open = door.inner.lock().unwrap().open.len();
        assert_eq!(open, 2);
    }
}
