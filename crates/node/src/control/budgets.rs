//! State of the budgets of places.

use anabranch_net::BudgetReport;
use anabranch_session::metering::{Cost, Date, Price, Unit};
use serde_json::{Value, json};

/// A row of `status`. `quota_left_bytes` are those at the price of now; null where all that follow have it.
pub(super) fn row(budget: &BudgetReport) -> Value {
    let meter = &budget.meter;
    let unit = match meter.model().unit() {
        Unit::Money => budget.currency.as_deref(),
        Unit::Energy => Some("J"),
    };
    let next = meter.next_price();
    let locals: Vec<String> = budget.locals.iter().map(ToString::to_string).collect();
    json!({
        "kind": "budget",
        "place": budget.place.to_string(),
        "locals": locals.join(","),
        "price": meter.model().to_string(),
        "unit": unit,
        "is_spent": budget.is_spent,
        "used_bytes": meter.used_bytes(),
        "paid": units(meter.paid()),
        "price_now_per_mb": next.map(|(price, _)| per_mb(price)),
        "quota_left_bytes": next.and_then(|(_, left)| left),
        "left_bytes": meter.left_bytes(),
        "cap_bytes": meter.model().cap_bytes(),
        "began": Date::from(meter.period()).to_string(),
        "renews": Date::from(budget.billing.next(meter.period())).to_string(),
    })
}

fn units(cost: Cost) -> f64 {
    cost.as_millionths() as f64 / 1e6
}

fn per_mb(price: Price) -> f64 {
    price.per_byte() * 1e6
}

#[cfg(test)]
mod tests {
    use anabranch_session::metering::{Billing, Meter};

    use super::*;

    fn shown(price: &str, used_bytes: u64) -> Value {
        let billing = Billing::default();
        row(&BudgetReport {
            place: "wwan0".parse().unwrap(),
            currency: Some("EUR".to_owned()),
            billing,
            meter: Meter::new(
                price.parse().unwrap(),
                billing.period(1_795_219_200),
                used_bytes,
            ),
            is_spent: false,
            locals: vec!["192.0.2.1:7".parse().unwrap()],
        })
    }

    #[test]
    fn what_is_left_and_until_when() {
        let row = shown("2 MB then 1 MB at 0.5/MB then stop", 2_400_000);
        for (name, value) in [
            ("locals", json!("192.0.2.1:7")),
            ("unit", json!("EUR")),
            ("used_bytes", json!(2_400_000)),
            ("paid", json!(0.2)),
            ("price_now_per_mb", json!(0.5)),
            ("quota_left_bytes", json!(600_000)),
            ("left_bytes", json!(600_000)),
            ("began", json!("2026-11-01")),
            ("renews", json!("2026-12-01")),
        ] {
            assert_eq!(row[name], value, "{name}");
        }
        let row = shown("0.5 J/MB", 2_000_000);
        assert_eq!((&row["unit"], &row["paid"]), (&json!("J"), &json!(1.0)));
        assert_eq!(
            (&row["left_bytes"], &row["quota_left_bytes"]),
            (&Value::Null, &Value::Null)
        );
        let row = shown("1 MB then stop", 1_000_000);
        assert_eq!(row["price_now_per_mb"], Value::Null);
    }
}
