//! The settings of `serve` in `ringfence.yaml`: `listen`, `auth`, `sessions` and `telemetry`.

use std::net::SocketAddr;
use std::time::Duration;

use ringfence_engine::BudgetOverrides;
use ringfence_policy::{ByteSize, Period, Rate};
use ringfence_server::HttpLimits;
use serde_json::Value;

use super::ConfigKey;
use crate::fault::CliFault;

/// The default time after which an unused session is closed.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_hours(1);

/// The settings of the server that clients connect to.
#[derive(Debug, Clone)]
pub(crate) struct ServerSettings {
    /// The address for HTTP; `None` means the default address.
    pub(crate) address: Option<SocketAddr>,
    /// Further host names that the server accepts in requests.
    pub(crate) hosts: Vec<String>,
    /// Further web origins that may send requests.
    pub(crate) origins: Vec<String>,
    /// The limits on what clients may use.
    pub(crate) limits: HttpLimits,
    /// The access settings; `None` if the operator gives none.
    pub(crate) access: Option<AccessSettings>,
    /// The time after which an unused session is closed.
    pub(crate) idle: Duration,
    /// The memory that all executions may use together, and how long an execution waits for its share.
    pub(crate) budget: BudgetOverrides,
    /// The OTLP endpoint for traces; `None` means the environment decides.
    pub(crate) otlp: Option<String>,
}

/// The access settings of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccessSettings {
    /// The public address of this server, as clients know it.
    pub(crate) resource: Option<String>,
    /// The issuers whose access tokens are accepted.
    pub(crate) issuers: Vec<String>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            address: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: HttpLimits::default(),
            access: None,
            idle: DEFAULT_IDLE_TIMEOUT,
            budget: BudgetOverrides::default(),
            otlp: None,
        }
    }
}

impl ServerSettings {
    /// Reads the value of one key.
    pub(super) fn read_key(&mut self, part: &ConfigKey<'_>, value: Value) -> Result<(), CliFault> {
        match part.key {
            "listen" => self.read_listen(part, value),
            "auth" => self.read_auth(part, value),
            "sessions" => {
                for (name, value) in part.fields(value, &["idle", "memory", "queue"])? {
                    match name.as_str() {
                        "idle" => self.idle = part.quantity::<Period>(&name, &value)?.get(),
                        "memory" => self.budget.memory = Some(part.quantity::<ByteSize>(&name, &value)?.get()),
                        _ => self.budget.queue = Some(part.quantity::<Period>(&name, &value)?.get()),
                    }
                }
                Ok(())
            }
            _ => {
                if let Some(url) = part.fields(value, &["otlp"])?.remove("otlp") {
                    self.otlp = Some(part.url("otlp", &url)?);
                }
                Ok(())
            }
        }
    }

    fn read_listen(&mut self, part: &ConfigKey<'_>, value: Value) -> Result<(), CliFault> {
        if value.is_string() {
            self.address = Some(part.address(&value)?);
            return Ok(());
        }
        for (name, value) in part.fields(value, &["address", "hosts", "origins", "limits"])? {
            match name.as_str() {
                "address" => self.address = Some(part.address(&value)?),
                "hosts" => self.hosts = part.texts(&name, &value)?,
                "origins" => self.origins = part.texts(&name, &value)?,
                _ => self.read_limits(part, value)?,
            }
        }
        Ok(())
    }

    fn read_limits(&mut self, part: &ConfigKey<'_>, value: Value) -> Result<(), CliFault> {
        let inner = ConfigKey {
            key: "listen.limits",
            ..*part
        };
        for (name, value) in inner.fields(value, &["body", "connections", "requests", "rate"])? {
            match name.as_str() {
                "body" => {
                    let bytes: ByteSize = inner.quantity(&name, &value)?;
                    self.limits.body = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
                    self.limits.bodies = self.limits.bodies.max(self.limits.body);
                }
                "connections" => self.limits.connections = inner.count(&name, &value)?,
                "requests" => self.limits.requests = inner.count(&name, &value)?,
                _ => {
                    let rate: Rate = inner.quantity(&name, &value)?;
                    let seconds = rate.window().duration().as_secs().max(1);
                    let per_second = u64::from(rate.count()).div_ceil(seconds);
                    self.limits.rate = u32::try_from(per_second).unwrap_or(u32::MAX);
                }
            }
        }
        Ok(())
    }

    fn read_auth(&mut self, part: &ConfigKey<'_>, value: Value) -> Result<(), CliFault> {
        let mut access = AccessSettings::default();
        match value {
            Value::String(word) if word == "tokens" => {}
            Value::String(_) => {
                return Err(part.fault("`auth` must be `tokens`, or have keys: issuers, resource"));
            }
            value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                for (name, value) in part.fields(value, &["issuers", "resource"])? {
                    if name == "resource" {
                        access.resource = Some(part.url(&name, &value)?);
                    } else {
                        access.issuers = part.texts(&name, &value)?;
                    }
                }
            }
        }
        self.access = Some(access);
        Ok(())
    }
}

impl ConfigKey<'_> {
    fn address(&self, value: &Value) -> Result<SocketAddr, CliFault> {
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| self.fault("`listen` must be an address and a port, such as `127.0.0.1:7411`"))
    }

    fn texts(&self, name: &str, value: &Value) -> Result<Vec<String>, CliFault> {
        let wrong = || self.fault(&format!("`{}.{name}` must be a list of texts", self.key));
        let list = value.as_array().ok_or_else(wrong)?;
        let texts = list
            .iter()
            .map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong));
        texts.collect()
    }

    fn url(&self, name: &str, value: &Value) -> Result<String, CliFault> {
        match value.as_str() {
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => Ok(url.to_owned()),
            _ => Err(self.fault(&format!(
                "`{}.{name}` must be an address that begins with http:// or https://",
                self.key
            ))),
        }
    }

    fn quantity<T>(&self, name: &str, value: &Value) -> Result<T, CliFault>
    where
        T: std::str::FromStr<Err = ringfence_policy::UnitError>,
    {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse()
            .map_err(|error| self.fault(&format!("`{}.{name}`: {error}", self.key)))
    }

    fn count(&self, name: &str, value: &Value) -> Result<usize, CliFault> {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| self.fault(&format!("`{}.{name}` must be a number above zero", self.key)))
    }
}
