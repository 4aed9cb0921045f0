//! Functions that a module can import, from the module named [`NAMESPACE`], whose number is the interface's version.

use anabranch_base::text::printable;
use wasmi::{
    Caller, Engine, Error, Extern, FuncType, Linker, Memory,
    ValType::{self, F64, I32, I64},
};

use super::{REASON_CHARS, instance::World};
use crate::adu::{Adu, FIELD_BYTES_MAX, Value};
use bytes::Bytes;

/// Module that the functions are imported from; another version has another name.
pub(super) const NAMESPACE: &str = "anabranch1";

/// Fuel that a call takes, beside one for each [`BYTES_PER_FUEL`] bytes that it copies.
const FUEL_OF_CALL: u64 = 64;
const BYTES_PER_FUEL: u64 = 8;

pub(super) fn linker(engine: &Engine) -> Result<Linker<World>, Error> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap(NAMESPACE, "sequence", |caller: Caller<'_, World>| {
            caller.data().adu.sequence as i64
        })?
        .func_wrap(NAMESPACE, "length", |caller: Caller<'_, World>| {
            caller.data().adu.body.len() as i32
        })?
        .func_wrap(
            NAMESPACE,
            "read",
            |mut caller: Caller<'_, World>, to: u32, from: u32, length: u32| {
                let body = caller.data().adu.body.clone();
                copy_out(&mut caller, &body, to, from, length)
            },
        )?
        .func_wrap(
            NAMESPACE,
            "parameters_length",
            |caller: Caller<'_, World>| caller.data().parameters.len() as i32,
        )?
        .func_wrap(
            NAMESPACE,
            "parameters_read",
            |mut caller: Caller<'_, World>, to: u32, from: u32, length: u32| {
                let parameters = Bytes::from(caller.data().parameters.clone());
                copy_out(&mut caller, &parameters, to, from, length)
            },
        )?
        .func_wrap(NAMESPACE, "number", number)?
        .func_wrap(NAMESPACE, "text", text)?
        .func_wrap(
            NAMESPACE,
            "set_number",
            |mut caller: Caller<'_, World>, name: u32, name_length: u32, value: f64| {
                set(&mut caller, name, name_length, Value::Number(value))
            },
        )?
        .func_wrap(
            NAMESPACE,
            "set_text",
            |mut caller: Caller<'_, World>,
             name: u32,
             name_length: u32,
             text: u32,
             text_length: u32| {
                let text = string(&mut caller, text, text_length)?;
                set(&mut caller, name, name_length, Value::Text(text.into()))
            },
        )?
        .func_wrap(NAMESPACE, "emit", emit)?
        .func_wrap(
            NAMESPACE,
            "fail",
            |mut caller: Caller<'_, World>, text: u32, length: u32| {
                let text = string(&mut caller, text, length)?;
                Err::<(), _>(Error::new(printable(&text, REASON_CHARS)))
            },
        )?;
    Ok(linker)
}

/// Names and types of the functions: parameters, and the result.
const FUNCTIONS: [(&str, &[ValType], Option<ValType>); 11] = [
    ("sequence", &[], Some(I64)),
    ("length", &[], Some(I32)),
    ("read", &[I32, I32, I32], Some(I32)),
    ("parameters_length", &[], Some(I32)),
    ("parameters_read", &[I32, I32, I32], Some(I32)),
    ("number", &[I32, I32], Some(F64)),
    ("text", &[I32, I32, I32, I32], Some(I32)),
    ("set_number", &[I32, I32, F64], None),
    ("set_text", &[I32, I32, I32, I32], None),
    ("emit", &[I32, I32], None),
    ("fail", &[I32, I32], None),
];

/// True if the interface has the function with this type.
pub(super) fn offers(namespace: &str, name: &str, function: &FuncType) -> bool {
    namespace == NAMESPACE
        && FUNCTIONS.iter().any(|(known, parameters, result)| {
            *known == name
                && function.params() == *parameters
                && function.results() == result.as_slice()
        })
}

fn memory(caller: &Caller<'_, World>) -> Result<Memory, Error> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| Error::new("it has no memory"))
}

