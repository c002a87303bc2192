//! Derives the features of a table, and the statistics of its inputs, from its cells.

use super::check::folded;
use super::check::odd_values;
use super::columns::{
    Feature, FeatureKind, Schema, SchemaOptions, SplitBy, check_labelled, check_rows, special,
};
use super::distinct::Level;
use super::exposures::Censoring;
use super::facts::{BadCells, ColumnFacts, Demand, Role, check_first, share_affine};
use super::groups::{GroupFormula, GroupLevels, check_groups};
use super::left_out::reason;
use super::places::{check_places, gaps, infer_place};
use super::table_facts::TableFacts;
use super::target::TargetEncoding;
use crate::tables::column::level_order;
use crate::tables::marker::long_whole;
use crate::tables::reading::{Reading, Readings};
use crate::tables::table::{quoted, shown};
use crate::tables::written::with_point;
use crate::tables::{DateOrder, Table};
use sparsegp::data::{Affine, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The maximum number of categories of one column, if each is an input.
const MOST_INPUTS: usize = 1000;

/// The maximum number of categories of one column, if one input holds their codes.
const MOST_LEVELS: usize = 10_000;

/// The level that stands for the rarest categories of a column with too many.
const OTHERS: &str = "(others)";

impl Schema {
    /// Like [`Schema::infer`], from the facts about a table.
    pub(crate) fn of_facts(facts: &TableFacts, options: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        check_options(facts, options)?;
        let (source, mut warnings) = (&facts.source, facts.notes.clone());
        let features = infer_features(facts, options, &mut warnings)?;
        // Fixed effects may be an intercept alone.
        let intercept_will_do = options.drop_first && !options.groups.is_empty();
        if features.is_empty() && !intercept_will_do {
            let target = quoted(&options.target);
            return Err(Error::data(format!("{source}: no feature is left besides the target {target}"))
                .hint("exclude fewer columns, or name features with ⟨features⟩"));
        }
        let (encoding, notes) = TargetEncoding::of_facts(facts, options)?;
        warnings.extend(notes);
        let mut schema = Schema {
            features,
            target: options.target.clone(),
            encoding,
            exposure: options
                .exposure
                .as_ref()
                .or(options.trials.as_ref())
                .or(options.noise_std.as_ref())
                .cloned(),
            censored: options.censored.clone(),
            offset: options.offset.clone(),
            weights: options.weights.clone(),
            drop_first: options.drop_first,
            fills: Vec::new(),
            groups: Vec::new(),
            missing: options.missing.clone(),
            readings: options.readings.clone().unwrap_or_default(),
            later: BTreeMap::new(),
        };
        schema.take_facts(facts, false)?;
        schema.read_dates_from_text(facts, options)?;
        warnings.extend(schema.gaps_note(facts)?);
        if schema.dims() == 0 && !intercept_will_do {
            let found = format!("{source}: every feature has the same category in all rows");
            return Err(Error::data(format!("{found}, expected at least one feature that varies")));
        }
        schema.check_exposure_kind(options)?;
        schema.check_positive_columns(facts)?;
        schema.check_offsets(facts)?;
        Ok((schema, warnings))
    }

    /// Lets columns that hold dates here hold dates as text in tables to predict.
    fn read_dates_from_text(&mut self, facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
        let groupings = options.groups.iter().flat_map(GroupFormula::grouping_columns);
        for name in self.features.iter().flat_map(Feature::columns).map(String::as_str).chain(groupings) {
            if facts.require(name)?.is_time() {
                let order = DateOrder::YearMonthDay;
                self.readings.entry(name.to_owned()).or_insert(Reading::Date { order });
            }
        }
        Ok(())
    }

    /// Checks that exposures, numbers of trials and weights suit their roles in every row.
    fn check_positive_columns(&self, facts: &TableFacts) -> Result<()> {
        for (name, role) in [(&self.exposure, self.exposure_role()), (&self.weights, Role::Weight)] {
            let Some(name) = name else { continue };
            let column = facts.require(name)?;
            column.check_numbers()?;
            check_first([column.missing.as_ref(), column.unsuited(role)])?;
        }
        Ok(())
    }

    /// Returns one line about how missing cells are treated, if there are any.
    fn gaps_note(&self, facts: &TableFacts) -> Result<Option<String>> {
        let (mut numbers, mut categories) = (Vec::new(), Vec::new());
        for feature in &self.features {
            let (name, missing) = (feature.name.as_str(), gaps(facts, feature)?.0);
            let list = if feature.is_categorical() { &mut categories } else { &mut numbers };
            list.extend((missing > 0).then(|| (name, format!("{} ({missing})", quoted(name)))));
        }
        let list = |columns: &[(&str, String)]| folded(columns.iter().map(|(_, words)| words.clone()));
        let mut done = Vec::new();
        if let Some((first, _)) = numbers.first() {
            let input = quoted(&format!("{first} is missing"));
            let numbers = list(&numbers);
            done.push(format!("in {numbers} the mean replaces them, and an input {input} marks them"));
        }
        if !categories.is_empty() {
            done.push(format!("in {} they are a separate category", list(&categories)));
        }
        let words = format!("{}: cells are missing: {}", facts.source, done.join("; "));
        Ok((!done.is_empty()).then_some(words))
    }

    /// Checks that every row of the features can be used, as [`Schema::design`] does.
    pub(crate) fn check_facts(&self, facts: &TableFacts) -> Result<()> {
        let misfit = |feature: &Feature| match feature.kind {
            FeatureKind::Numeric => Ok(facts.require(&feature.name)?.infinite.as_ref()),
            FeatureKind::Place { .. } => Ok(facts.require_place()?.misfit.as_ref()),
            FeatureKind::Categorical { .. } | FeatureKind::Date { .. } | FeatureKind::Trees { .. } => {
                Ok(None)
            }
        };
        check_first(self.features.iter().map(misfit).collect::<Result<Vec<_>>>()?)
    }

    /// Returns the scaling that [`Scaling::standardise`] computes on the `rows` training rows, and the names of the inputs whose value is
    /// the same in all of them.
    pub(crate) fn scaling_of_facts(&self, facts: &TableFacts, rows: usize) -> Result<(Scaling, Vec<String>)> {
        let of_share = |affine: Affine| (affine, affine.shift == 0.0 || affine.shift == 1.0);
        let mut inputs: Vec<(Affine, bool)> = Vec::with_capacity(self.dims());
        for feature in self.features.iter().filter(|feature| feature.is_of_columns()) {
            let column = facts.require(&feature.columns()[0])?;
            let missing = of_share(share_affine(gaps(facts, feature)?.1, rows));
            match &feature.kind {
                FeatureKind::Place { .. } => inputs.extend(facts.require_place()?.affines()),
                FeatureKind::Numeric => inputs.push((column.affine(), !column.varies_in_training())),
                FeatureKind::Date { origin, cycles } => {
                    let calendar = column.calendar.clone().unwrap_or_default();
                    let affines = calendar.affines(*origin, cycles, column.gaps.1).into_iter();
                    // Only the trend counts as constant.
                    let constant = std::iter::once(!column.varies_in_training());
                    inputs.extend(affines.zip(constant.chain(std::iter::repeat(false))));
                }
                FeatureKind::Categorical { levels, coded: true, .. } => {
                    let all = |affine: Affine| affine.shift == 1.0;
                    let constant = (feature.missing && all(missing.0))
                        || levels.iter().any(|level| all(column.level_affine(level, rows)));
                    inputs.push((Affine::IDENTITY, constant));
                }
                FeatureKind::Categorical { levels, .. } => {
                    let levels = levels.iter().skip(usize::from(self.drop_first));
                    inputs.extend(levels.map(|level| of_share(column.level_affine(level, rows))));
                }
                FeatureKind::Trees { .. } => {}
            }
            inputs.extend(feature.tells_missing().then_some(missing));
        }
        let (mut affines, constant): (Vec<Affine>, Vec<bool>) = inputs.into_iter().unzip();
        affines.extend(self.groups().iter().map(|_| Affine::IDENTITY));
        for name in self.slope_columns() {
            affines.push(facts.require(name)?.affine());
        }
        // The fit scales offsets with the target.
        affines.extend(self.offset.iter().map(|_| Affine::IDENTITY));
        let scaling = Scaling::linear(affines, facts.require(&self.target)?.affine());
        let named = self.input_names().into_iter().zip(constant);
        Ok((scaling, named.filter_map(|(name, constant)| constant.then_some(name)).collect()))
    }
}

impl SchemaOptions {
    fn is_feature(&self, name: &str) -> bool {
        let is = |known: &String| known == name;
        let by_default = || {
            let splits = matches!(&self.split, Some(SplitBy::Group(group)) if is(group));
            !splits && !self.groups.iter().flat_map(GroupFormula::grouping_columns).any(|known| known == name)
        };
        let wanted = self.is_place(name)
            || self.features.as_ref().map_or_else(by_default, |features| features.iter().any(is));
        wanted && !special(self).any(|(_, known)| known == name) && !self.exclude.iter().any(is)
    }

    fn is_categorical(&self, name: &str) -> bool {
        self.categorical.iter().any(|known| known == name)
    }

    /// Returns true if a column of the file is used.
    pub fn uses(&self, name: &str) -> bool {
        self.demand(name).is_some()
    }

    /// Decides from the cells and the options how text columns are converted. Returns the conversions, and one line about them for the
    /// user.
    pub(crate) fn readings_of(&self, facts: &TableFacts) -> Result<(Readings, Option<String>)> {
        check_ordered(facts, self)?;
        let (mut readings, mut words) = (Readings::new(), Vec::new());
        let (mut ordered, mut codes) = (Vec::new(), Vec::new());
        words.extend(facts.decimal_comma.as_deref().map(|cell| {
            let value = with_point(cell);
            format!("all with a decimal comma ({cell:?} is {value})")
        }));
        for (name, levels) in &self.ordered {
            readings.insert(name.clone(), Reading::Ordered { levels: levels.clone(), open: false });
        }
        let declared = |name: &&str| self.is_categorical(name) || readings.contains_key(*name);
        let free: Vec<&str> = facts.names().filter(|name| !declared(name)).collect();
        for name in free {
            let classes = name == self.target && self.positive_label.is_some();
            let Some(column) = facts.require(name).ok().filter(|_| !classes) else { continue };
            // Numbers would merge whole numbers beyond 2^53.
            let levels = || self.groups.iter().flat_map(GroupFormula::grouping_columns);
            let long = |level: &Level| long_whole(&level.text).is_some();
            let identifiers = column.distinct.levels.iter().any(long) && levels().any(|level| level == name);
            if let Some((reading, example)) = column.reading().filter(|_| !identifiers) {
                words.push(format!("{} {example}", quoted(name)));
                readings.insert(name.to_owned(), reading);
            } else if let Some(code) = column.code() {
                codes.push(format!("{} ({code:?})", quoted(name)));
            } else if let Some(levels) = column.rating().filter(|_| name != self.target) {
                ordered.push(format!("{} ({})", quoted(name), levels.join(" < ")));
                readings.insert(name.to_owned(), Reading::Ordered { levels, open: true });
            }
        }
        let parts = [
            ("numbers and dates as written", words),
            ("levels in the order of their meaning", ordered),
            ("codes with leading zeros stay text", codes),
        ];
        let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
        let told: Vec<String> =
            parts.map(|(what, words)| format!("{what}: {}", folded(words.into_iter()))).collect();
        let told = (!told.is_empty()).then(|| format!("{}: {}", facts.source, told.join("; ")));
        Ok((readings, told))
    }

    /// The kind of target, if the options determine it; an exposure implies counts, trials imply successes, standard errors imply numbers, and
    /// censoring implies times.
    pub(crate) fn kind(&self) -> Option<TargetKind> {
        let implied = [
            (&self.exposure, TargetKind::Count),
            (&self.trials, TargetKind::Trials),
            (&self.noise_std, TargetKind::Measured),
        ];
        let implied = implied.into_iter().find(|(name, _)| name.is_some()).map(|(_, kind)| kind);
        match (self.target_kind.or(implied), &self.censored) {
            (None, Some(_)) => Some(TargetKind::Lifetime),
            (Some(TargetKind::Count), Some(_)) if self.exposure.is_some() => Some(TargetKind::CensoredCount),
            (kind, _) => kind,
        }
    }

    /// Returns what the values of a column must be, or `None` for a column that is not used.
    pub(crate) fn demand(&self, name: &str) -> Option<Demand> {
        if let Some(known) = &self.known {
            return (known.uses(name) || known.weights_name() == Some(name)).then_some(Demand::None);
        }
        if name == self.target {
            // If the options leave the kind open, one of these is inferred.
            let guessed = || if self.classes { vec![] } else { vec![TargetKind::Real, TargetKind::Count] };
            let kinds = self.kind().map_or_else(guessed, |kind| vec![kind]);
            return Some(Demand::Role(kinds.into_iter().map(Role::Target).collect()));
        }
        if self.censored.iter().flat_map(Censoring::columns).any(|(_, own)| own == name) {
            return Some(Demand::None);
        }
        let roles = [
            (&self.exposure, Role::Exposure),
            (&self.trials, Role::Trials),
            (&self.noise_std, Role::NoiseStd),
            (&self.weights, Role::Weight),
        ];
        if let Some((_, role)) = roles.into_iter().find(|(column, _)| column.as_deref() == Some(name)) {
            return Some(Demand::Role(vec![role]));
        }
        if self.offset.iter().any(|offset| offset == name) {
            return Some(Demand::Role(vec![Role::Offset]));
        }
        let grouped = || self.groups.iter().flat_map(GroupFormula::columns).any(|column| column == name);
        (self.is_feature(name) || grouped()).then_some(Demand::None)
    }
}

/// Checks that every column that an option names exists, and that the options do not contradict each other.
fn check_options(facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
    let features = options.features.as_deref().unwrap_or_default();
    let others = features.iter().chain(&options.exclude).chain(&options.categorical).chain(&options.keep);
    let named = special(options).map(|(_, name)| name).chain(others.map(String::as_str));
    named.chain(options.split.iter().map(SplitBy::column)).try_for_each(|name| facts.require_name(name))?;
    check_roles(options)?;
    check_groups(facts, options)?;
    check_places(facts, options)?;
    let mut seen = HashSet::new();
    if let Some(twice) = features.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(Error::usage(format!("the feature {} is given twice", quoted(twice))));
    }
    check_rows(&facts.source, facts.rows)
}

