//! Calendar of billing periods: months, from a day on.
//!
//! Days are those of the Gregorian calendar, counted from 1970-01-01 [Hinnant, chrono-compatible low-level date
//! algorithms: `days_from_civil`, `civil_from_days`].

use std::{fmt, str::FromStr};

use super::Period;

const DAY_S: i64 = 86_400;
/// The zones there are lie between these.
const ZONE_MINUTES_MAX: i32 = 14 * 60;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Such as 2026; from 1970.
    year: i64,
    /// 1 to 12.
    month: u8,
    /// 1 to 31.
    day: u8,
}

/// A text is not a day such as `2026-11-01`, from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a day such as \"2026-11-01\"")]
pub struct ParseDateError;

/// Hours and minutes by which local time is ahead of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    minutes: i32,
}

/// A text is not a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write \"UTC\", or what local time is ahead of it, such as \"+01:00\" or \"-08:00\"")]
pub struct ParseZoneError;

/// The last second of the year 9999, in seconds since 1970 (UTC).
const UNIX_MAX_S: i64 = 253_402_300_799;

/// Billing periods of a month. Period numbers are the first day of the period, in days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Billing {
    day: u8,
    zone: Zone,
}

impl Default for Billing {
    /// From the first of each month, in UTC.
    fn default() -> Self {
        Self {
            day: 1,
            zone: Zone::default(),
        }
    }
}

impl Billing {
    /// Periods begin at midnight of this day of each month, of the month's last day where it has fewer; `None`: the
    /// day is not from 1 to 31.
    pub fn monthly(day: u8, zone: Zone) -> Option<Self> {
        (1..=31).contains(&day).then_some(Self { day, zone })
    }

    /// The day of the month.
    pub fn day(self) -> u8 {
        self.day
    }

    /// The period at a moment, in seconds since 1970 (UTC). Moments after the year 9999 count as its end.
    pub fn period(self, unix_s: u64) -> Period {
        let unix_s = i64::try_from(unix_s).unwrap_or(UNIX_MAX_S).min(UNIX_MAX_S);
        let local = unix_s + i64::from(self.zone.minutes) * 60;
        let today = Date::of_days(local.div_euclid(DAY_S));
        let this = self.start(today.year, today.month);
        let start = if this <= today {
            this
        } else {
            let (year, month) = before(today.year, today.month);
            self.start(year, month)
        };
        start.period()
    }

    /// The period after one that began in `period`'s month.
    pub fn next(self, period: Period) -> Period {
        let began = Date::from(period);
        // After another day was configured, the next may begin in the same month.
        let this = self.start(began.year, began.month);
        let next = if this > began {
            this
        } else {
            let (year, month) = after(began.year, began.month);
            self.start(year, month)
        };
        next.period()
    }

    /// Beginning of a period, in seconds since 1970 (UTC).
    pub fn begins_at(self, period: Period) -> u64 {
        let local = i64::try_from(period.0).unwrap_or(0).saturating_mul(DAY_S);
        let utc = local.saturating_sub(i64::from(self.zone.minutes) * 60);
        u64::try_from(utc).unwrap_or(0)
    }

    fn start(self, year: i64, month: u8) -> Date {
        let day = self.day.min(days_in(year, month));
        Date { year, month, day }
    }
}

impl Date {
    fn of_days(days: i64) -> Self {
        // Eras of 400 years from 0000-03-01, so that a leap day is the last of its year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self {
            year,
            month: month as u8,
            day: day as u8,
        }
    }

    fn days(self) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = self.year - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let from_march = (month + 9) % 12;
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }

    /// The period that began on this day; the first there is for a day before 1970.
    pub fn period(self) -> Period {
        Period(u64::try_from(self.days()).unwrap_or(0))
    }
}

impl From<Period> for Date {
    /// The day on which a period of a [`Billing`] began.
    fn from(period: Period) -> Self {
        /// Some day beyond the year 9999, so that nothing overflows.
        const DAYS_MAX: u64 = 4_000_000;
        Self::of_days(period.0.min(DAYS_MAX) as i64)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Date {
    type Err = ParseDateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: Option<&str>, digits: usize| {
            let part = part.filter(|part| part.len() == digits)?;
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<u16>().ok()).flatten()
        };
        let mut parts = text.splitn(3, '-');
        let year = number(parts.next(), 4).filter(|year| *year >= 1970);
        let month = number(parts.next(), 2).filter(|month| (1..=12).contains(month));
        let day = number(parts.next(), 2).filter(|day| *day >= 1);
        let (Some(year), Some(month), Some(day)) = (year, month, day) else {
            return Err(ParseDateError);
        };
        let (year, month, day) = (i64::from(year), month as u8, day as u8);
        if day > days_in(year, month) {
            return Err(ParseDateError);
        }
        Ok(Self { year, month, day })
    }
}

impl FromStr for Zone {
    type Err = ParseZoneError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "UTC" {
            return Ok(Self::default());
        }
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(ParseZoneError),
        };
        let number = |part: &str| {
            let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<i32>().ok()).flatten()
        };
        let parts = rest.split_once(':');
        let (hours, minutes) = parts
            .and_then(|(hours, minutes)| Some((number(hours)?, number(minutes)?)))
            .ok_or(ParseZoneError)?;
        let all = hours * 60 + minutes;
        if minutes >= 60 || all > ZONE_MINUTES_MAX {
            return Err(ParseZoneError);
        }
        Ok(Self {
            minutes: sign * all,
        })
    }
}

