//! Chances that an ADU is in time, as JSON.

use anabranch_session::Chances;
use serde::{Deserialize, Serialize};

/// An answer to [`super::Request::OnTime`]; empty while too little is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChancesBody {
    /// That it would arrive in time.
    pub probability: Option<f64>,
    /// That it would if none of its packets is lost; `None` of a node that does not know it apart, too.
    #[serde(default)]
    pub unless_lost: Option<f64>,
}

impl From<Option<Chances>> for ChancesBody {
    fn from(chances: Option<Chances>) -> Self {
        Self {
            probability: chances.map(|chances| chances.on_time),
            unless_lost: chances.map(|chances| chances.unless_lost),
        }
    }
}

impl From<ChancesBody> for Option<Chances> {
    fn from(body: ChancesBody) -> Self {
        let on_time = body.probability?;
        Some(Chances {
            on_time,
            unless_lost: body.unless_lost.unwrap_or(on_time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Chances> {
        serde_json::from_str::<ChancesBody>(text).unwrap().into()
    }

    #[test]
    fn chances_are_read_as_they_are_written_and_those_of_earlier_nodes_as_they_are_meant() {
        let chances = Chances {
            on_time: 0.75,
            unless_lost: 0.875,
        };
        for known in [None, Some(chances)] {
            let text = serde_json::to_string(&ChancesBody::from(known)).unwrap();
            assert_eq!(read(&text), known);
        }
        let earlier = read(r#"{"probability":0.75}"#).unwrap();
        assert_eq!((earlier.on_time, earlier.unless_lost), (0.75, 0.75));
        assert_eq!(read(r#"{"probability":null}"#), None);
    }
}
