//! Which variables of an environment are fields.

use std::collections::HashMap;
use std::ffi::OsString;

use super::FIELDS;
use crate::error::Error;

/// The names of fields as the user wrote them.
pub(super) type Names = HashMap<String, String>;

/// An environment, sorted.
#[derive(Default)]
pub(super) struct Variables {
    pub(super) fields: serde_json::Map<String, serde_json::Value>,
    pub(super) names: Names,
    /// Variables with the prefix that name no field.
    strangers: Vec<String>,
}

impl Variables {
    pub(super) fn of(
        prefix: &str,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let mut sorted = Self::default();
        for (name, value) in vars {
            let name = name.to_string_lossy();
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            let field = rest.to_ascii_lowercase();
            if !FIELDS.contains(&field.as_str()) {
                // Without a prefix all of the environment is strange.
                if !prefix.is_empty() {
                    sorted.strangers.push(name.into_owned());
                }
                continue;
            }
            let value = value
                .into_string()
                .map_err(|value| Error::config(&name, value.to_string_lossy(), "must be UTF-8"))?;
            sorted.names.insert(field.clone(), name.into_owned());
            sorted.fields.insert(field, value.into());
        }
        Ok(sorted)
    }

    /// By name only: what is not ours may be secret.
    pub(super) fn warn_of_strangers(&self) {
        if !self.strangers.is_empty() {
            tracing::warn!(
                target: "kpipe", variables = ?self.strangers,
                "variables with the prefix of the settings that name no setting are ignored"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strangers(prefix: &str) -> Vec<String> {
        let vars = [("APP_MAX_INFLIGHT", "7"), ("APP_MAX_HELD", "7"), ("HOME", "/")];
        let vars = vars.map(|(name, value)| (name.into(), value.into()));
        Variables::of(prefix, vars).unwrap().strangers
    }

    #[test]
    fn a_misspelt_setting_is_noticed() {
        assert_eq!(strangers("APP_"), ["APP_MAX_INFLIGHT"]);
        assert!(strangers("OTHER_").is_empty());
        assert!(strangers("").is_empty(), "or all of the environment would be");
    }
}
