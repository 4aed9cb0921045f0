//! WebAssembly modules of a service: those that its operator has chosen, and those that subscribers have brought.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use anabranch::base::NodeId;
use anabranch_process::{
    ModuleHash, Modules, Pipeline,
    memory::{Account, Charge},
    modules::MODULES_MAX,
};
use tokio::{task::spawn_blocking, time::Instant};

use super::{lock, refusal::Refusal};

/// Modules that a peer can bring, together.
const OF_PEER_MAX: usize = 8;
/// Time for which a module is kept that no subscription uses.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Memory that is charged for a module: code takes more than its binary form.
const BYTES_FOR_EACH: usize = 8;
const BYTES_AT_LEAST: usize = 64 << 10;

/// Modules of a service.
#[derive(Debug)]
pub(super) struct Library {
    modules: Modules,
    /// Those of the operator, which all may name.
    own: BTreeSet<ModuleHash>,
    brought: Mutex<BTreeMap<ModuleHash, Brought>>,
    /// Held by whoever translates one.
    turn: tokio::sync::Mutex<()>,
}

/// A module that subscribers have brought.
#[derive(Debug)]
struct Brought {
    bytes: usize,
    /// Those who may name it, and are charged for it.
    by: BTreeMap<NodeId, Charge>,
    /// Subscriptions that run it.
    uses: usize,
    /// Time of the last use.
    used: Instant,
}

/// Modules that a subscription runs, until this is dropped.
#[derive(Debug)]
pub(super) struct Uses {
    library: Arc<Library>,
    hashes: Vec<ModuleHash>,
}

impl Drop for Uses {
    fn drop(&mut self) {
        let mut brought = self.library.brought();
        for hash in &self.hashes {
            if let Some(module) = brought.get_mut(hash) {
                module.uses -= 1;
                module.used = Instant::now();
            }
        }
    }
}

impl Library {
    /// A library with the modules of the operator.
    pub(super) fn new(modules: Modules) -> Self {
        Self {
            own: modules.hashes().into_iter().collect(),
            modules,
            brought: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// All modules.
    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }

    fn brought(&self) -> MutexGuard<'_, BTreeMap<ModuleHash, Brought>> {
        lock(&self.brought)
    }

    /// The modules of a pipeline of this peer, in use from now on.
    ///
    /// # Errors
    /// The first one that it may not name.
    pub(super) fn used_by(
        self: &Arc<Self>,
        peer: NodeId,
        pipeline: &Pipeline,
    ) -> Result<Uses, ModuleHash> {
        let mut brought = self.brought();
        let mut hashes: Vec<_> = pipeline.modules().collect();
        hashes.retain(|hash| !self.own.contains(hash));
        hashes.sort();
        hashes.dedup();
        let may = |hash: &ModuleHash| {
            let module = brought.get(hash);
            module.is_some_and(|module| module.by.contains_key(&peer))
        };
        if let Some(missing) = hashes.iter().find(|hash| !may(hash)) {
            return Err(*missing);
        }
        for hash in &hashes {
            if let Some(module) = brought.get_mut(hash) {
                module.uses += 1;
            }
        }
        let library = self.clone();
        Ok(Uses { library, hashes })
    }

    /// True if a module is known, which this peer may name from now on; false if it has to send it.
    ///
    /// # Errors
    /// It has brought too many, or may not have more memory.
    pub(super) fn has(
        &self,
        (peer, account): (NodeId, &Account),
        hash: ModuleHash,
    ) -> Result<bool, Refusal> {
        if self.own.contains(&hash) {
            return Ok(true);
        }
        let mut brought = self.brought();
        let Some(module) = brought.get_mut(&hash) else {
            return Ok(false);
        };
        module.used = Instant::now();
        if module.by.contains_key(&peer) {
            return Ok(true);
        }
        let bytes = module.bytes;
        let charge = self.entry(&mut brought, peer, account, bytes)?;
        if let Some(module) = brought.get_mut(&hash) {
            module.by.insert(peer, charge);
        }
        Ok(true)
    }

    /// Takes a module that a peer has sent.
    ///
    /// # Errors
    /// As of [`Self::has`]; it is another module, or cannot be used.
    pub(super) async fn add(
        self: &Arc<Self>,
        (peer, account): (NodeId, &Account),
        hash: ModuleHash,
        module: bytes::Bytes,
    ) -> Result<(), Refusal> {
        // Translating takes time, of one processor at most.
        let _turn = self.turn.lock().await;
        if self.has((peer, account), hash)? {
            return Ok(());
        }
        let bytes = module.len();
        let charge = {
            let mut brought = self.brought();
            let charge = self.entry(&mut brought, peer, account, bytes)?;
            if self.modules.hashes().len() >= MODULES_MAX {
                self.forget(&mut brought, |_| true);
            }
            if self.modules.hashes().len() >= MODULES_MAX {
                return Err(Refusal::for_now(format!(
                    "{MODULES_MAX} modules are in use here, the most that there can be; try again later"
                )));
            }
            charge
        };
        let modules = self.modules.clone();
        let added = spawn_blocking(move || modules.add_received(&hash, &module)).await;
        added
            .expect("panics of the interpreter are contained")
            .map_err(|error| Refusal::lasting(error.to_string()))?;
        let module = Brought {
            bytes,
            by: BTreeMap::from([(peer, charge)]),
            uses: 0,
            used: Instant::now(),
        };
        self.brought().insert(hash, module);
        Ok(())
    }

