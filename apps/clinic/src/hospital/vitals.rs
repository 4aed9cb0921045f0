//! Numbers of each second, as lines of a table.

use anabranch::AduStream;
use tokio::{fs::OpenOptions, io::AsyncWriteExt as _};

use super::{
    Report,
    case::{Case, next},
    live::Vital,
};
use crate::{
    error::ClinicError,
    wire::{Request, WireError, decode},
};

/// Receives numbers until the ambulance has sent them.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let path = case.folder.join("vitals.csv");
    let failed = |why| ClinicError::file(&path, why);
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .await;
    let mut file = file.map_err(failed)?;
    if file.metadata().await.map_err(failed)?.len() == 0 {
        let head = b"second,age_ms,heart_rate_per_minute\n";
        file.write_all(head).await.map_err(failed)?;
    }
    let mut last = None;
    while let Some(adu) = next(stream).await? {
        match decode(&adu.data)? {
            Request::Vitals { origin } => case.live().origin(case.number, &origin),
            Request::Vital {
                number,
                at_us,
                heart_rate,
            } if last.is_none_or(|last| number > last) => {
                last = Some(number);
                let heart_rate = heart_rate.filter(|rate| rate.is_finite());
                let age = case.age(at_us).map(|age| age.age.as_millis().to_string());
                let rate = heart_rate.map(|rate| format!("{rate:.1}"));
                let line = format!(
                    "{number},{},{}\n",
                    age.unwrap_or_default(),
                    rate.unwrap_or_default()
                );
                file.write_all(line.as_bytes()).await.map_err(failed)?;
                file.flush().await.map_err(failed)?;
                case.live().vital(
                    case.number,
                    Vital {
                        number,
                        heart_rate,
                        dated: case.dated(at_us),
                    },
                );
                case.report(Report::Vital { number, heart_rate });
            }
            Request::Vital { .. } => {}
            _ => return Err(WireError("another message among numbers".to_owned()).into()),
        }
    }
    Ok(())
}
