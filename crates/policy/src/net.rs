//! `net`: which hosts may be reached, and how.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::address::is_never_openable;
use crate::decide::RuleEffect;
use crate::draft::nullable;
use crate::host::{Host, HostPattern};
use crate::preset::{DenyPreset, NetPreset};
use crate::units::{ByteSize, Rate};
use crate::url::{UrlPath, UrlPathPattern};

/// `net`: whether there is a network, and which hosts may be reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NetDraft {
    /// Whether the sandbox has any network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The effect for hosts that no rule names, on https and http at their default ports; deny unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<RuleEffect>,
    /// Reviewed rule sets, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub presets: Vec<NetPreset>,
    /// Hosts that may be reached; a bare host means https on port 443.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub allowlist: Vec<HostRule>,
    /// Hosts that may not be reached, by rules and by `preset:NAME`; it wins over every allow rule.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "deserialize_denylist"
    )]
    pub denylist: Vec<DenyEntry>,
    /// Which TLS connections are terminated, so that the requests inside are visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<TlsInspection>,
    /// Limits on connections, rate and bytes of one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<NetLimitsDraft>,
}

/// Which TLS connections are terminated, so that the requests inside are visible; later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TlsInspection {
    /// Those to hosts whose rules name methods or paths, and all where a credential may be attached.
    Needed,
    /// Every TLS connection of the sandbox.
    All,
}

/// `net.limits`: how much of the network one session may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NetLimitsDraft {
    /// The most connections that are open at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
    /// How often a connection may be opened or a request sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The most bytes in both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
}

/// How much of the network one session may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetLimits {
    /// The most connections that are open at the same time.
    pub connections: u32,
    /// How often a connection may be opened or a request sent.
    pub rate: Rate,
    /// The most bytes in both directions together.
    pub bytes: ByteSize,
}

impl NetDraft {
    /// The limits of a complete draft; `None` if one is missing.
    pub(crate) fn complete_limits(&self) -> Option<NetLimits> {
        let limits = self.limits.as_ref()?;
        Some(NetLimits {
            connections: limits.connections?.get(),
            rate: limits.rate?,
            bytes: limits.bytes?,
        })
    }
}

/// One rule for hosts. A key that is absent does not restrict the rule, except that an allow rule without `scheme` and `ports`
/// means https on port 443.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HostRule {
    /// The hosts that the rule matches.
    pub host: HostPattern,
    /// The scheme; `None` means https in an allow rule, and any scheme in a denylist.
    pub scheme: Option<Scheme>,
    /// The ports; `None` means the scheme's default port in an allow rule, and any port in a denylist.
    pub ports: Option<BTreeSet<NonZeroU16>>,
    /// The methods, of which GET includes HEAD; `None` means all.
    pub methods: Option<BTreeSet<HttpMethod>>,
    /// The URL paths; `None` means all.
    pub paths: Option<Vec<UrlPathPattern>>,
    /// Private networks that this rule opens; only in an allow rule.
    pub addresses: Vec<IpNet>,
}

/// One rule for hosts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HostRuleDocument {
    /// The hosts that the rule matches.
    host: HostPattern,
    /// The scheme; https unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheme: Option<Scheme>,
    /// The ports; the scheme's default port unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ports: Option<BTreeSet<NonZeroU16>>,
    /// The methods; all unless written. GET includes HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    methods: Option<BTreeSet<HttpMethod>>,
    /// The URL paths; all unless written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<UrlPathPattern>>,
    /// Private networks that this rule opens, in CIDR form.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    #[schemars(with = "Vec<String>")]
    addresses: Vec<IpNet>,
}

impl HostRuleDocument {
    fn into_rule(self) -> Result<HostRule, String> {
        let empty = |key: &str| format!("`{key}` is empty, so the rule could never match");
        if self.ports.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(empty("ports"));
        }
        if self.methods.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(empty("methods"));
        }
        if self.paths.as_ref().is_some_and(Vec::is_empty) {
            return Err(empty("paths"));
        }
        if let Some(net) = self.addresses.iter().find(|net| is_never_openable(net)) {
            return Err(format!("`{net}` can never be opened"));
        }
        Ok(HostRule {
            host: self.host,
            scheme: self.scheme,
            ports: self.ports,
            methods: self.methods,
            paths: self.paths,
            addresses: self.addresses,
        })
    }
}

impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HostRuleVisitor;

        impl<'de> Visitor<'de> for HostRuleVisitor {
            type Value = HostRule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host or a rule such as `{ host: example.org, ports: [443] }`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HostRule, E> {
                Ok(HostRule::for_host(text.parse().map_err(E::custom)?))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HostRule, A::Error> {
                HostRuleDocument::deserialize(MapAccessDeserializer::new(map))?
                    .into_rule()
                    .map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(HostRuleVisitor)
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::for_host(self.host.clone()) {
            return self.host.serialize(serializer);
        }
        let rule = self.clone();
        HostRuleDocument {
            host: rule.host,
            scheme: rule.scheme,
            ports: rule.ports,
            methods: rule.methods,
            paths: rule.paths,
            addresses: rule.addresses,
        }
        .serialize(serializer)
    }
}

impl JsonSchema for HostRule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HostRule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let bare = generator.subschema_for::<HostPattern>();
        let rule = HostRuleDocument::json_schema(generator);
        json_schema!({ "anyOf": [bare, rule] })
    }
}

fn deserialize_denylist<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<DenyEntry>, D::Error> {
    let entries: Vec<DenyEntry> = nullable(deserializer)?;
    let rules = entries.iter().filter_map(DenyEntry::rule);
    match rules.into_iter().find(|rule| !rule.addresses.is_empty()) {
        Some(rule) => Err(D::Error::custom(format!(
            "`{}` has `addresses`, which only an allow rule can have",
            rule.host
        ))),
        None => Ok(entries),
    }
}

/// One entry of a denylist.
#[derive(Debug, Clone, PartialEq)]
pub enum DenyEntry {
    /// A rule, or a bare host.
    Rule(HostRule),
    /// A reviewed set of rules, `preset:NAME`.
    Preset(DenyPreset),
}

/// The prefix that distinguishes a preset from a host.
const PRESET_PREFIX: &str = "preset:";

impl DenyEntry {
    /// The rule; `None` for a preset.
    pub const fn rule(&self) -> Option<&HostRule> {
        match self {
            Self::Rule(rule) => Some(rule),
            Self::Preset(_) => None,
        }
    }

    pub(crate) fn into_rule(self) -> Option<HostRule> {
        match self {
            Self::Rule(rule) => Some(rule),
            Self::Preset(_) => None,
        }
    }

    /// The host pattern and the last part of the key of the rule that forbids the request, as far as the request is known.
    pub(crate) fn forbids(&self, request: &HostRequest) -> Option<(&HostPattern, String)> {
        match self {
            Self::Rule(rule) => rule.forbids(request).then(|| (&rule.host, String::new())),
            Self::Preset(preset) => {
                let place = preset.matching_rule(&request.host)?;
                let rule = preset.rules().get(place)?;
                Some((&rule.host, format!(".{}[{place}]", preset.name())))
            }
        }
    }

    /// Whether this entry needs method or path to decide the request. A preset never does: it names only hosts.
    pub(crate) fn needs_inspection(&self, request: &HostRequest) -> bool {
        self.rule().is_some_and(|rule| rule.needs_inspection(request))
    }
}

impl<'de> Deserialize<'de> for DenyEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DenyEntryVisitor;

        impl<'de> Visitor<'de> for DenyEntryVisitor {
            type Value = DenyEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host, `preset:model-vendors`, or a rule such as `{ host: example.org, ports: [443] }`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DenyEntry, E> {
                let Some(name) = text.strip_prefix(PRESET_PREFIX) else {
                    return Ok(DenyEntry::Rule(HostRule::for_host(text.parse().map_err(E::custom)?)));
                };
                let known = DenyPreset::ALL.into_iter().find(|preset| preset.name() == name);
                let names = DenyPreset::ALL
                    .map(|preset| format!("`{PRESET_PREFIX}{}`", preset.name()))
                    .join(", ");
                let unknown = || E::custom(format!("there is no `{text}`; known: {names}"));
                known.map(DenyEntry::Preset).ok_or_else(unknown)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DenyEntry, A::Error> {
                let rule = HostRuleDocument::deserialize(MapAccessDeserializer::new(map))?.into_rule();
                rule.map(DenyEntry::Rule).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(DenyEntryVisitor)
    }
}

impl Serialize for DenyEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Rule(rule) => rule.serialize(serializer),
            Self::Preset(preset) => serializer.collect_str(&format_args!("{PRESET_PREFIX}{}", preset.name())),
        }
    }
}