    /// Room for one more module of a peer: one that it does not use makes way.
    fn entry(
        &self,
        brought: &mut BTreeMap<ModuleHash, Brought>,
        peer: NodeId,
        account: &Account,
        bytes: usize,
    ) -> Result<Charge, Refusal> {
        let is_its = |module: &Brought| module.by.contains_key(&peer);
        if brought.values().filter(|module| is_its(module)).count() >= OF_PEER_MAX {
            self.forget(brought, is_its);
        }
        if brought.values().filter(|module| is_its(module)).count() >= OF_PEER_MAX {
            return Err(Refusal::for_now(format!(
                "{OF_PEER_MAX} modules of this node are in use, the most that it can bring; end a subscription first"
            )));
        }
        let charge = account.charge((BYTES_FOR_EACH * bytes).max(BYTES_AT_LEAST));
        charge.ok_or_else(|| {
            Refusal::for_now("there is no memory for a module of this node now; end a slow subscription, or try again later".to_owned())
        })
    }

    /// Forgets the one that has not been used for the longest time, of those for which `may` is true.
    fn forget(&self, brought: &mut BTreeMap<ModuleHash, Brought>, may: impl Fn(&Brought) -> bool) {
        let idle = brought.iter();
        let idle = idle.filter(|(_, module)| module.uses == 0 && may(module));
        let oldest = idle.min_by_key(|(_, module)| module.used);
        if let Some(hash) = oldest.map(|(hash, _)| *hash) {
            brought.remove(&hash);
            self.modules.remove(&hash);
        }
    }

    /// Forgets those that nobody has used for a while.
    pub(super) fn tidy(&self) {
        let mut brought = self.brought();
        brought.retain(|hash, module| {
            let is_kept = module.uses > 0 || module.used.elapsed() < IDLE_TIME;
            if !is_kept {
                self.modules.remove(hash);
            }
            is_kept
        });
    }
}

#[cfg(feature = "wasm")]
#[cfg(test)]
mod tests {
    use anabranch::SecretKey;
    use anabranch_process::memory::Memory;

    use super::*;

    /// A module that differs from others by its number.
    fn module(number: usize) -> (ModuleHash, bytes::Bytes) {
        let bytes = wat::parse_str(format!(
            r#"(module (memory (export "memory") 1) (func (export "process") (result i32) (i32.const {number})))"#
        ));
        let bytes = bytes.unwrap();
        (ModuleHash(*blake3::hash(&bytes).as_bytes()), bytes.into())
    }

    fn pipeline(hash: ModuleHash) -> Pipeline {
        format!("wasm {hash}").parse().unwrap()
    }

    fn node(seed: u8) -> NodeId {
        SecretKey::from_seed([seed; 32]).node_id()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_modules_make_way_and_those_in_use_do_not() {
        let own = Modules::default();
        let (chosen, bytes) = module(1_000);
        own.add(&bytes).unwrap();
        let library = Arc::new(Library::new(own));
        let memory = Memory::new(64 << 20);
        let account = memory.account();
        let peer = (node(1), &account);
        let mut uses = vec![library.used_by(node(9), &pipeline(chosen)).unwrap()];
        for number in 0..OF_PEER_MAX {
            let (hash, bytes) = module(number);
            assert_eq!(library.has(peer, hash), Ok(false));
            library.add(peer, hash, bytes).await.unwrap();
            assert_eq!(library.has(peer, hash), Ok(true));
            if number != 3 {
                uses.push(library.used_by(node(1), &pipeline(hash)).unwrap());
            }
        }
        // Of another peer, which has not brought it.
        let (first, _) = module(0);
        assert_eq!(
            library.used_by(node(2), &pipeline(first)).unwrap_err(),
            first
        );
        let (next, bytes) = module(100);
        library.add(peer, next, bytes).await.unwrap();
        assert_eq!(library.has(peer, module(3).0), Ok(false));
        uses.push(library.used_by(node(1), &pipeline(next)).unwrap());
        let (more, bytes) = module(101);
        let refusal = library.add(peer, more, bytes).await.unwrap_err();
        assert!(
            refusal.may_retry && refusal.why.contains("8 modules"),
            "{}",
            refusal.why
        );

        // What is used stays, and what is idle goes after a while; nothing is charged any more.
        tokio::time::advance(2 * IDLE_TIME).await;
        library.tidy();
        assert!(library.modules().contains(&first));
        drop(uses);
        library.tidy();
        assert!(library.modules().contains(&first));
        tokio::time::advance(2 * IDLE_TIME).await;
        library.tidy();
        assert_eq!(library.modules().hashes(), [chosen]);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_module_is_charged_to_all_who_brought_it_and_refused_without_memory() {
        let library = Arc::new(Library::new(Modules::default()));
        let memory = Memory::new(4 * BYTES_AT_LEAST);
        let [one, other, third] = [(); 3].map(|()| memory.account());
        let (hash, bytes) = module(1);
        library.add((node(1), &one), hash, bytes).await.unwrap();
        assert_eq!(library.has((node(2), &other), hash), Ok(true));
        assert_eq!((one.used(), other.used()), (BYTES_AT_LEAST, BYTES_AT_LEAST));
        let rest = third.charge_anyway(BYTES_AT_LEAST);
        let refusal = library.has((node(3), &third), hash).unwrap_err();
        assert!(
            refusal.may_retry && refusal.why.contains("memory"),
            "{}",
            refusal.why
        );
        drop(rest);
        let (wrong, _) = module(2);
        let (_, bytes) = module(3);
        let refusal = library
            .add((node(4), &memory.account()), wrong, bytes)
            .await
            .unwrap_err();
        assert!(refusal.why.contains("another hash"), "{}", refusal.why);
        assert!(!library.modules().contains(&wrong));
    }
}
