//! Step of a pipeline: an operator's name and parameters, and its text form.

use std::{fmt, num::NonZeroU32, str::FromStr};

use crate::{
    array::Element,
    operators::{filter::Predicate, region::Shape},
};

/// BLAKE3 hash of a WebAssembly module. Its text is 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleHash(pub [u8; 32]);

impl fmt::Display for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.iter();
        bytes.try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Error of a text that is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a module's hash has 64 hexadecimal digits")]
pub struct HashError;

impl FromStr for ModuleHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(HashError);
        }
        let mut hash = Self::default();
        for (byte, at) in hash.0.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| HashError)?;
        }
        Ok(hash)
    }
}

/// An operator with its parameters. Two equal steps compute the same.
///
/// Its [`Display`](fmt::Display) is the text that [`Pipeline`](crate::Pipeline) parses to an equal step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// `where PREDICATE`: ADUs for which a predicate of HOSE is true.
    Where(Predicate),
    /// `every K`: the first ADU, and each K-th after it.
    Every(NonZeroU32),
    /// `drop layer N`: leaves out ADUs whose field `layer` is N or above. ADUs without the field pass.
    DropLayer(NonZeroU32),
    /// `select NAME, NAME …`: ADUs whose field `component` is one of the names.
    Select(Vec<String>),
    /// `region box X Y Z X Y Z of ELEMENT` or `region sphere X Y Z R of ELEMENT`, optionally `with indices`: positions
    /// within the shape. The body is an array of triples.
    Region {
        /// The shape, its border included.
        shape: Shape,
        /// Element of the array.
        element: Element,
        /// True if the body ends with the indices of the positions that were kept, 32 bits each in the array's byte order.
        with_indices: bool,
    },
    /// `precision BITS of ELEMENT`: numbers rounded to so many bits of their significand.
    Precision {
        /// Bits kept, without the leading one: 1 to [`Element::mantissa_bits`].
        bits: u32,
        /// Element of the array.
        element: Element,
    },
    /// `delta [of ELEMENT] [whole K]`: differences to the array before, without loss.
    Delta {
        /// Element of the array; `f32` if the text names none.
        element: Element,
        /// Every K-th array is sent whole; `None`: only the first, after a change of length, and when a receiver needs it.
        whole: Option<NonZeroU32>,
    },
    /// `wasm HASH ["PARAMETERS"]`: a WebAssembly module (feature `wasm`).
    Wasm {
        /// The module.
        hash: ModuleHash,
        /// Text that the module can read.
        parameters: String,
    },
    /// `panic K`: passes ADUs, and panics at each whose number is a multiple of K (feature `faults`).
    #[cfg(feature = "faults")]
    Panic(NonZeroU32),
}

impl Step {
    /// Names of all operators.
    pub const NAMES: [&str; 8] = [
        "where",
        "every",
        "drop",
        "select",
        "region",
        "precision",
        "delta",
        "wasm",
    ];

    /// Name of the operator.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Where(_) => "where",
            Self::Every(_) => "every",
            Self::DropLayer(_) => "drop",
            Self::Select(_) => "select",
            Self::Region { .. } => "region",
            Self::Precision { .. } => "precision",
            Self::Delta { .. } => "delta",
            Self::Wasm { .. } => "wasm",
            #[cfg(feature = "faults")]
            Self::Panic(_) => "panic",
        }
    }
}

/// True if a name need not be quoted.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    !name.is_empty() && name != "then" && name.bytes().all(is_plain)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Where(predicate) => write!(f, " {predicate}"),
            Self::Every(count) => write!(f, " {count}"),
            #[cfg(feature = "faults")]
            Self::Panic(count) => write!(f, " {count}"),
            Self::DropLayer(layer) => write!(f, " layer {layer}"),
            Self::Select(names) => {
                for (index, name) in names.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    // Between other signs than letters and digits, "then" would end the step.
                    let is_bare = is_plain(name) && !name.contains("then");
                    let quote = if is_bare { "" } else { "\"" };
                    write!(f, "{comma} {quote}{name}{quote}")?;
                }
                Ok(())
            }
            Self::Region {
                shape,
                element,
                with_indices,
            } => {
                let indices = if *with_indices { " with indices" } else { "" };
                write!(f, " {shape} of {element}{indices}")
            }
            Self::Precision { bits, element } => write!(f, " {bits} of {element}"),
            Self::Delta { element, whole } => {
                if *element != Element::F32 {
                    write!(f, " of {element}")?;
                }
                whole.map_or(Ok(()), |count| write!(f, " whole {count}"))
            }
            Self::Wasm { hash, parameters } => {
                write!(f, " {hash}")?;
                if parameters.is_empty() {
                    return Ok(());
                }
                write!(f, " \"{parameters}\"")
            }
        }
    }
}
