//! `anabranch config show`.

use std::path::PathBuf;

use anabranch::{
    config::ShownSetting,
    control::{Request, setting_rows},
};
use serde_json::{Value, json};

use crate::{
    control,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file, with the environment of this command over it [default: the running node is asked; if none runs, the
    /// file that it would have].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    asking: control::Asking,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let answer = match &arguments.file {
        Some(file) => of_file(file)?,
        None => match arguments.asking.ask(&Request::Config {}).await {
            Ok(answer) => answer,
            Err(failure) => match super::usual_file() {
                Some(file) if failure.code() == Failure::unreachable("").code() => of_file(&file)?,
                _ => return Err(failure),
            },
        },
    };
    if arguments.asking.json {
        return print_line(&answer.to_string());
    }
    let rows = control::rows(&answer);
    let head = match rows.iter().find_map(|row| row["file"].as_str()) {
        Some(file) => format!("# {file}, with the source of each value"),
        None => "# no file; the source of each value".to_owned(),
    };
    print_line(&head)?;
    print_line(ShownSetting::to_toml(rows.iter().map(shown)).trim_end())
}

fn of_file(file: &std::path::Path) -> Result<Value, Failure> {
    let config = super::read(file)?;
    Ok(json!({ "show": "config", "rows": setting_rows(&config.settings) }))
}

fn shown(row: &Value) -> ShownSetting {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    ShownSetting {
        table: text("table"),
        entry: row["entry"].as_u64(),
        key: text("name"),
        value: text("value"),
        from: text("from"),
    }
}
