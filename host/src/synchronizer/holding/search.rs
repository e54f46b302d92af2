//! Which of several suspects are culprits, found by trying parts of them.
//!
//! Suspects are either *on trial*: let in, and a verdict on all of them together is awaited; or
//! *waiting*: kept out. A trial that is accepted clears everybody on it; one that is rejected is
//! halved. A rejected trial of one is a culprit. With `k` culprits among `n` suspects there are at
//! most `k (⌈log2 n⌉ + 1) + 1` trials, whatever the order of verdicts, and an accepted trial is
//! never taken back: what is let in only grows.

use std::collections::VecDeque;

/// Most trials of one search; then all that are not cleared are taken for culprits.
pub const MAX_TRIALS: usize = 200;

/// What is known of some suspects together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guilt {
    /// Nothing.
    Unknown,
    /// One of them is a culprit if the trial before is accepted: both together were rejected.
    Heir,
    /// One of them is a culprit.
    Known,
}

#[derive(Debug)]
struct Part<K> {
    suspects: Vec<K>,
    guilt: Guilt,
}

/// A search. It begins with the first call of [`Search::rejected`], and is over once nobody is on
/// trial and nobody waits.
#[derive(Debug)]
pub struct Search<K> {
    trial: Vec<K>,
    waiting: VecDeque<Part<K>>,
    trials: usize,
}

impl<K> Default for Search<K> {
    fn default() -> Self {
        Self {
            trial: Vec::new(),
            waiting: VecDeque::new(),
            trials: 0,
        }
    }
}

impl<K: PartialEq> Search<K> {
    /// The trial was accepted. Returns new culprits.
    pub fn accepted(&mut self) -> Vec<K> {
        if let Some(next) = self.waiting.front_mut()
            && next.guilt == Guilt::Heir
        {
            next.guilt = Guilt::Known;
        }
        self.trial.clear();
        self.advance()
    }

    /// The trial was rejected, and these are those who may be to blame: some that are on trial, and
    /// others that were let in without one. Those who come first are let in first again. Returns new
    /// culprits: a suspect who is alone is one.
    pub fn rejected(&mut self, suspects: Vec<K>) -> Vec<K> {
        self.disinherit();
        let trial = std::mem::take(&mut self.trial);
        let rest = trial.into_iter().filter(|it| !suspects.contains(it));
        let rest = rest.collect();
        self.put_back(rest, Guilt::Unknown);
        self.put_back(suspects, Guilt::Known);
        self.advance()
    }

    /// A suspect is not what it was: what is known of those that it was seen with is void.
    pub fn changed(&mut self, suspect: &K) {
        if self.trial.contains(suspect) {
            self.disinherit();
        }
        for part in &mut self.waiting {
            if part.suspects.contains(suspect) {
                part.guilt = Guilt::Unknown;
            }
        }
    }

    /// A suspect is gone. Returns new culprits, if nobody is left on trial.
    pub fn gone(&mut self, suspect: &K) -> Vec<K> {
        self.changed(suspect);
        for part in &mut self.waiting {
            part.suspects.retain(|it| it != suspect);
        }
        self.waiting.retain(|part| !part.suspects.is_empty());
        let before = self.trial.len();
        self.trial.retain(|it| it != suspect);
        if self.trial.is_empty() && before > 0 {
            return self.advance();
        }
        Vec::new()
    }

    /// Goes on together with another search, because a rejection concerns both.
    pub fn join(&mut self, mut other: Self) {
        self.disinherit();
        other.disinherit();
        self.trial.append(&mut other.trial);
        self.waiting.append(&mut other.waiting);
        self.trials = self.trials.max(other.trials);
    }

    /// Those who are let in until there is a verdict.
    #[must_use]
    pub fn trial(&self) -> &[K] {
        &self.trial
    }

    /// Those who are kept out until it is their turn.
    pub fn waiting(&self) -> impl Iterator<Item = &K> {
        self.waiting.iter().flat_map(|part| &part.suspects)
    }

