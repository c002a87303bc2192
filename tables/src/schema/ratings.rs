//! The order of levels by their meaning: built-in scales such as poor, fair and good, numbers in
//! text, months and weekdays.

use crate::tables::instant::{month_of, weekday_of};

/// The minimum number of levels that are ordered. Two levels are a yes and a no, in either order.
const FEWEST: usize = 3;

/// Scales, with `<` between their words from low to high and bars between words of equal rank; no scale has a word twice.
const SCALES: [&str; 24] = [
    "very poor < poor|po < fair|fa < below average < average|typical|ta|ok|okay|acceptable < \
     above average < good|gd < very good|very_good < excellent|ex < \
     outstanding|very excellent|exceptional",
    "fair < good < very good < premium < ideal",
    "very bad|terrible|awful < bad < neutral|average|ok|okay < good < very good|great < excellent",
    "bad < good < better < best",
    "none|no|zero|absent < negligible|minimal < very low|lowest < low|minor|slight|mild|little < \
     low medium|medium low|lower middle < medium|moderate|mid|middle|med|normal|average|intermediate < \
     high medium|medium high|upper middle < high|severe|major|strong < \
     very high|very severe|highest|extreme|critical",
    "small|little < medium|average|mid|middle < large|big < very large|extra large|huge",
    "tiny|very small|extra small < small < medium|average < large|big < very large|extra large|huge < \
     giant|gigantic",
    "xxxs|3xs < xxs|2xs < xs < s < m < l < xl < xxl|2xl < xxxl|3xl < xxxxl|4xl < 5xl",
    "short < medium|average < tall|long",
    "light < medium < heavy",
    "slow < medium|moderate|average < fast < very fast",
    "young < middle|middle aged|adult < old|senior|elderly",
    "freezing < cold < cool < mild|moderate < warm < hot < very hot",
    "strongly disagree|completely disagree|totally disagree < disagree < \
     somewhat disagree|slightly disagree|rather disagree < \
     neutral|undecided|neither|neither agree nor disagree|not sure|neither disagree nor agree < \
     somewhat agree|slightly agree|rather agree < agree < \
     strongly agree|completely agree|totally agree",
    "never < almost never|very rarely < rarely|seldom < occasionally < sometimes < \
     often|frequently|regularly < usually|very often|mostly < almost always|nearly always < always",
    "never < less than once a year < yearly|annually < quarterly < monthly < weekly < daily",
    "very dissatisfied|very unsatisfied|completely dissatisfied < \
     dissatisfied|unsatisfied|not satisfied < somewhat dissatisfied|slightly dissatisfied < \
     neutral|neither|neither satisfied nor dissatisfied < somewhat satisfied|slightly satisfied < \
     satisfied < very satisfied|completely satisfied|extremely satisfied",
    "very unlikely < unlikely < somewhat unlikely < neutral|possible < somewhat likely < \
     likely|probable < very likely",
    "not important|not at all important|unimportant < slightly important|somewhat important < \
     moderately important|neutral < important < very important|extremely important",
    "not at all|not < a little|slightly|a bit < somewhat|moderately < \
     quite|quite a bit|very much|very < extremely",
    "beginner|novice|entry < intermediate|junior|basic < advanced|proficient < expert|master",
    "below college|less than high school|primary|elementary|no high school|below secondary < \
     high school|secondary|hs|hs grad|high school graduate < some college < \
     college|associate|associates|vocational < \
     bachelor|bachelors|undergraduate|graduation|tertiary|university < master|masters|graduate < \
     doctor|doctorate|phd",
    "bronze < silver < gold < platinum < diamond",
    "first|1st < second|2nd < third|3rd < fourth|4th < fifth|5th < sixth|6th < seventh|7th < \
     eighth|8th < ninth|9th < tenth|10th",
];

/// Letters of school grades, the lowest first.
const GRADES: [&str; 6] = ["f", "e", "d", "c", "b", "a"];

