//! `anabranch hose list` and `anabranch hose show`: the library of named objectives.

use anabranch_hose::{
    Vocabulary,
    library::{self, NAMED, Named, Parameter},
};
use serde_json::{Value, json};

use crate::{
    exit::{Failure, Outcome, print_error, print_line},
    table,
};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Print one JSON object for each.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The text can be saved, changed and used as a file of objectives. Exit code 2 if there is no such objective, or a parameter is not \
accepted.")]
pub(crate) struct Show {
    /// Name, such as low_latency; with parameters, such as 'low_latency(voice, 150)', the text has these in place of $label and the like.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(crate) fn list(arguments: &List) -> Outcome {
    if arguments.json {
        return NAMED
            .iter()
            .try_for_each(|one| print_line(&as_json(one).to_string()));
    }
    let head = ["name", "purpose"].map(str::to_owned).to_vec();
    let rows = NAMED
        .iter()
        .map(|one| vec![one.usage(), one.summary.to_owned()]);
    let cells: Vec<_> = std::iter::once(head).chain(rows).collect();
    table::headed(&cells)
        .iter()
        .try_for_each(|line| print_line(line))
}

fn as_json(named: &Named) -> Value {
    let parameter = |one: &Parameter| json!({ "name": one.name, "accepts": one.accepts(), "optional": one.is_optional() });
    json!({
        "name": named.name,
        "purpose": named.summary,
        "parameters": named.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "text": named.text,
    })
}

pub(crate) fn show(arguments: &Show) -> Outcome {
    let name = arguments.name.trim();
    if !library::is_named(name) {
        let help = "write a name such as low_latency; 'anabranch hose list' prints all";
        return Err(Failure::usage(format!(
            "'{name}' is no name of an objective; {help}"
        )));
    }
    let is_alone = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_alone {
        let named = library::named(name).map_err(Failure::usage)?;
        for parameter in named.parameters {
            print_line(&format!("// ${}: {}", parameter.name, parameter.accepts()))?;
        }
        return print_text(named.text);
    }
    match library::expand(name, &Vocabulary::default()) {
        Ok(text) => print_text(&text),
        Err(report) => {
            print_error(&report.render(name));
            Err(Failure::usage("there is nothing to show"))
        }
    }
}

fn print_text(text: &str) -> Outcome {
    print_line(text.trim_end_matches('\n'))
}