impl JsonSchema for DenyEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DenyEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = generator.subschema_for::<HostRule>();
        let presets = DenyPreset::ALL.map(|preset| format!("{PRESET_PREFIX}{}", preset.name()));
        json_schema!({ "anyOf": [{ "enum": presets }, rule] })
    }
}

/// The protocol of a connection to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// HTTP over a TLS connection.
    Https,
    /// HTTP without any encryption.
    Http,
}

impl Scheme {
    /// The default port of the scheme.
    pub const fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// An HTTP method that a rule can name; HEAD counts as GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names say it")]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

/// A request to a host. Method and path are `None` while they are unknown (a tunnel is being opened); the request must then be
/// decided again when they are known, see [`Policy::needs_inspection`](crate::Policy::needs_inspection).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRequest {
    /// The host that the request is sent to.
    pub host: Host,
    /// The scheme of the connection.
    pub scheme: Scheme,
    /// The port of the connection.
    pub port: u16,
    /// The method; `None` while it is unknown.
    pub method: Option<HttpMethod>,
    /// The URL path; `None` while it is unknown.
    pub path: Option<UrlPath>,
}

impl HostRule {
    /// A rule that names only a host.
    pub const fn for_host(host: HostPattern) -> Self {
        Self {
            host,
            scheme: None,
            ports: None,
            methods: None,
            paths: None,
            addresses: Vec::new(),
        }
    }

    /// Whether this rule allows the request, as far as the request is known.
    pub fn allows(&self, request: &HostRequest) -> bool {
        let scheme = self.scheme.unwrap_or(Scheme::Https);
        self.host.matches(&request.host)
            && request.scheme == scheme
            && self.allowed_ports().contains(&request.port)
            && request.method.is_none_or(|method| self.names_method(method))
            && request.path.as_ref().is_none_or(|path| self.names_path(path))
    }

    /// Whether this rule forbids the request, as far as the request is known.
    pub(crate) fn forbids(&self, request: &HostRequest) -> bool {
        let port = |ports: &BTreeSet<NonZeroU16>| ports.iter().any(|p| p.get() == request.port);
        self.host.matches(&request.host)
            && self.scheme.is_none_or(|scheme| scheme == request.scheme)
            && self.ports.as_ref().is_none_or(port)
            && (self.methods.is_none() || request.method.is_some_and(|m| self.names_method(m)))
            && (self.paths.is_none() || request.path.as_ref().is_some_and(|p| self.names_path(p)))
    }

    /// Whether this rule needs method or path to decide the request.
    pub(crate) fn needs_inspection(&self, request: &HostRequest) -> bool {
        (self.methods.is_some() || self.paths.is_some()) && self.host.matches(&request.host)
    }

    /// Whether this rule opens a private address.
    pub(crate) fn opens_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.contains(&address))
    }

    /// Whether this rule covers all that another allow rule allows. Absent methods and paths of the other rule count as covered,
    /// because each request is decided by both rules.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        let methods = other.methods.iter().flatten().all(|method| self.names_method(*method));
        let path = |path: &UrlPathPattern| {
            self.paths
                .as_ref()
                .is_none_or(|mine| mine.iter().any(|pattern| pattern.contains(path)))
        };
        let net = |net: &IpNet| self.addresses.iter().any(|mine| mine.contains(net));
        self.host.contains(&other.host)
            && self.scheme.unwrap_or(Scheme::Https) == other.scheme.unwrap_or(Scheme::Https)
            && other.allowed_ports().is_subset(&self.allowed_ports())
            && methods
            && other.paths.iter().flatten().all(path)
            && other.addresses.iter().all(net)
    }

    /// The ports of an allow rule, or its scheme's default port.
    pub(crate) fn allowed_ports(&self) -> BTreeSet<u16> {
        match &self.ports {
            Some(ports) => ports.iter().map(|port| port.get()).collect(),
            None => BTreeSet::from([self.scheme.unwrap_or(Scheme::Https).port()]),
        }
    }

    fn names_method(&self, method: HttpMethod) -> bool {
        let named = |wanted| self.methods.as_ref().is_none_or(|methods| methods.contains(&wanted));
        named(method) || (method == HttpMethod::Head && named(HttpMethod::Get))
    }

    fn names_path(&self, path: &UrlPath) -> bool {
        self.paths
            .as_ref()
            .is_none_or(|paths| paths.iter().any(|pattern| pattern.matches(path)))
    }
}

#[cfg(test)]
mod tests;