/// Returns the levels of a column in the order of their meaning, the lowest first, if a built-in scale has
/// all of them. Returns `None` for fewer than three levels. Letters are grades only if at least one has a
/// sign (`B+`).
pub(super) fn rating_order(levels: &[String]) -> Option<Vec<String>> {
    if levels.len() < FEWEST {
        return None;
    }
    let words: Vec<String> = levels.iter().map(|level| plain(level)).collect();
    let scales = SCALES.iter().map(|scale| places(&words, &|word| place(scale, word)));
    let grades = words.iter().any(|word| word.len() == 2).then(|| places(&words, &grade));
    let places = scales.chain(grades).flatten().next()?;
    let mut order: Vec<usize> = (0..levels.len()).collect();
    order.sort_by_key(|&level| places[level]);
    Some(order.into_iter().map(|level| levels[level].clone()).collect())
}

/// A level in small letters with single spaces between its words.
fn plain(level: &str) -> String {
    let words = level.split(|c: char| c.is_whitespace() || matches!(c, '_' | '-' | '.'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let joined = words.join(" ").to_lowercase();
    // In a grade such as B+ the sign does not separate words.
    if level.trim().len() == 2 { level.trim().to_lowercase() } else { joined }
}

/// Returns the positions of all words on a scale, if they differ.
fn places(words: &[String], place: &dyn Fn(&str) -> Option<usize>) -> Option<Vec<usize>> {
    let places: Vec<usize> = words.iter().map(|word| place(word)).collect::<Option<_>>()?;
    let mut sorted = places.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(places)
}

fn place(scale: &str, word: &str) -> Option<usize> {
    scale.split(" < ").position(|same| same.split('|').any(|known| known == word))
}

/// Returns the position of a letter grade; a minus ranks it below the letter, a plus above it.
fn grade(word: &str) -> Option<usize> {
    let (letter, sign) = match word.char_indices().nth(1) {
        Some((at, _)) => word.split_at(at),
        None => (word, ""),
    };
    let above = match sign {
        "-" => 0,
        "" => 1,
        "+" => 2,
        _ => return None,
    };
    GRADES.iter().position(|known| *known == letter).map(|place| 3 * place + above)
}

/// Returns the positions of levels in the order of their meaning: texts that differ in a number, months, days of the week, and levels of a
/// built-in scale. Levels in parentheses, such as `(missing)`, come last. `None` if no order is known.
pub fn natural_order(levels: &[&str]) -> Option<Vec<usize>> {
    let (others, known): (Vec<usize>, Vec<usize>) =
        (0..levels.len()).partition(|&level| levels[level].starts_with('('));
    let texts: Vec<&str> = known.iter().map(|&level| levels[level]).collect();
    let order = by_number(&texts).or_else(|| by_calendar(&texts)).or_else(|| by_scale(&texts))?;
    Some(order.into_iter().map(|place| known[place]).chain(others).collect())
}

/// Returns the order by the numbers in texts that begin with the same letters.
fn by_number(texts: &[&str]) -> Option<Vec<usize>> {
    let keys: Vec<(&str, Vec<f64>)> = texts.iter().map(|text| numbers_of(text)).collect::<Option<_>>()?;
    let first = keys.first()?.0;
    keys.iter().all(|(letters, _)| *letters == first).then_some(())?;
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by(|&a, &b| {
        let pairs = keys[a].1.iter().zip(&keys[b].1);
        let unequal = pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        let lengths = keys[a].1.len().cmp(&keys[b].1.len());
        unequal.unwrap_or_else(|| lengths.then_with(|| texts[a].cmp(texts[b])))
    });
    Some(order)
}

/// Returns the letters before the first number, and the numbers of a text; "<5" is just below 5, and ">5" just above.
fn numbers_of(text: &str) -> Option<(&str, Vec<f64>)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let at = text.find(is_digit)?;
    let before = &text[..at];
    let parts = text[at..].split(|c: char| !is_digit(c) && c != '.');
    let mut numbers: Vec<f64> = parts.filter_map(|part| part.trim_end_matches('.').parse().ok()).collect();
    let first = numbers.first_mut()?;
    let plain: &str = before.trim_start_matches(['<', '>', '≤', '≥', '$', '-']).trim();
    match before.chars().next() {
        Some('-') => *first = -*first,
        Some('<' | '≤') => *first = first.next_down(),
        Some('>' | '≥') => *first = first.next_up(),
        _ => {}
    }
    Some((plain, numbers))
}

fn by_calendar(texts: &[&str]) -> Option<Vec<usize>> {
    let words: Vec<&str> = texts.iter().map(|text| text.trim_end_matches('.')).collect();
    let calendar: [fn(&str) -> Option<usize>; 2] = [month_of, weekday_of];
    let places: Option<Vec<usize>> =
        calendar.iter().find_map(|place| words.iter().map(|word| place(word)).collect());
    let places = places.filter(|places| places.len() > 1)?;
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&level| places[level]);
    Some(order)
}

