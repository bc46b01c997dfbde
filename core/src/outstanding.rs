//! Many things of which each happens once, and what waits for all of them.

use alloc::vec::Vec;

/// What has not been seen to have happened yet. What was seen once is not looked at again: to wait for
/// `n` things costs `n` looks and one for each time it is asked, and not all of them each time.
#[derive(Debug)]
pub(crate) struct Outstanding<K>(Vec<K>);

impl<K> FromIterator<K> for Outstanding<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl<K> Outstanding<K> {
    /// Whether all have happened. `has_happened` must not go back on what it once said.
    pub(crate) fn is_over(&mut self, mut has_happened: impl FnMut(&K) -> bool) -> bool {
        while self.0.pop_if(|key| has_happened(key)).is_some() {}
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_looked_at_until_it_has_happened_and_then_no_more() {
        let mut outstanding: Outstanding<usize> = (0..100).collect();
        let mut looks = 0;
        let mut happened = [false; 100];
        for at in (0..100).rev() {
            assert!(!outstanding.is_over(|key| {
                looks += 1;
                happened[*key]
            }));
            happened[at] = true;
        }
        assert!(outstanding.is_over(|key| happened[*key]));
        assert_eq!(looks, 100 + 99);
    }
}
