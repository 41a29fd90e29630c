//! A map for the many places that mostly have one entry, or none.
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Entries by key, in the order of the keys. One entry takes no memory of its own.
#[derive(Debug, Default)]
pub(super) enum SmallMap<K, V> {
    #[default]
    None,
    One(K, V),
    Many(BTreeMap<K, V>),
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::One(its, value) if (*its).borrow() == key => Some(value),
            Self::None | Self::One(..) => None,
            Self::Many(all) => all.get(key),
        }
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::One(its, value) if (*its).borrow() == key => Some(value),
            Self::None | Self::One(..) => None,
            Self::Many(all) => all.get_mut(key),
        }
    }

    /// Adds an entry, or replaces the value of the one with its key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self {
            Self::Many(all) => {
                all.insert(key, value);
            }
            Self::One(its, old) if *its == key => *old = value,
            Self::None | Self::One(..) => {
                *self = match std::mem::take(self) {
                    Self::One(its, old) => Self::Many(BTreeMap::from([(its, old), (key, value)])),
                    _ => Self::One(key, value),
                };
            }
        }
    }

    /// Removes a key and returns its value.
    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        match std::mem::take(self) {
            Self::None => None,
            Self::One(_, value) => Some(value),
            Self::Many(mut all) => {
                let value = all.remove(key);
                *self = if all.len() > 1 {
                    Self::Many(all)
                } else {
                    all.pop_first()
                        .map_or(Self::None, |(key, value)| Self::One(key, value))
                };
                value
            }
        }
    }

    /// Returns the entries whose keys are greater than this one, or all.
    pub(super) fn range_after(&self, key: Option<&K>) -> impl Iterator<Item = (&K, &V)> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(its, _) if key.is_some_and(|key| its <= key) => (None, None),
            Self::One(its, value) => (Some((its, value)), None),
            Self::Many(all) => {
                let first = key.map_or(Bound::Unbounded, Bound::Excluded);
                (None, Some(all.range((first, Bound::Unbounded))))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0u8..4, prop::option::of(any::<u8>())), 0..40)) {
            let (mut few, mut model) = (SmallMap::default(), BTreeMap::new());
            for (key, value) in changes {
                if let Some(value) = value {
                    few.insert(key, value);
                    model.insert(key, value);
                } else {
                    prop_assert_eq!(few.remove(&key), model.remove(&key));
                }
                prop_assert!(few.range_after(None).eq(model.iter()));
                prop_assert!(few.range_after(Some(&key)).eq(model.iter().filter(|(it, _)| **it > key)));
                prop_assert_eq!(few.is_empty(), model.is_empty());
                prop_assert_eq!(matches!(few, SmallMap::Many(_)), model.len() > 1);
                for key in 0..4 {
                    prop_assert_eq!(few.get(&key), model.get(&key));
                    prop_assert_eq!(few.get_mut(&key), model.get_mut(&key));
                }
            }
        }
    }
}