fn by_scale(texts: &[&str]) -> Option<Vec<usize>> {
    let levels: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    let order = rating_order(&levels)?;
    Some(order.iter().filter_map(|level| levels.iter().position(|known| known == level)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_scales_are_ordered_by_meaning_and_others_are_not() {
        let order = |levels: &str| {
            let levels: Vec<String> = levels.split(',').map(str::to_owned).collect();
            rating_order(&levels).map(|order| order.join(","))
        };
        for (levels, expected) in [
            ("Excellent,Fair,Good,Poor,Very Good", "Poor,Fair,Good,Very Good,Excellent"),
            ("Above_Average,Average,Very_Poor,Good", "Very_Poor,Average,Above_Average,Good"),
            ("Ideal,Premium,Good,Fair,Very Good", "Fair,Good,Very Good,Premium,Ideal"),
            ("High,Low,Medium", "Low,Medium,High"),
            ("Ex,Gd,TA,Fa,Po", "Po,Fa,TA,Gd,Ex"),
            ("None,Severe,Mild,Moderate", "None,Mild,Moderate,Severe"),
            ("XL,L,M,S,XXL", "S,M,L,XL,XXL"),
            (
                "Agree,Disagree,Neutral,Strongly agree,Strongly disagree",
                "Strongly disagree,Disagree,Neutral,Agree,Strongly agree",
            ),
            ("Always,never,Sometimes", "never,Sometimes,Always"),
            ("2nd,3rd,1st", "1st,2nd,3rd"),
            ("A,B+,B,A-,F", "F,B,B+,A-,A"),
            ("Bachelor,Below_College,College,Doctor,Master", "Below_College,College,Bachelor,Master,Doctor"),
        ] {
            assert_eq!(order(levels).as_deref(), Some(expected), "{levels}");
        }
        let none = "A,B,C|Low,High|Good,Bad,Ugly|north,south,east|mild,slight,severe|M,F,S|1,2,3|";
        for levels in none.split('|') {
            assert_eq!(order(levels), None, "{levels}");
        }
    }

    #[test]
    fn numbers_months_days_and_ratings_have_a_natural_order() {
        let order = |levels: &str| {
            let levels: Vec<&str> = levels.split(',').collect();
            let order = natural_order(&levels)?;
            Some(order.into_iter().map(|place| levels[place]).collect::<Vec<_>>().join(","))
        };
        for (levels, expected) in [
            ("1,10,2,-3", "-3,1,2,10"),
            ("10 beds,2 beds,1 beds", "1 beds,2 beds,10 beds"),
            ("10-19,20+,5-9,<5", "<5,5-9,10-19,20+"),
            ("F10,F2,F1", "F1,F2,F10"),
            ("1a10,1aa,1b9", "1aa,1b9,1a10"),
            ("$1.5,$0.25", "$0.25,$1.5"),
            ("April,August,January,(missing)", "January,April,August,(missing)"),
            ("Dec,Sept,Feb", "Feb,Sept,Dec"),
            ("Friday,Monday,Sunday", "Monday,Friday,Sunday"),
            ("fair,good,poor", "poor,fair,good"),
        ] {
            assert_eq!(order(levels).as_deref(), Some(expected), "{levels}");
        }
        for levels in ["a,b", "A1,B2", "May,Alice", "Sunny,Monday", "north,1", "", "é1x,sunday"] {
            assert_eq!(order(levels), None, "{levels}");
        }
    }

    #[test]
    fn no_scale_has_a_word_twice() {
        for scale in SCALES {
            let mut words: Vec<&str> = scale.split(" < ").flat_map(|same| same.split('|')).collect();
            let count = words.len();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), count, "{scale:?}");
        }
    }
}