fn days_in(year: i64, month: u8) -> u8 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn before(year: i64, month: u8) -> (i64, u8) {
    match month {
        1 => (year - 1, 12),
        _ => (year, month - 1),
    }
}

fn after(year: i64, month: u8) -> (i64, u8) {
    match month {
        12 => (year + 1, 1),
        _ => (year, month + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn billing(day: u8, zone: &str) -> Billing {
        Billing::monthly(day, zone.parse().unwrap()).unwrap()
    }

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    /// Seconds since 1970 of an hour of a day, in UTC.
    fn at(text: &str, hour: u64) -> u64 {
        date(text).period().0 * DAY_S as u64 + hour * 3600
    }

    /// Every day of 200 years follows the one before it.
    /// Found by the fuzz target `tariffs`: the zone's minutes overflowed.
    #[test]
    fn the_end_of_time_is_in_the_year_9999() {
        for zone in ["+14:00", "UTC", "-12:00"] {
            let billing = billing(31, zone);
            assert_eq!(billing.period(u64::MAX), billing.period(UNIX_MAX_S as u64));
            assert_eq!(billing.period(i64::MAX as u64), billing.period(u64::MAX));
        }
    }

    #[test]
    fn days_and_dates_agree() {
        let mut expected = date("1970-01-01");
        for days in 0..73_049 {
            let found = Date::of_days(days);
            assert_eq!((found, found.days()), (expected, days));
            assert_eq!(date(&found.to_string()), found);
            expected.day += 1;
            if expected.day > days_in(expected.year, expected.month) {
                expected.day = 1;
                (expected.year, expected.month) = after(expected.year, expected.month);
            }
        }
        assert_eq!(expected, date("2170-01-01"));
        // As `date -u -d @1795219200` says.
        assert_eq!(
            Date::of_days(1_795_219_200 / DAY_S).to_string(),
            "2026-11-21"
        );
    }

    #[test]
    fn a_period_is_a_month_from_its_day() {
        for (day, zone, now, hour, began, next) in [
            (1, "UTC", "2026-11-21", 12, "2026-11-01", "2026-12-01"),
            (1, "UTC", "2026-11-01", 0, "2026-11-01", "2026-12-01"),
            (21, "UTC", "2026-11-21", 0, "2026-11-21", "2026-12-21"),
            (22, "UTC", "2026-11-21", 23, "2026-10-22", "2026-11-22"),
            (15, "UTC", "2027-01-03", 1, "2026-12-15", "2027-01-15"),
            // Short months.
            (31, "UTC", "2027-02-27", 5, "2027-01-31", "2027-02-28"),
            (31, "UTC", "2027-02-28", 5, "2027-02-28", "2027-03-31"),
            (30, "UTC", "2028-02-29", 5, "2028-02-29", "2028-03-30"),
            // Midnight is not everywhere at once.
            (1, "+02:00", "2026-10-31", 21, "2026-10-01", "2026-11-01"),
            (1, "+02:00", "2026-10-31", 22, "2026-11-01", "2026-12-01"),
            (1, "-08:00", "2026-11-01", 7, "2026-10-01", "2026-11-01"),
            (1, "-08:00", "2026-11-01", 8, "2026-11-01", "2026-12-01"),
        ] {
            let billing = billing(day, zone);
            let period = billing.period(at(now, hour));
            let about = format!("day {day} {zone}, {now} {hour} h");
            assert_eq!(Date::from(period), date(began), "{about}");
            assert_eq!(Date::from(billing.next(period)), date(next), "{about}");
            let next_at = billing.begins_at(billing.next(period));
            assert_eq!(billing.period(next_at), billing.next(period), "{about}");
            assert_eq!(billing.period(next_at - 1), period, "{about}");
        }
    }

    #[test]
    fn another_day_is_configured() {
        let began = date("2026-11-01").period();
        assert_eq!(
            Date::from(billing(15, "UTC").next(began)),
            date("2026-11-15")
        );
        let began = date("2026-11-15").period();
        assert_eq!(
            Date::from(billing(1, "UTC").next(began)),
            date("2026-12-01")
        );
    }

    #[test]
    fn what_is_not_one_is_refused() {
        for text in [
            "",
            "2026-11",
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "1969-12-31",
            "2026-11-01-",
            "+026-11-01",
        ] {
            assert_eq!(text.parse::<Date>(), Err(ParseDateError), "{text}");
        }
        for text in [
            "", "utc", "01:00", "+1:00", "+01:60", "+15:00", "+0100", "é", "+é1:00",
        ] {
            assert_eq!(text.parse::<Zone>(), Err(ParseZoneError), "{text}");
        }
        assert!(Billing::monthly(0, Zone::default()).is_none());
        assert!(Billing::monthly(32, Zone::default()).is_none());
        // The ends of what can be asked.
        for seconds in [0, u64::MAX] {
            let billing = billing(31, "+14:00");
            let period = billing.period(seconds);
            billing.begins_at(billing.next(period));
        }
    }
}
