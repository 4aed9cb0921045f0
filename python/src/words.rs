//! Specifications of streams and guarantees, as the package writes them: the keys of a node's files (`anabranch::spec`), as JSON.

use anabranch::{
    Guarantee, StreamSpec,
    spec::{GuaranteeText, SpecText},
};

use crate::failure::Failed;

fn refused(error: impl ToString) -> Failed {
    Failed::new("SpecError", error.to_string())
}

/// A stream's specification.
pub(crate) fn spec(json: &str) -> Result<StreamSpec, Failed> {
    let text: SpecText = serde_json::from_str(json).map_err(refused)?;
    text.resolve().map_err(refused)
}

/// A guarantee; `null`: none.
pub(crate) fn guarantee(json: &str) -> Result<Option<Guarantee>, Failed> {
    let text: Option<GuaranteeText> = serde_json::from_str(json).map_err(refused)?;
    let resolve = |text: GuaranteeText| text.resolve(|key| format!("guarantee.{key}"));
    text.map(resolve).transpose().map_err(refused)
}
