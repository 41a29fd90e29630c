//! Limits and quotas, with their use.
use super::app_state::AppState;
use super::exposition::Exposition;
use super::exposition::MetricType::Gauge;
use super::reply::Reply;
use statestored_broker::hub::LimitUsage;
use statestored_store::keyspace::QuotaUsage;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Maximum number of samples of the quotas of prefixes, and of those of users.
const MAX_SAMPLES: usize = 100;

/// Appends the limits of all clients together, with their use.
pub(super) fn limits(text: &mut Exposition, limits: &[LimitUsage]) {
    for (name, is_bytes, help) in [
        ("statestored_limit_bytes", true, "Limits of memory."),
        ("statestored_limit_items", false, "Limits of numbers."),
    ] {
        text.family(name, Gauge, help);
        for limit in limits.iter().filter(|it| it.is_bytes == is_bytes) {
            text.sample(&[("limit", limit.name)], limit.max);
        }
    }
    text.family(
        "statestored_limit_used_ratio",
        Gauge,
        "Used part of these limits; 1 is full.",
    );
    for limit in limits {
        text.sample(&[("limit", limit.name)], limit.ratio());
    }
}

/// Quotas by owner and name. An owner may be several parties of the same name: the fullest one counts.
#[derive(Debug, Default)]
pub(super) struct Quotas(BTreeMap<(String, &'static str), QuotaUsage>);

impl Quotas {
    fn extend(&mut self, usages: Vec<QuotaUsage>) {
        for usage in usages {
            match self.0.entry((usage.owner.clone(), usage.quota)) {
                Entry::Vacant(entry) => {
                    entry.insert(usage);
                }
                Entry::Occupied(mut entry) => {
                    if usage.ratio() > entry.get().ratio() {
                        entry.insert(usage);
                    }
                }
            }
        }
    }

    /// Returns all quotas, the fullest one first.
    pub(super) fn into_fullest(self) -> Vec<QuotaUsage> {
        let mut all: Vec<_> = self.0.into_values().collect();
        all.sort_by(|one, other| other.ratio().total_cmp(&one.ratio()));
        all
    }

    /// Appends the fullest ones with this label for the owner, and returns the number of the others.
    fn append(self, text: &mut Exposition, label: &str) -> usize {
        let all = self.into_fullest();
        for usage in all.iter().take(MAX_SAMPLES) {
            let labels = [(label, usage.owner.as_str()), ("quota", usage.quota)];
            text.sample(&labels, usage.ratio());
        }
        all.len().saturating_sub(MAX_SAMPLES)
    }
}

impl AppState {
    /// Returns the quotas of prefixes, and those of users.
    pub(super) async fn quotas(&self) -> Result<(Quotas, Quotas), Reply> {
        let (mut of_prefixes, mut of_users) = (Quotas::default(), Quotas::default());
        of_prefixes.extend(self.inspect(|hub, _| hub.prefix_quotas()).await?);
        let mut next = Some(0);
        while let Some(first) = next {
            let part = self.inspect(move |hub, _| hub.user_quotas_from(first));
            let (users, after) = part.await?;
            of_users.extend(users);
            next = after;
        }
        Ok((of_prefixes, of_users))
    }

    /// Appends the quotas of prefixes and users, with samples only if their names may be shown.
    pub(super) async fn quota_metrics(&self, text: &mut Exposition, shows_owners: bool) {
        let (of_prefixes, of_users) = if shows_owners {
            self.quotas().await.unwrap_or_default()
        } else {
            (Quotas::default(), Quotas::default())
        };
        let help = "Used part of the 100 fullest quotas.";
        text.family("statestored_prefix_quota_used_ratio", Gauge, help);
        let omitted_prefixes = of_prefixes.append(text, "prefix");
        text.family("statestored_user_quota_used_ratio", Gauge, help);
        let omitted_users = of_users.append(text, "user");
        text.family(
            "statestored_quotas_omitted",
            Gauge,
            "Quotas left out of the 100 fullest.",
        )
        .sample(&[("owner", "prefix")], omitted_prefixes)
        .sample(&[("owner", "user")], omitted_users);
    }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::ExpositionFormat;
    use super::*;

    fn usage(owner: u64, used: u64) -> QuotaUsage {
        QuotaUsage {
            owner: owner.to_string(),
            quota: "keys",
            used,
            max: 1_000,
        }
    }

    #[test]
    fn the_fullest_quotas_are_shown_and_the_others_counted() {
        let mut quotas = Quotas::default();
        quotas.extend((0..250).map(|number| usage(number, number)).collect());
        quotas.extend(vec![usage(0, 1_000), usage(249, 1)]);
        let mut text = Exposition::new(ExpositionFormat::Prometheus);
        text.family("q", Gauge, "Quotas.");
        assert_eq!(quotas.append(&mut text, "prefix"), 150);
        let text = text.finish();
        let samples: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(samples.len(), 100);
        assert_eq!(samples[0], r#"q{prefix="0",quota="keys"} 1"#);
        assert_eq!(samples[1], r#"q{prefix="249",quota="keys"} 0.249"#);
        assert_eq!(samples[99], r#"q{prefix="151",quota="keys"} 0.151"#);
    }
}