    /// Whether nobody is under suspicion any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.trial.is_empty() && self.waiting.is_empty()
    }

    fn put_back(&mut self, suspects: Vec<K>, guilt: Guilt) {
        if !suspects.is_empty() {
            self.waiting.push_front(Part { suspects, guilt });
        }
    }

    fn disinherit(&mut self) {
        for part in &mut self.waiting {
            if part.guilt == Guilt::Heir {
                part.guilt = Guilt::Unknown;
            }
        }
    }

    /// Puts the next ones on trial.
    fn advance(&mut self) -> Vec<K> {
        let mut culprits = Vec::new();
        while let Some(Part {
            mut suspects,
            guilt,
        }) = self.waiting.pop_front()
        {
            if guilt == Guilt::Known && suspects.len() == 1 {
                culprits.append(&mut suspects);
                self.merge();
                continue;
            }
            if self.trials >= MAX_TRIALS {
                culprits.append(&mut suspects);
                culprits.extend(self.waiting.drain(..).flat_map(|part| part.suspects));
                break;
            }
            if guilt == Guilt::Known {
                let second = suspects.split_off(suspects.len().div_ceil(2));
                self.put_back(second, Guilt::Heir);
            }
            self.trials += 1;
            self.trial = suspects;
            break;
        }
        culprits
    }

    /// Nothing is known of the others once a culprit is found: they are tried together.
    fn merge(&mut self) {
        let suspects = self.waiting.drain(..).flat_map(|part| part.suspects);
        let suspects = suspects.collect();
        self.put_back(suspects, Guilt::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Plays a search whose verdicts are given by who is guilty. Returns the culprits and the number
    /// of trials.
    fn play(suspects: usize, guilty: &BTreeSet<usize>) -> (BTreeSet<usize>, usize) {
        let mut let_in = BTreeSet::new();
        let mut search = Search::default();
        let found = search.rejected((0..suspects).collect());
        let mut culprits: BTreeSet<usize> = found.into_iter().collect();
        let mut trials = 0;
        while !search.is_over() {
            trials += 1;
            let trial = search.trial().to_vec();
            assert!(!trial.is_empty(), "somebody waits and nobody is on trial");
            let good = trial.iter().all(|it| !guilty.contains(it));
            culprits.extend(if good {
                let_in.extend(trial);
                search.accepted()
            } else {
                search.rejected(trial)
            });
        }
        assert!(let_in.is_disjoint(&culprits));
        assert_eq!(let_in.len() + culprits.len(), suspects);
        (culprits, trials)
    }

    fn bound(suspects: usize, guilty: usize) -> usize {
        let log = suspects.next_power_of_two().trailing_zeros() as usize;
        guilty * (log + 1) + 1
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: 2_000,
            ..ProptestConfig::default()
        })]

        #[test]
        fn exactly_the_guilty_are_found_in_few_trials(
            suspects in 1usize..300,
            guilty in prop::collection::btree_set(0usize..300, 1..8),
        ) {
            let mut guilty: BTreeSet<usize> =
                guilty.into_iter().map(|it| it % suspects).collect();
            if guilty.is_empty() {
                guilty.insert(0);
            }
            let (culprits, trials) = play(suspects, &guilty);
            prop_assert_eq!(&culprits, &guilty);
            prop_assert!(trials <= bound(suspects, guilty.len()), "{} trials", trials);
        }

        /// Suspects change for the better or the worse, go, and others come, between any two
        /// verdicts: nobody innocent is held, and every culprit that stays is.
        #[test]
        fn changes_between_verdicts_blame_nobody_innocent(
            guilt in prop::collection::vec(prop::bool::weighted(0.2), 1..40),
            events in prop::collection::vec((0usize..60, 0u8..4), 0..60),
        ) {
            let mut guilt = guilt;
            guilt[0] = true;
            let mut let_in: BTreeSet<usize> = BTreeSet::new();
            let mut search = Search::default();
            let found = search.rejected((0..guilt.len()).collect());
            let mut held: BTreeSet<usize> = found.into_iter().collect();
            let mut gone = BTreeSet::new();
            let mut events = events.into_iter();
            while !search.is_over() {
                if let Some((who, what)) = events.next() {
                    let who = who % guilt.len();
                    let questioned = search.trial().contains(&who)
                        || search.waiting().any(|it| *it == who);
                    match what {
                        // Only who is questioned: a change of others is another story.
                        0 | 1 if questioned => {
                            guilt[who] = what == 0;
                            search.changed(&who);
                        }
                        2 if questioned => {
                            gone.insert(who);
                            held.extend(search.gone(&who));
                        }
                        3 => {
                            // Somebody new is let in at once.
                            guilt.push(who % 2 == 0);
                            let_in.insert(guilt.len() - 1);
                        }
                        _ => {}
                    }
                    if search.is_over() {
                        break;
                    }
                }
                let mut inside: Vec<usize> = search.trial().to_vec();
                inside.extend(let_in.iter().copied());
                held.extend(if inside.iter().any(|it| guilt[*it]) {
                    let_in.clear();
                    search.rejected(inside)
                } else {
                    let_in.clear();
                    search.accepted()
                });
            }
            for (who, is_guilty) in guilt.iter().enumerate() {
                if held.contains(&who) && search.trials < MAX_TRIALS {
                    prop_assert!(is_guilty, "{} is innocent", who);
                }
            }
            for who in &held {
                prop_assert!(!gone.contains(who));
            }
        }
    }

    #[test]
    fn a_single_suspect_is_held_without_a_trial() {
        assert_eq!(play(1, &[0].into()), ([0].into(), 0));
    }

    #[test]
    fn a_search_that_takes_too_long_holds_all_that_are_left() {
        let guilty: BTreeSet<usize> = (0..1_000).step_by(2).collect();
        let (culprits, trials) = play(1_000, &guilty);
        assert_eq!(trials, MAX_TRIALS);
        assert!(culprits.is_superset(&guilty) && culprits.len() < 1_000);
    }

    #[test]
    fn searches_that_meet_go_on_as_one() {
        let [mut one, mut two] = [Search::default(), Search::default()];
        one.rejected(vec![1, 2]);
        two.rejected(vec![3, 4]);
        one.join(two);
        assert_eq!(one.trial(), [1, 3]);
        assert_eq!(one.rejected(vec![3]), [3]);
        assert_eq!(one.trial(), [1, 2, 4]);
        assert!(one.accepted().is_empty() && one.is_over());
    }
}
