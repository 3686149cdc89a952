//! Learns conditions from the arguments of a tool's calls. An argument that is sometimes missing, or whose values have nothing in
//! common, gets no condition.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::host::HostPattern;
use crate::path::GuestPath;
use crate::tools::{ArgumentCondition, ConditionFolder};
use crate::url::parse_url_host;

/// The most distinct values that a condition enumerates.
const MAX_ENUMERATED_VALUES: usize = 8;
/// The most bytes of a text that a condition enumerates.
const MAX_ENUMERATED_BYTES: usize = 64;

/// The conditions that all of these calls meet.
pub(super) fn common_conditions(calls: &[Option<Value>]) -> BTreeMap<String, ArgumentCondition> {
    let mut all = Vec::with_capacity(calls.len());
    for call in calls {
        // Unknown arguments rule out every condition.
        match call.as_ref().and_then(Value::as_object) {
            Some(arguments) => all.push(arguments),
            None => return BTreeMap::new(),
        }
    }
    let Some(first) = all.first() else {
        return BTreeMap::new();
    };
    let condition = |name: &String| {
        let values: Option<Vec<&Value>> = all
            .iter()
            .map(|arguments| arguments.get(name).filter(|value| !value.is_null()))
            .collect();
        Some((name.clone(), common_condition(&values?)?))
    };
    first.keys().filter_map(condition).collect()
}

/// The condition that all of these values meet; `None` if they have nothing in common.
fn common_condition(values: &[&Value]) -> Option<ArgumentCondition> {
    common_host(values)
        .or_else(|| common_folder(values))
        .or_else(|| enumerated_values(values))
}

/// A condition on the host, if all values are URLs with the same host.
fn common_host(values: &[&Value]) -> Option<ArgumentCondition> {
    let of = |value: &&Value| {
        let url = value.as_str().filter(|text| text.contains("://"))?;
        Some(parse_url_host(url).ok()?.to_string())
    };
    let hosts: Vec<String> = values.iter().map(of).collect::<Option<_>>()?;
    let first = hosts.first()?;
    let pattern: HostPattern = first.parse().ok()?;
    hosts.iter().all(|host| host == first).then(|| ArgumentCondition {
        host: Some(pattern),
        ..ArgumentCondition::none()
    })
}

/// A condition on the deepest folder that contains all values, if all are paths; `None` if that is the root.
fn common_folder(values: &[&Value]) -> Option<ArgumentCondition> {
    let of = |value: &&Value| {
        let path: GuestPath = value.as_str()?.parse().ok()?;
        let (folder, _) = path.as_str().rsplit_once('/')?;
        Some(folder.split('/').map(str::to_owned).collect::<Vec<_>>())
    };
    let folders: Vec<Vec<String>> = values.iter().map(of).collect::<Option<_>>()?;
    let shared = folders.into_iter().reduce(|shared, next| {
        let same = shared.iter().zip(&next).take_while(|(one, other)| one == other).count();
        shared.into_iter().take(same).collect()
    })?;
    let folder: ConditionFolder = format!("{}/", shared.join("/")).parse().ok()?;
    (folder.to_string() != "/").then(|| ArgumentCondition {
        under: Some(folder),
        ..ArgumentCondition::none()
    })
}

/// A condition that enumerates the values, if they are few and short.
fn enumerated_values(values: &[&Value]) -> Option<ArgumentCondition> {
    let mut distinct: Vec<Value> = Vec::new();
    for value in values {
        let plain = match value {
            Value::String(text) => text.len() <= MAX_ENUMERATED_BYTES,
            Value::Number(number) => number.is_i64() || number.is_u64(),
            Value::Bool(_) => true,
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        if !plain {
            return None;
        }
        if !distinct.contains(value) {
            distinct.push((*value).clone());
        }
        if distinct.len() > MAX_ENUMERATED_VALUES {
            return None;
        }
    }
    Some(if distinct.len() == 1 {
        ArgumentCondition {
            equals: distinct.pop(),
            ..ArgumentCondition::none()
        }
    } else {
        ArgumentCondition {
            one_of: Some(distinct),
            ..ArgumentCondition::none()
        }
    })
}
