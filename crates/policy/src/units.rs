//! Quantities as people write them: `512MiB`, `30s`, `60/min`, half a processor. A zero, negative or overflowing amount, or a
//! fraction of a byte, never becomes a value.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Why a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number with a unit.
    #[error("`{text}` is not {what}, write it like `{like}`")]
    Shape {
        /// The text as it was given.
        text: String,
        /// The kind of quantity that was expected, such as `a rate`.
        what: &'static str,
        /// An example of a valid spelling.
        like: &'static str,
    },
    /// The amount is zero.
    #[error("`{0}` is zero: a limit must let something through")]
    Zero(String),
    /// The amount is above the maximum.
    #[error("`{text}` is more than {most}")]
    TooLarge {
        /// The amount as it was given.
        text: String,
        /// The largest amount that is allowed.
        most: &'static str,
    },
}

/// A number of bytes, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// The largest amount: 1 PiB.
    pub const MAX: Self = Self(1 << 50);

    /// An amount in bytes, if it is neither zero nor above [`ByteSize::MAX`].
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes == 0 || bytes > Self::MAX.0 {
            None
        } else {
            Some(Self(bytes))
        }
    }

    /// A number of KiB; zero becomes one byte, and an amount above the maximum becomes [`ByteSize::MAX`].
    pub const fn kib(count: u64) -> Self {
        Self::saturating(count, 1 << 10)
    }

    /// A number of MiB; zero becomes one byte, and an amount above the maximum becomes [`ByteSize::MAX`].
    pub const fn mib(count: u64) -> Self {
        Self::saturating(count, 1 << 20)
    }

    /// A number of GiB; zero becomes one byte, and an amount above the maximum becomes [`ByteSize::MAX`].
    pub const fn gib(count: u64) -> Self {
        Self::saturating(count, 1 << 30)
    }

    const fn saturating(count: u64, unit: u64) -> Self {
        match Self::new(count.saturating_mul(unit)) {
            Some(bytes) => bytes,
            None if count == 0 => Self(1),
            None => Self::MAX,
        }
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    fn from_parsed(bytes: Option<u64>, text: &str) -> Result<Self, UnitError> {
        match bytes {
            Some(0) => Err(UnitError::Zero(text.to_owned())),
            bytes => bytes.and_then(Self::new).ok_or_else(|| UnitError::TooLarge {
                text: text.to_owned(),
                most: "1024TiB",
            }),
        }
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let shape = || UnitError::Shape {
            text: text.to_owned(),
            what: "an amount of bytes",
            like: "512MiB",
        };
        let (digits, unit) = split_number(text).ok_or_else(shape)?;
        let factor = match unit {
            "" => 1,
            "kB" => 1_000,
            unit => BYTE_UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, factor)| *factor)
                .ok_or_else(shape)?,
        };
        let count = digits.parse::<u64>().ok();
        Self::from_parsed(count.and_then(|count| count.checked_mul(factor)), text)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BYTE_UNITS.iter().find(|(_, factor)| self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A length of time, never zero and at most a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(Duration);

const PERIOD_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl Period {
    /// The longest period: 365 days.
    pub const MAX: Self = Self(Duration::from_hours(365 * 24));

    /// A length of time, if it is neither zero nor above [`Period::MAX`].
    pub fn new(duration: Duration) -> Option<Self> {
        (!duration.is_zero() && duration <= Self::MAX.0).then_some(Self(duration))
    }

    /// The period as the standard library's type.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let shape = || UnitError::Shape {
            text: text.to_owned(),
            what: "a length of time",
            like: "30s",
        };
        let (digits, unit) = split_number(text).ok_or_else(shape)?;
        let (_, factor) = PERIOD_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(shape)?;
        match digits.parse::<u64>().ok().and_then(|count| count.checked_mul(*factor)) {
            Some(0) => Err(UnitError::Zero(text.to_owned())),
            millis => millis
                .and_then(|millis| Self::new(Duration::from_millis(millis)))
                .ok_or_else(|| UnitError::TooLarge {
                    text: text.to_owned(),
                    most: "365d",
                }),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match PERIOD_UNITS
            .iter()
            .find(|(_, factor)| millis.is_multiple_of(u128::from(*factor)))
        {
            Some((unit, factor)) => write!(f, "{}{unit}", millis / u128::from(*factor)),
            None => write!(f, "{millis}ms"),
        }
    }
}

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    per: RateWindow,
}

/// The window in which a [`Rate`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateWindow {
    /// A window of one second.
    Second,
    /// A window of one minute.
    Minute,
    /// A window of one hour.
    Hour,
}

impl RateWindow {
    /// The length of the window.
    pub const fn duration(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
        }
    }
}

