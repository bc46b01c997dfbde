//! All the ways in which the operations that were under way may have ended: an odometer whose digits
//! come up as they are asked for.

/// The odometer.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    digits: Vec<Digit>,
    ways: usize,
}

/// How much of one operation is done.
#[derive(Debug)]
struct Digit {
    options: Vec<u64>,
    at: usize,
}

/// Whether there is another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Yes,
    No,
    /// There is, beyond the bound.
    TooMany,
}

/// No moment has more ways than this that are gone through.
const MOST_WAYS: usize = 256;
/// Up to so many parts each number of them is gone through; of more, none, half and all.
const FEW: u64 = 8;

impl UnderWay {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The next way: `leave` asks how much of each operation is done. Says it in words.
    pub(super) fn next_way(
        &mut self,
        leave: impl FnOnce(&mut dyn FnMut(u64, u64) -> u64),
    ) -> String {
        let mut words = Vec::new();
        let mut asked = 0;
        let digits = &mut self.digits;
        leave(&mut |operation, most| {
            if asked == digits.len() {
                digits.push(Digit {
                    options: options(most),
                    at: 0,
                });
            }
            let digit = &digits[asked];
            let done = digit.options[digit.at];
            asked += 1;
            words.push(format!("{done} of {most} of operation {operation}"));
            done
        });
        if words.is_empty() {
            return "nothing".to_owned();
        }
        words.join(", ")
    }

    /// Goes to the next way, if there is one.
    pub(super) fn more(&mut self) -> More {
        while let Some(last) = self.digits.last_mut() {
            last.at += 1;
            if last.at < last.options.len() {
                self.ways += 1;
                return if self.ways < MOST_WAYS {
                    More::Yes
                } else {
                    More::TooMany
                };
            }
            self.digits.pop();
        }
        More::No
    }
}

fn options(most: u64) -> Vec<u64> {
    if most <= FEW {
        (0..=most).collect()
    } else {
        vec![0, most / 2, most]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_comes_once_and_later_questions_may_depend_on_earlier_answers() {
        let mut under_way = UnderWay::new();
        let mut ways = Vec::new();
        loop {
            let mut way = Vec::new();
            under_way.next_way(|done| {
                let first = done(1, 2);
                way.push(first);
                if first == 1 {
                    way.push(done(2, 100));
                }
            });
            ways.push(way);
            if under_way.more() != More::Yes {
                break;
            }
        }
        let expected: [&[u64]; 5] = [&[0], &[1, 0], &[1, 50], &[1, 100], &[2]];
        assert_eq!(ways, expected);
    }
}
