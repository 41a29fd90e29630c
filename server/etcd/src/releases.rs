//! The releases of etcd that can be used.

/// Returns why a release of etcd cannot be used, or `None` if it can or is not known yet.
pub(super) fn incompatibility(version: &str) -> Option<&'static str> {
    // A preview counts as the release that it precedes.
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    match (next(), next(), next()) {
        (Some(0..=2), _, _) | (Some(3), Some(0..=3), _) => {
            Some("it is older than what this program was written for: use 3.4.23 or a later one")
        }
        (Some(3), Some(5), Some(0..=2)) => {
            Some("it can lose what it has confirmed when it is killed: use 3.5.3 or a later one")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_are_too_old_or_lose_data_are_rejected() {
        for refused in ["2.3.8", "3.3.27", "3.5.0", "3.5.1", "3.5.2", "3.5.2-rc.0"] {
            assert!(incompatibility(refused).is_some(), "{refused}");
        }
        for taken in [
            "3.4.23",
            "3.5.3",
            "3.5.16",
            "3.6.0",
            "3.6.16+git",
            "4.0.0",
            "new",
        ] {
            assert_eq!(incompatibility(taken), None, "{taken}");
        }
    }
}
