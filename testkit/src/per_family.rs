//! A macro for one test per family of likelihoods with one function, so that the tests run in
//! parallel.

/// Declares twelve tests that call `check` with the `LikelihoodKind` of a family.
#[macro_export]
macro_rules! per_family {
    ($check:path) => {
        $crate::per_family! {
            $check;
            gaussian = "gaussian",
            bernoulli_probit = "bernoulli-probit",
            bernoulli_logit = "bernoulli-logit",
            poisson = "poisson",
            poisson_softplus = "poisson-softplus",
            negative_binomial = "negative-binomial",
            student_t = "student-t",
            gamma = "gamma",
            exponential = "exponential",
            beta_logit = "beta-logit",
            beta_probit = "beta-probit",
            ordinal = "ordinal",
        }
    };
    ($check:path; $($name:ident = $word:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            $check($word.parse().expect("a likelihood"));
        })+

        #[test]
        fn no_family_is_left_out() {
            let one = |word: &&&str| word.parse().is_ok_and(|kind: LikelihoodKind| !kind.is_joint());
            let words: Vec<&str> = LikelihoodKind::WORDS.iter().filter(one).copied().collect();
            assert_eq!(words, [$($word),+]);
        }
    };
}