/// Takes the fuel of a call that copies so many bytes.
fn charge(caller: &mut Caller<'_, World>, bytes: u32) -> Result<(), Error> {
    let left = caller.get_fuel()?;
    let price = FUEL_OF_CALL + u64::from(bytes) / BYTES_PER_FUEL;
    caller.set_fuel(left.saturating_sub(price))?;
    if left < price {
        return Err(Error::from(wasmi::TrapCode::OutOfFuel));
    }
    Ok(())
}

fn outside(at: u32, length: u32) -> Error {
    Error::new(format!("{length} bytes at {at} are not in its memory"))
}

/// Bytes of the module's memory.
fn slice<'c>(caller: &'c mut Caller<'_, World>, at: u32, length: u32) -> Result<&'c [u8], Error> {
    charge(caller, length)?;
    let memory = memory(caller)?;
    let end = (at as usize).checked_add(length as usize);
    let bytes = end.and_then(|end| memory.data(&*caller).get(at as usize..end));
    bytes.ok_or_else(|| outside(at, length))
}

/// A text of the module's memory, at most [`FIELD_BYTES_MAX`] long.
fn string(caller: &mut Caller<'_, World>, at: u32, length: u32) -> Result<String, Error> {
    if length as usize > FIELD_BYTES_MAX {
        return Err(Error::new(format!(
            "a name or text has at most {FIELD_BYTES_MAX} bytes, not {length}"
        )));
    }
    let bytes = slice(caller, at, length)?;
    let text = std::str::from_utf8(bytes);
    Ok(text
        .map_err(|_| Error::new("a name or text is not UTF-8"))?
        .to_owned())
}

fn write(caller: &mut Caller<'_, World>, to: u32, bytes: &[u8]) -> Result<(), Error> {
    let length = bytes.len() as u32;
    charge(caller, length)?;
    let memory = memory(caller)?;
    let written = memory.write(&mut *caller, to as usize, bytes);
    written.map_err(|_| outside(to, length))
}

/// Copies a part of `source`; returns the number of bytes, fewer at its end.
fn copy_out(
    caller: &mut Caller<'_, World>,
    source: &[u8],
    to: u32,
    from: u32,
    length: u32,
) -> Result<u32, Error> {
    let from = (from as usize).min(source.len());
    let end = from.saturating_add(length as usize).min(source.len());
    write(caller, to, &source[from..end])?;
    Ok((end - from) as u32)
}

fn number(mut caller: Caller<'_, World>, name: u32, name_length: u32) -> Result<f64, Error> {
    let name = string(&mut caller, name, name_length)?;
    Ok(match caller.data().adu.fields.get(&name) {
        Some(Value::Number(number)) => *number,
        Some(Value::Boolean(boolean)) => f64::from(u8::from(*boolean)),
        _ => f64::NAN,
    })
}

fn text(
    mut caller: Caller<'_, World>,
    name: u32,
    name_length: u32,
    to: u32,
    capacity: u32,
) -> Result<i32, Error> {
    let name = string(&mut caller, name, name_length)?;
    let Some(text) = caller.data().adu.fields.text(&name).map(str::to_owned) else {
        return Ok(-1);
    };
    let written = text.len().min(capacity as usize);
    write(&mut caller, to, &text.as_bytes()[..written])?;
    Ok(text.len() as i32)
}

fn set(
    caller: &mut Caller<'_, World>,
    name: u32,
    name_length: u32,
    value: Value,
) -> Result<(), Error> {
    let name = string(caller, name, name_length)?;
    let set = caller.data_mut().fields.set(&name, value);
    set.map_err(|error| Error::new(error.to_string()))
}

fn emit(mut caller: Caller<'_, World>, at: u32, length: u32) -> Result<(), Error> {
    let body = Bytes::copy_from_slice(slice(&mut caller, at, length)?);
    let world = caller.data_mut();
    let fields = std::mem::replace(&mut world.fields, world.adu.fields.clone());
    let adu = Adu {
        sequence: world.adu.sequence,
        fields,
        body,
        made: world.adu.made,
        needs_previous: false,
    };
    world.output.push(adu).map_err(|fault| Error::new(fault.0))
}