/// Checks that columns of ordered levels exist, have no other role and no level twice.
fn check_ordered(facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
    for (name, levels) in &options.ordered {
        facts.require_name(name)?;
        let role = special(options).find(|(_, other)| other == name).map(|(role, _)| role);
        let role = role.or(options.categorical.contains(name).then_some("categorical"));
        let twice = levels.iter().enumerate().find(|(at, level)| levels[..*at].contains(level));
        let wrong = match (role, twice) {
            (Some(role), _) => format!("the column {} cannot be both ordered and {role}", quoted(name)),
            (None, Some((_, level))) => format!("⟨ordered {name}⟩ has the level {} twice", quoted(level)),
            (None, None) => continue,
        };
        return Err(Error::usage(wrong));
    }
    Ok(())
}

/// Checks that no column has two roles.
fn check_roles(options: &SchemaOptions) -> Result<()> {
    let known =
        [("exposure", &options.exposure), ("trials", &options.trials), ("noise-std", &options.noise_std)];
    let mut known =
        known.into_iter().filter_map(|(role, name)| Some(format!("the {role} {}", quoted(name.as_ref()?))));
    if let (Some(one), Some(other)) = (known.next(), known.next()) {
        return Err(Error::usage(format!("{one} and {other} are for different targets, expected only one of them"))
            .hint("use ⟨exposure⟩ for counts of events, ⟨trials⟩ for successes in trials, and ⟨noise-std⟩ for numbers with standard errors"));
    }
    let features = options.features.as_deref().unwrap_or_default();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for (role, name) in special(options) {
        if let Some(other) = seen.insert(name, role) {
            let column = quoted(name);
            return Err(Error::usage(format!("the column {column} cannot be both {other} and {role}"))
                .hint(format!("name another column as {role}")));
        }
        if features.iter().any(|feature| feature == name) {
            return Err(Error::usage(format!("the {role} {} cannot be a feature too", quoted(name))));
        }
    }
    Ok(())
}