impl Rate {
    /// How many are allowed in one window.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The window in which the rate counts.
    pub const fn window(self) -> RateWindow {
        self.per
    }

    /// How many the rate allows in an hour.
    pub(crate) fn hourly(self) -> u64 {
        u64::from(self.count) * (3_600 / self.per.duration().as_secs())
    }

    /// Whether this rate allows more than `other`, over an hour or in one burst.
    pub fn exceeds(self, other: Self) -> bool {
        self.hourly() > other.hourly() || (self.count > other.count && self.per.duration() <= other.per.duration())
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let shape = || UnitError::Shape {
            text: text.to_owned(),
            what: "a rate",
            like: "60/min",
        };
        let (digits, unit) = split_number(text).ok_or_else(shape)?;
        let per = match unit {
            "/s" => RateWindow::Second,
            "/min" => RateWindow::Minute,
            "/h" => RateWindow::Hour,
            _ => return Err(shape()),
        };
        match digits.parse::<u32>() {
            Ok(0) => Err(UnitError::Zero(text.to_owned())),
            Ok(count) => Ok(Self { count, per }),
            Err(_) => Err(UnitError::TooLarge {
                text: text.to_owned(),
                most: "4294967295",
            }),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.per {
            RateWindow::Second => "s",
            RateWindow::Minute => "min",
            RateWindow::Hour => "h",
        };
        write!(f, "{}/{unit}", self.count)
    }
}

/// A number of processors, stored in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuCount(u32);

impl CpuCount {
    const MAX_MILLIS: u32 = 4_096_000;

    /// A number of thousandths of a processor, if it is neither zero nor above 4,096 processors.
    pub const fn millis(millis: u32) -> Option<Self> {
        if millis == 0 || millis > Self::MAX_MILLIS {
            None
        } else {
            Some(Self(millis))
        }
    }

    /// The number of thousandths of a processor.
    pub const fn as_millis(self) -> u32 {
        self.0
    }
}

impl FromStr for CpuCount {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let shape = || UnitError::Shape {
            text: text.to_owned(),
            what: "a number of processors with at most three decimals",
            like: "0.5",
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let fraction = match fraction.trim_end_matches('0') {
            "" if !fraction.is_empty() => "0",
            rest => rest,
        };
        if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return Err(shape());
        }
        let too_large = || UnitError::TooLarge {
            text: text.to_owned(),
            most: "4096 processors",
        };
        let whole = whole.parse::<u32>().map_err(|_| too_large())?;
        let fraction = format!("{fraction:0<3}").parse::<u32>().map_err(|_| shape())?;
        match whole.checked_mul(1_000).and_then(|millis| millis.checked_add(fraction)) {
            Some(0) => Err(UnitError::Zero(text.to_owned())),
            millis => millis.and_then(Self::millis).ok_or_else(too_large),
        }
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000, self.0 % 1_000);
        if fraction == 0 {
            write!(f, "{whole}")
        } else {
            write!(f, "{whole}.{}", format!("{fraction:03}").trim_end_matches('0'))
        }
    }
}

/// Splits the leading digits from the rest; `None` if there are no digits.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    (end > 0).then(|| text.split_at(end))
}

/// Reads a quantity from text or from a number, through its text form.
struct Quantity<T>(std::marker::PhantomData<T>, &'static str);

impl<T: FromStr<Err = UnitError>> Visitor<'_> for Quantity<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! quantity {
    ($type:ident, $what:literal, $schema:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Quantity(std::marker::PhantomData, $what))
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

quantity!(
    ByteSize,
    "an amount of bytes like `512MiB`",
    json_schema!({
        "type": ["string", "integer"], "minimum": 1,
        "pattern": "^[0-9]+(B|[kKMGT]B|[KMGT]iB)?$",
        "description": "An amount of bytes: `512MiB`, `30KiB`, `1GB`, or a plain number of bytes."
    })
);
quantity!(
    Period,
    "a length of time like `30s`",
    json_schema!({
        "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$",
        "description": "A length of time: `250ms`, `30s`, `10m`, `1h`, `7d`; at most 365d."
    })
);
quantity!(
    Rate,
    "a rate like `60/min`",
    json_schema!({
        "type": "string", "pattern": "^[0-9]+/(s|min|h)$",
        "description": "How often: `5/s`, `60/min`, `1000/h`."
    })
);
quantity!(
    CpuCount,
    "a number of processors like `0.5`",
    json_schema!({
        "type": ["number", "string"], "exclusiveMinimum": 0, "maximum": 4096,
        "pattern": "^[0-9]+([.][0-9]{1,3})?$",
        "description": "Processors: `2`, or a part such as `0.5`."
    })
);

#[cfg(test)]
mod tests;
