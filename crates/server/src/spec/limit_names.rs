//! The names of all active limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{DescriptorSpec, DomainSpec, Spec};

/// What limits requests in a configuration, by name: `policy NAME`, `rule NAME`, `domain NAME` and
/// `limit DOMAIN.KEY_VALUE...`, each with the number of its quotas.
#[derive(Debug)]
pub(crate) struct LimitNames(BTreeMap<String, usize>);

impl LimitNames {
    pub(crate) fn of(spec: &Spec) -> Self {
        let mut names = BTreeMap::new();
        for policy in &spec.policies {
            names.insert(format!("policy {}", policy.name), policy.quotas.len());
        }
        names.extend(spec.rules.iter().map(|rule| (format!("rule {}", rule.name), 1)));
        for DomainSpec { name, descriptors, .. } in &spec.domains {
            names.insert(format!("domain {name}"), 1);
            add_levels(descriptors, &format!("limit {name}"), &mut names);
        }
        Self(names)
    }

    /// Returns the names that are missing in `after`, or have fewer quotas there, and that `allowed`
    /// does not contain. The limits of a missing domain are not listed.
    pub(crate) fn lost_in(&self, after: &Self, allowed: &[String]) -> Vec<&str> {
        let lost = self.0.iter().filter(|(name, quotas)| after.0.get(*name) < Some(quotas));
        let lost: BTreeSet<&str> = lost.map(|(name, _)| name.as_str()).collect();
        let has_lost_domain = |name: &str| {
            let path = name.strip_prefix("limit ").unwrap_or_default();
            let mut ends = path.match_indices('.').map(|(at, _)| &path[..at]);
            ends.any(|domain| lost.contains(format!("domain {domain}").as_str()))
        };
        let is_allowed = |name: &str| allowed.iter().any(|allowed| allowed == name);
        lost.iter().copied().filter(|name| !has_lost_domain(name) && !is_allowed(name)).collect()
    }
}

fn add_levels(descriptors: &[DescriptorSpec], above: &str, names: &mut BTreeMap<String, usize>) {
    for descriptor in descriptors {
        let name = format!("{above}.{}", descriptor.composite());
        if descriptor.limit.as_ref().is_some_and(|limit| limit.rate.is_some()) {
            names.insert(name.clone(), 1);
        }
        add_levels(&descriptor.descriptors, &name, names);
    }
}