/// The categorical columns that look suspicious, each with the reason where columns differ in it.
#[derive(Default)]
struct Doubts {
    /// Columns with a different category in every row.
    identifiers: Vec<String>,
    /// Columns with a category that spans several lines, with that category.
    lines: Vec<String>,
    /// Columns with more numbers than other text, with examples of that text.
    mixed: Vec<String>,
    /// Columns with too many categories, with their number.
    many: Vec<String>,
}

impl Doubts {
    /// Returns one line for each kind of doubt.
    fn told(self, source: &str) -> impl Iterator<Item = String> {
        let kinds = [
            ("columns with a different category in every row are likely identifiers", self.identifiers),
            ("columns have categories of several lines", self.lines),
            ("columns of numbers and text are categories", self.mixed),
            ("the rarest categories are treated as one", self.many),
        ];
        let kinds = kinds.into_iter().filter(|(_, columns)| !columns.is_empty());
        kinds.map(move |(what, columns)| format!("{source}: {what}: {}", folded(columns.into_iter())))
    }
}

/// Returns the columns that are left out although no option excludes them, and adds one line about them to `notes`. If that would leave no
/// column, all columns with values are kept.
fn left_out<'a>(
    facts: &TableFacts,
    names: &[&'a str],
    options: &SchemaOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<&'a str>> {
    if options.features.is_some() {
        return Ok(Vec::new());
    }
    let follows = facts.require(&options.target)?.follows_rows();
    let mut found = Vec::new();
    for &name in names {
        let asked = options.keep.iter().chain(&options.categorical).any(|kept| kept == name)
            || options.is_place(name)
            // Identifiers have no currency and no separators of thousands.
            || options.readings.as_ref().is_some_and(|readings| readings.contains_key(name));
        let reason = reason(name, facts.require(name)?, most_levels(!options.drop_first), follows);
        found.extend(reason.filter(|_| !asked).map(|reason| (name, reason)));
    }
    if found.len() == names.len() {
        // In this case only columns without values are left out.
        found.retain(|(name, _)| facts.require(name).is_ok_and(|column| column.present == 0));
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let words = folded(found.iter().map(|(name, reason)| format!("{} ({reason})", quoted(name))));
    let kept: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let (noun, them) = if kept.len() == 1 { ("column", "it") } else { ("columns", "them") };
    let (source, names) = (&facts.source, kept.join(","));
    let names = if names.contains(' ') { format!("'{names}'") } else { names };
    notes.push(format!("{source}: {noun} left out: {words}; ⟨keep {names}⟩ keeps {them}"));
    Ok(kept)
}

fn infer_features(
    facts: &TableFacts,
    options: &SchemaOptions,
    warnings: &mut Vec<String>,
) -> Result<Vec<Feature>> {
    let names: Vec<&str> = match &options.features {
        Some(features) => features.iter().map(String::as_str).collect(),
        None => facts.names().collect(),
    };
    let names = options.with_place(names);
    let names: Vec<&str> = names.into_iter().filter(|name| options.is_feature(name)).collect();
    let left_out = left_out(facts, &names, options, warnings)?;
    let names: Vec<&str> = names.into_iter().filter(|name| !left_out.contains(name)).collect();
    check_cells(facts, names.iter().copied().filter(|name| !options.is_categorical(name)))?;
    let (mut features, mut doubts) = (Vec::new(), Doubts::default());
    let mut place = options.places.as_ref();
    for name in names {
        if options.is_place(name) {
            features.extend(place.take().map(|places| infer_place(facts, places)).transpose()?);
            continue;
        }
        features.push(infer_feature(facts, name, options, &mut doubts)?);
    }
    warnings.extend(doubts.told(&facts.source));
    Ok(features)
}

/// Returns the meaning of one column; see [`Schema::infer`] for the rule.
fn infer_feature(
    facts: &TableFacts,
    name: &str,
    options: &SchemaOptions,
    doubts: &mut Doubts,
) -> Result<Feature> {
    let declared = options.is_categorical(name);
    let column = facts.require(name)?;
    column.supported()?;
    let kind = if column.is_time() {
        if declared {
            let found = format!("{}: column {} holds dates", facts.source, quoted(name));
            return Err(Error::data(format!("{found}, expected categories"))
                .hint("leave it out of ⟨categorical⟩: dates make a trend and phases of day, week and year"));
        }
        // The facts complete dates and places.
        FeatureKind::Date { origin: 0.0, cycles: Vec::new() }
    } else if !declared && (!column.has_text() || column.is_boolean()) {
        FeatureKind::Numeric
    } else {
        if !declared && column.is_mostly_numbers() {
            doubts.mixed.push(format!("{} ({})", quoted(name), column.bad.words()));
        }
        categorical(facts, name, !options.drop_first, column, doubts)
    };
    Ok(Feature { name: name.to_owned(), kind, missing: column.gaps.1 > 0 })
}

/// Checks that no column of numbers contains mistakes, such as a word among numbers; one error reports all such columns.
fn check_cells<'a>(facts: &TableFacts, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let (mut bad, mut wrong) = (BadCells::default(), Vec::new());
    for name in names {
        let column = facts.require(name)?;
        let free = column.supported().is_ok() && column.has_text() && !column.is_boolean();
        if free && column.holds_mistakes() {
            bad.merge(column.bad.clone());
            wrong.push((name, column));
        }
    }
    let Some((_, first)) = wrong.first() else { return Ok(()) };
    let names = wrong.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    let error = bad.error(&facts.source).unwrap_or_else(|| first.not_a_number());
    Err(error.hint(format!(
        "correct or remove the row; if the column holds categories, use ⟨categorical {names}⟩"
    )))
}

