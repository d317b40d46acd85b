//! Generates inputs: mutated examples that are cut, repeated, mixed, and filled with words from their format.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The maximum input size in bytes. The API server doesn't accept larger objects.
pub const MAX_INPUT: usize = 1 << 20;
/// The maximum number of repetitions of a part.
const MAX_REPEATS: usize = 100_000;

/// An input generator. The same seed yields the same inputs.
pub struct InputGenerator {
    random: StdRng,
    examples: &'static [&'static str],
    words: &'static [&'static str],
}

impl InputGenerator {
    /// Creates a generator from a target's examples and words.
    pub fn new(seed: u64, examples: &'static [&'static str], words: &'static [&'static str]) -> Self {
        Self { random: StdRng::seed_from_u64(seed), examples, words }
    }

    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.pick(self.examples).as_bytes().to_vec();
        for _ in 0..self.random.random_range(0..8) {
            self.mutate(&mut input);
            input.truncate(MAX_INPUT);
        }
        input
    }

    fn pick(&mut self, of: &'static [&'static str]) -> &'static str {
        if of.is_empty() { "" } else { of[self.random.random_range(0..of.len())] }
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = self.random.random_range(at..=input.len());
        match self.random.random_range(0..8u8) {
            0 => drop(input.drain(at..end)),
            1 if at < input.len() => input[at] = self.random.random(),
            2 => {
                let part = input[at..end.min(at + 4096)].to_vec();
                self.repeat(input, at, &part);
            }
            3 => {
                let word = self.pick(self.words).as_bytes();
                self.repeat(input, at, word);
            }
            4 => {
                let other = self.pick(self.examples).as_bytes();
                input.splice(at..end, other.iter().copied());
            }
            5 => {
                // Opens many brackets, and closes either all or none.
                let (open, close) = [("[", "]"), ("{", "}"), ("(", ")"), ("<a>", "</a>"), ("{\"a\":", "}")]
                    [self.random.random_range(0..5usize)];
                let depth = self.count();
                let mut nested = open.repeat(depth).into_bytes();
                if self.random.random() {
                    nested.extend(close.repeat(depth).bytes());
                }
                input.splice(at..at, nested);
            }
            _ => {
                let word = self.pick(self.words).as_bytes();
                input.splice(at..at, word.iter().copied());
            }
        }
    }

    fn repeat(&mut self, input: &mut Vec<u8>, at: usize, part: &[u8]) {
        let room = MAX_INPUT.saturating_sub(input.len());
        let most = room.checked_div(part.len()).unwrap_or(0);
        let times = self.count().min(most);
        input.splice(at..at, part.repeat(times));
    }

    /// Returns a random number that is usually small and rarely large.
    fn count(&mut self) -> usize {
        let most = 1usize << self.random.random_range(0..18u32);
        self.random.random_range(1..=most).min(MAX_REPEATS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_inputs() {
        let inputs = |seed| {
            let mut source = InputGenerator::new(seed, &["a: b", "c"], &["- ", "&x "]);
            (0..50).map(|_| source.next()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().all(|input| input.len() <= MAX_INPUT));
    }
}
