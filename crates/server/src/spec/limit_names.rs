//! The names of all active limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{DescriptorSpec, DomainSpec, Spec};

/// What limits requests in a configuration. The kind and the parts of a name identify it, because a domain,
/// a key and a value may contain the characters that join them in the name that people read.
#[derive(Debug)]
pub(crate) struct LimitNames(BTreeMap<Vec<String>, NamedLimit>);

#[derive(Debug)]
struct NamedLimit {
    /// `policy NAME`, `rule NAME`, `domain NAME` or `limit DOMAIN.KEY_VALUE...`.
    name: String,
    quotas: usize,
}

const LIMIT: &str = "limit";
const DOMAIN: &str = "domain";

impl LimitNames {
    pub(crate) fn of(spec: &Spec) -> Self {
        let mut names = Self(BTreeMap::new());
        for policy in &spec.policies {
            names.add("policy", &policy.name, policy.quotas.len());
        }
        for rule in &spec.rules {
            names.add("rule", &rule.name, 1);
        }
        for DomainSpec { name, descriptors, .. } in &spec.domains {
            names.add(DOMAIN, name, 1);
            names.add_levels(descriptors, &[LIMIT.to_owned(), name.clone()], name);
        }
        names
    }

    /// Returns the names that are missing in `after`, or have fewer quotas there, and that `allowed`
    /// does not contain. The limits of a missing domain are not listed.
    pub(crate) fn lost_in(&self, after: &Self, allowed: &[String]) -> Vec<&str> {
        let quotas_after = |id: &Vec<String>| after.0.get(id).map(|limit| limit.quotas);
        let lost = || self.0.iter().filter(|(id, limit)| quotas_after(id) < Some(limit.quotas));
        let lost_domains: BTreeSet<&str> =
            lost().filter(|(id, _)| id[0] == DOMAIN).map(|(id, _)| id[1].as_str()).collect();
        let is_listed = |(id, limit): &(&Vec<String>, &NamedLimit)| {
            let is_of_lost_domain = id[0] == LIMIT && lost_domains.contains(id[1].as_str());
            !is_of_lost_domain && !allowed.contains(&limit.name)
        };
        lost().filter(is_listed).map(|(_, limit)| limit.name.as_str()).collect()
    }

    fn add(&mut self, kind: &str, name: &str, quotas: usize) {
        let limit = NamedLimit { name: format!("{kind} {name}"), quotas };
        self.0.insert(vec![kind.to_owned(), name.to_owned()], limit);
    }

    fn add_levels(&mut self, descriptors: &[DescriptorSpec], above: &[String], name: &str) {
        for descriptor in descriptors {
            let name = format!("{name}.{}", descriptor.composite());
            let value = descriptor.value.clone().unwrap_or_default();
            let id = [above, &[descriptor.key.clone(), value]].concat();
            if descriptor.limit.as_ref().is_some_and(|limit| limit.rate.is_some()) {
                let limit = NamedLimit { name: format!("{LIMIT} {name}"), quotas: 1 };
                self.0.insert(id.clone(), limit);
            }
            self.add_levels(&descriptor.descriptors, &id, &name);
        }
    }
}