/// The maximum number of levels of a categorical column: one input holds their codes, or each level has an input.
fn most_levels(coded: bool) -> usize {
    if coded { MOST_LEVELS } else { MOST_INPUTS }
}

fn categorical(
    facts: &TableFacts,
    name: &str,
    coded: bool,
    values: &ColumnFacts,
    doubts: &mut Doubts,
) -> FeatureKind {
    let mut levels = values.distinct.texts();
    let most = most_levels(coded);
    let rest = levels.len() > most || values.distinct.more;
    if rest {
        let mut frequent: Vec<&Level> = values.distinct.levels.iter().collect();
        frequent.sort_by_key(|level| std::cmp::Reverse(level.rows));
        levels = frequent.iter().take(most - 1).map(|level| level.text.clone()).collect();
        doubts.many.push(format!("{} ({} categories)", quoted(name), values.distinct.count()));
    }
    if levels.len() > 2 && levels.len() == facts.rows {
        doubts.identifiers.push(quoted(name));
    }
    if let Some(level) = levels.iter().find(|level| level.contains('\n')) {
        doubts.lines.push(format!("{} ({})", quoted(name), shown(level)));
    }
    levels.sort_by(|a, b| level_order(a, b));
    levels.extend(rest.then(|| OTHERS.to_owned()));
    FeatureKind::Categorical { levels, coded, rest }
}

