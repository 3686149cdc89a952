//! Restores a policy that was in force from its JSON form.

use serde_json::Value;

use crate::ceiling::Ceiling;
use crate::draft::Draft;
use crate::policy::Policy;

impl Policy {
    /// Restores the policy that [`Policy::to_json`] described. The policy is built from its drafts again; `None` if the result
    /// has another digest.
    pub fn restore(json: &Value) -> Option<Self> {
        let draft = |value: &Value| serde_json::from_value::<Draft>(value.clone()).ok();
        let ceilings: Vec<Draft> = json
            .get("ceilings")?
            .as_array()?
            .iter()
            .map(draft)
            .collect::<Option<_>>()?;
        let mut above = Ceiling::unlimited();
        for ceiling in ceilings.into_iter().rev() {
            above = Ceiling::from_policy(&ceiling.under(&above).ok()?);
        }
        let name = json.get("name")?.as_str()?;
        let policy = draft(json.get("policy")?)?.with_name(name).under(&above).ok()?;
        (json.get("digest")?.as_str()? == policy.digest()).then_some(policy)
    }
}

#[cfg(test)]
mod tests;
