//! `anabranch hose check`: errors and contents of files of objectives.

use anabranch_hose::{
    Diagnostic, Objective, Program, RateDemand, RateObjective, Report, Severity, Shape,
    StreamSelector, Vocabulary, compile,
    provided::{Provided, unprovided},
};
use serde_json::{Value, json};

use super::{against, name, read};
use crate::{
    control::Node,
    exit::{Failure, Outcome, print_error, print_line},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A name that nothing provides is a warning: the objective is valid, but matches nothing. A configuration provides the technologies and \
attributes of its [[interface]] sections, the labels and fields of its [[stream]] sections, the labels of services in rights, and that of \
forwards. A session provides the labels of its open streams, the fields that messages were given, and what is known of its channels.

Exit codes: 0, possibly with warnings; 2 for errors, and for warnings with --deny-warnings; 3 if no node answers; 6 if a file cannot be \
read.")]
pub(crate) struct Arguments {
    /// Files of objectives; `-` for standard input. Each file is checked independently.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Print one JSON object for each file.
    #[arg(long)]
    json: bool,
    /// Warn of labels, fields, technologies and attributes that nothing provides: neither this node configuration, nor this session
    /// of a running node, such as session-0. May be repeated; a name is provided if any of them provides it.
    #[arg(long, value_name = "CONFIG|SESSION")]
    against: Vec<String>,
    /// Treat warnings as errors.
    #[arg(long)]
    deny_warnings: bool,
    #[command(flatten)]
    node: Node,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let provided = match arguments.against.as_slice() {
        [] => None,
        sources => Some(against::provided(sources, &arguments.node).await?),
    };
    let (mut errors, mut warnings) = (0, 0);
    for file in &arguments.files {
        let text = read(file)?;
        let mut vocabulary = Vocabulary::default();
        let compiled = compile(&text, &mut vocabulary);
        let (report, program) = match compiled {
            Ok(compiled) => {
                let report = with_unprovided(
                    compiled.warnings,
                    &compiled.program,
                    &vocabulary,
                    provided.as_ref(),
                );
                (report, Some(compiled.program))
            }
            Err(report) => (report, None),
        };
        let program = program.as_ref();
        errors += report.errors();
        warnings += report.warnings();
        if arguments.json {
            print_line(&as_json(file, &report, program, &vocabulary).to_string())?;
        } else {
            print_error(&report.render(name(file)));
            if let Some(program) = program {
                print_line(&summary(name(file), program))?;
            }
        }
    }
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what} in the objectives"),
        _ => format!("{number} {what}s in the objectives"),
    };
    if errors > 0 {
        return Err(Failure::usage(count(errors, "error")));
    }
    if warnings > 0 && arguments.deny_warnings {
        return Err(Failure::usage(count(warnings, "warning")));
    }
    Ok(())
}

/// The report, with names that nothing provides.
fn with_unprovided(
    report: Report,
    program: &Program,
    vocabulary: &Vocabulary,
    provided: Option<&Provided>,
) -> Report {
    match provided {
        None => report,
        Some(provided) => report.with(unprovided(program, vocabulary, provided)),
    }
}

fn summary(file: &str, program: &Program) -> String {
    let count = |shape| {
        let of = |objective: &&Objective| objective.shape() == shape;
        program.objectives.iter().filter(of).count()
    };
    format!(
        "{file}: OK: {} single-message objectives, {} over several messages, {} over streams; {} rates",
        count(Shape::Single),
        count(Shape::Combinatorial),
        count(Shape::Streams),
        program.rates.len()
    )
}

fn as_json(
    file: &str,
    report: &Report,
    program: Option<&Program>,
    vocabulary: &Vocabulary,
) -> Value {
    let diagnostics = report.diagnostics().iter();
    let fields = vocabulary.fields().iter().map(|field| {
        json!({ "name": field.name, "of_channel": field.of_channel, "type": field.value.name() })
    });
    let objectives = program.iter().flat_map(|program| &program.objectives);
    let rates = program.iter().flat_map(|program| &program.rates);
    json!({
        "file": file,
        "is_sound": program.is_some(),
        "errors": report.errors(),
        "warnings": report.warnings(),
        "diagnostics": diagnostics.map(|one| diagnostic(report, one)).collect::<Vec<_>>(),
        "objectives": objectives.map(objective).collect::<Vec<_>>(),
        "rates": rates.map(rate).collect::<Vec<_>>(),
        "fields": fields.collect::<Vec<_>>(),
    })
}

fn diagnostic(report: &Report, diagnostic: &Diagnostic) -> Value {
    let position = report.position(diagnostic);
    json!({
        "severity": match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "line": position.line,
        "column": position.column,
        "start_byte": diagnostic.span.start,
        "end_byte": diagnostic.span.end,
        "message": diagnostic.message,
        "help": diagnostic.help,
    })
}

fn objective(objective: &Objective) -> Value {
    let variables = objective.variables().iter().map(|variable| {
        let streams = variable.streams();
        json!({
            "name": variable.name,
            "kind": variable.kind().word(),
            "label": variable.label(),
            "streams": streams.map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>()),
        })
    });
    json!({
        "name": objective.name(),
        "line": objective.span().position(objective.text()).line,
        "shape": match objective.shape() {
            Shape::Streams => "streams",
            Shape::Single => "single",
            Shape::Combinatorial => "combinatorial",
        },
        "variables": variables.collect::<Vec<_>>(),
    })
}

fn rate(rate: &RateObjective) -> Value {
    let mut row = json!({
        "name": rate.name,
        "stream": match &rate.stream {
            StreamSelector::Id(id) => Some(id.0),
            StreamSelector::Label(_) => None,
        },
        "label": match &rate.stream {
            StreamSelector::Id(_) => None,
            StreamSelector::Label(label) => Some(&**label),
        },
        "rate_bps": rate.rate.as_bps(),
        "window_ms": rate.window.as_secs_f64() * 1e3,
    });
    match rate.demand {
        RateDemand::Probability(probability) => row["probability"] = json!(probability),
        RateDemand::Late {
            packets,
            packet_bytes,
        } => {
            row["late_packets"] = json!(packets);
            row["packet_bytes"] = json!(packet_bytes);
        }
    }
    row
}