impl Schema {
    /// Finds the features of a training table and checks that a model can learn from it. Rows without a target are ignored.
    ///
    /// The columns of [`SchemaOptions::places`] are one feature. A column of numbers (or of `true` and `false`) is numeric and a column of
    /// text is categorical. In a column with at least 20 values and at least 90 % numbers, text counts as missing; any other column that
    /// mixes both is categorical. The error for shorter columns, and for numbers in different units, names the first such cells.
    ///
    /// Unless the options set the kind of target, the values decide. Two distinct values are binary if they are text, or true and false, or
    /// numbers in more than two rows. Text with more distinct values, each at least twice on average, has classes. Whole numbers that begin
    /// at 0 or 1 and become rarer are counts (see `counts`). Other numbers are real.
    ///
    /// The positive class is the requested class. Without a request it is the class that means yes if the other means no (as in yes and no,
    /// true and false, 1 and -1). Otherwise it is the larger number, or the text with fewer rows, or the later text in sorted order.
    ///
    /// Returns the schema, and warnings about columns that can be used but look wrong.
    ///
    /// # Errors
    ///
    /// If the target or another named column is absent, no feature is left, a column holds values that do not
    /// suit its role, there is only one row, or the target cannot be learned from: a value is missing or not of the kind, the values do not
    /// vary, there are not exactly two classes, the levels have a gap or are too few or too many, or the requested positive class does not
    /// occur. Usage errors if a column has two roles, if an exposure is given for a target that is not a count, or trials for one that is
    /// not a number of successes, or if a positive class is requested for a target without classes.
    pub fn infer(table: &Table, options: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        let (labelled, mut notes) = (table.with_values(&options.target), Vec::new());
        if let Some(known) = &options.known {
            known.check_training(&labelled)?;
            return Ok((known.clone(), Vec::new()));
        }
        let readings = options.readings.clone().unwrap_or_default();
        let read = labelled.read(&readings, &|_| true)?;
        let names = table.columns().iter().map(|named| named.name.as_str());
        let places = options.places.as_ref();
        let mut facts = TableFacts::new(table.source(), names, &|name| options.demand(name), places);
        facts.push(&read, None);
        let unlabelled = check_labelled(&options.target, &facts.source, labelled.rows(), table.rows())?;
        if options.readings.is_none() {
            let (found, note) = options.readings_of(&facts)?;
            if !found.is_empty() {
                let options = SchemaOptions { readings: Some(found), ..options.clone() };
                let (schema, notes) = Schema::infer(table, &options)?;
                return Ok((schema, note.into_iter().chain(notes).collect()));
            }
            notes.extend(note);
        }
        let (mut schema, found) = Schema::of_facts(&facts, options)?;
        let mut levels = GroupLevels::default();
        levels.push(&read, options)?;
        schema.take_groups(&levels, options)?;
        notes.extend(found);
        notes.extend(unlabelled);
        notes.extend(odd_values(&facts, &schema, &read)?);
        Ok((schema, notes))
    }
}
