//! Instance of a module: its memory, the ADU that it processes, and its bounds.

use std::fmt;

use anabranch_base::text::printable;
use wasmi::{Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TrapCode, TypedFunc};

use super::{REASON_CHARS, interface};
use crate::{
    adu::{Adu, Fields},
    operator::{Fault, Limits, Operator, Output, WORK_OF_ADU},
};

/// Elements of an instance's tables.
const TABLE_ELEMENTS_MAX: usize = 10_000;

/// The world of an instance.
pub(super) struct World {
    pub(super) store_limits: StoreLimits,
    pub(super) parameters: String,
    /// The ADU that is processed; one without anything at the beginning.
    pub(super) adu: Adu,
    /// Fields of the next ADU that is emitted.
    pub(super) fields: Fields,
    pub(super) output: Output,
}

/// A module at work.
pub(super) struct Instance {
    store: Store<World>,
    process: TypedFunc<(), i32>,
    memory: Option<Memory>,
    limits: Limits,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}

impl Instance {
    /// Begins: makes the instance and calls its function `begin`, if it has one, with so much `fuel`; what is left of it stays there.
    pub(super) fn begin(
        module: &Module,
        parameters: &str,
        limits: Limits,
        fuel: &mut u64,
    ) -> Result<Self, Fault> {
        let engine = module.engine();
        let store_limits = StoreLimitsBuilder::new()
            .memory_size(limits.memory)
            .memories(1)
            .table_elements(TABLE_ELEMENTS_MAX)
            .tables(4)
            .instances(1)
            .build();
        let world = World {
            store_limits,
            parameters: parameters.to_owned(),
            output: Output::new(limits, 0),
            adu: Adu::default(),
            fields: Fields::default(),
        };
        let mut store = Store::new(engine, world);
        store.limiter(|world| &mut world.store_limits);
        let explain = |error: wasmi::Error| explain(&error, limits);
        store.set_fuel(*fuel).map_err(explain)?;
        let linker = interface::linker(engine).map_err(explain)?;
        let begun = begun(&mut store, module, &linker);
        *fuel = store.get_fuel().unwrap_or(0);
        let (instance, process) = begun.map_err(explain)?;
        store.data_mut().output.take();
        let memory = instance.get_memory(&store, "memory");
        Ok(Self {
            store,
            process,
            memory,
            limits,
        })
    }
}

/// The instance, after its function `begin`, and its function `process`.
fn begun(
    store: &mut Store<World>,
    module: &Module,
    linker: &Linker<World>,
) -> Result<(wasmi::Instance, TypedFunc<(), i32>), wasmi::Error> {
    let instance = linker.instantiate_and_start(&mut *store, module)?;
    let process = instance.get_typed_func(&*store, "process")?;
    if let Ok(begin) = instance.get_typed_func::<(), ()>(&*store, "begin") {
        begin.call(store, ())?;
    }
    Ok((instance, process))
}

impl Operator for Instance {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        let explain = |error: wasmi::Error| explain(&error, self.limits);
        let fuel = output.fuel();
        self.store.set_fuel(fuel).map_err(explain)?;
        let world = self.store.data_mut();
        world.fields = adu.fields.clone();
        world.adu = adu;
        world.output = Output::new(self.limits, 0);
        let result = self.process.call(&mut self.store, ());
        let left = self.store.get_fuel().unwrap_or(0);
        output.add_work(WORK_OF_ADU);
        output.burn(fuel.saturating_sub(left));
        let world = self.store.data_mut();
        world.adu = Adu::default();
        match result.map_err(explain)? {
            0 => world
                .output
                .take()
                .into_iter()
                .try_for_each(|adu| output.push(adu)),
            code => Err(Fault(format!(
                "the module returned {code}, its own sign of an error"
            ))),
        }
    }

    fn held_bytes(&self) -> usize {
        self.memory
            .map_or(0, |memory| memory.data_size(&self.store))
    }
}

/// An error of the interpreter as a fault.
fn explain(error: &wasmi::Error, limits: Limits) -> Fault {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Fault(format!(
            "the modules of the pipeline took more than {} units of fuel for an ADU of the source; one may be in an endless loop, or the limit is too low",
            limits.fuel
        )),
        Some(TrapCode::StackOverflow) => Fault(
            "the module's calls are nested too deeply; it may call itself endlessly".to_owned(),
        ),
        Some(code) => Fault(format!("the module trapped: {code}")),
        None => Fault(format!(
            "the module failed: {}",
            printable(&error.to_string(), REASON_CHARS)
        )),
    }
}
