//! Derives the features of a table, and the statistics of its inputs, from the facts about its
//! columns.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::bad_cells::BadCells;
use super::check::folded;
use super::columns::{Feature, Schema, SchemaOptions, SplitBy, check_rows, special};
use super::distinct::Level;
use super::facts::{ColumnFacts, Demand, Misfit, Positive, share_affine};
use super::group_formula::GroupFormula;
use super::groups::check_groups;
use super::left_out::reason;
use super::places::{check_places, gaps, infer_place};
use super::table_facts::TableFacts;
use super::target::TargetEncoding;
use crate::tables::DateOrder;
use crate::tables::column::level_order;
use crate::tables::marker::long_whole;
use crate::tables::reading::{Reading, Readings};
use crate::tables::table::{quoted, shown};
use crate::tables::written::with_point;
use sparsegp::data::{Affine, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;

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
        let mut warnings = facts.notes.clone();
        let features = infer_features(facts, options, &mut warnings)?;
        // Fixed effects may be an intercept alone.
        let intercept_will_do = options.drop_first && !options.groups.is_empty();
        if features.is_empty() && !intercept_will_do {
            return Err(Error::data(format!(
                "{}: no feature is left besides the target {}",
                facts.source,
                quoted(&options.target)
            ))
            .hint("exclude fewer columns, or name features with ⟨features⟩"));
        }
        let (encoding, notes) = TargetEncoding::of_facts(facts, options)?;
        warnings.extend(notes);
        let schema = Schema {
            features,
            target: options.target.clone(),
            encoding,
            exposure: options.exposure.clone(),
            weights: options.weights.clone(),
            drop_first: options.drop_first,
            fills: Vec::new(),
            groups: Vec::new(),
            missing: options.missing.clone(),
            readings: options.readings.clone().unwrap_or_default(),
            later: BTreeMap::new(),
        };
        let mut schema = Schema { fills: schema.means(facts)?, ..schema };
        schema.read_dates_from_text(facts, options)?;
        warnings.extend(schema.gaps_note(facts)?);
        if schema.dims() == 0 && !intercept_will_do {
            return Err(Error::data(format!(
                "{}: every feature has the same category in all rows, expected at least one feature that varies",
                facts.source
            )));
        }
        schema.check_exposure_kind()?;
        schema.check_positive_columns(facts)?;
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

    /// Checks that the exposure and the weights are numbers above 0 in every row.
    fn check_positive_columns(&self, facts: &TableFacts) -> Result<()> {
        for name in self.exposure.iter().chain(&self.weights) {
            let column = facts.require(name)?;
            column.check_numbers()?;
            let misfits = [&column.missing, &column.not_positive].into_iter().flatten();
            misfits.min_by_key(|misfit| misfit.row).map_or(Ok(()), |first| Err(first.error.clone()))?;
        }
        Ok(())
    }

    /// The mean of each numeric feature over the training rows, 0 for others.
    fn means(&self, facts: &TableFacts) -> Result<Vec<f64>> {
        let mean = |feature: &Feature| match feature {
            Feature::Numeric { name, .. } => Ok(facts.require(name)?.affine().shift),
            Feature::Date { name, .. } => {
                Ok(facts.require(name)?.calendar.as_ref().map_or(0.0, |calendar| calendar.mean()))
            }
            Feature::Place { .. } | Feature::Categorical { .. } => Ok(0.0),
        };
        self.features.iter().map(mean).collect()
    }

    /// Returns one line about how missing cells are treated, if there are any.
    fn gaps_note(&self, facts: &TableFacts) -> Result<Option<String>> {
        let (mut numbers, mut categories) = (Vec::new(), Vec::new());
        for feature in &self.features {
            let missing = gaps(facts, feature)?.0;
            let list = match feature {
                Feature::Numeric { .. } | Feature::Date { .. } | Feature::Place { .. } => &mut numbers,
                Feature::Categorical { .. } => &mut categories,
            };
            list.extend(
                (missing > 0).then(|| (feature.name(), format!("{} ({missing})", quoted(feature.name())))),
            );
        }
        let list = |columns: &[(&str, String)]| folded(columns.iter().map(|(_, words)| words.clone()));
        let mut done = Vec::new();
        if let Some((first, _)) = numbers.first() {
            let input = quoted(&format!("{first} is missing"));
            done.push(format!(
                "in {} the mean replaces them, and an input {input} marks them",
                list(&numbers)
            ));
        }
        if !categories.is_empty() {
            done.push(format!("in {} they are a separate category", list(&categories)));
        }
        let words = format!("{}: cells are missing: {}", facts.source, done.join("; "));
        Ok((!done.is_empty()).then_some(words))
    }

    /// Checks that every row of the features can be used, as [`Schema::design`] does.
    pub(crate) fn check_facts(&self, facts: &TableFacts) -> Result<()> {
        let mut first: Option<&Misfit> = None;
        for feature in &self.features {
            let misfit = match feature {
                Feature::Numeric { name, .. } => facts.require(name)?.infinite.as_ref(),
                Feature::Place { .. } => facts.require_place()?.misfit.as_ref(),
                Feature::Categorical { .. } | Feature::Date { .. } => None,
            };
            first = [first, misfit].into_iter().flatten().min_by_key(|misfit| misfit.row);
        }
        first.map_or(Ok(()), |misfit| Err(misfit.error.clone()))
    }

    /// Returns the scaling that [`Scaling::standardise`] computes on the `rows` training rows, and the names of the inputs whose value is
    /// the same in all of them.
    pub(crate) fn scaling_of_facts(&self, facts: &TableFacts, rows: usize) -> Result<(Scaling, Vec<String>)> {
        let of_share = |affine: Affine| (affine, affine.shift == 0.0 || affine.shift == 1.0);
        let mut inputs: Vec<(Affine, bool)> = Vec::with_capacity(self.dims());
        for feature in &self.features {
            let column = facts.require(&feature.columns()[0])?;
            let missing = of_share(share_affine(gaps(facts, feature)?.1, rows));
            match feature {
                Feature::Place { .. } => {
                    let place = facts.require_place()?;
                    inputs
                        .extend(place.affines().into_iter().zip(place.varies().iter().map(|varies| !varies)));
                }
                Feature::Numeric { .. } => inputs.push((column.affine(), !column.varies_in_training())),
                Feature::Date { origin, cycles, .. } => {
                    let calendar = column.calendar.clone().unwrap_or_default();
                    let affines = calendar.affines(*origin, cycles, column.gaps.1).into_iter();
                    // Only the trend counts as constant.
                    let constant = std::iter::once(!column.varies_in_training());
                    inputs.extend(affines.zip(constant.chain(std::iter::repeat(false))));
                }
                Feature::Categorical { levels, missing: own, coded: true, .. } => {
                    let all = |affine: Affine| affine.shift == 1.0;
                    let constant = (*own && all(missing.0))
                        || levels.iter().any(|level| all(column.level_affine(level, rows)));
                    inputs.push((Affine::IDENTITY, constant));
                }
                Feature::Categorical { levels, .. } => {
                    let levels = levels.iter().skip(self.first_level());
                    inputs.extend(levels.map(|level| of_share(column.level_affine(level, rows))));
                }
            }
            inputs.extend(feature.tells_missing().then_some(missing));
        }
        let (mut affines, constant): (Vec<Affine>, Vec<bool>) = inputs.into_iter().unzip();
        affines.extend(self.groups().iter().map(|_| Affine::IDENTITY));
        for name in self.slope_columns() {
            affines.push(facts.require(name)?.affine());
        }
        let scaling = Scaling::linear(affines, facts.require(&self.target)?.affine());
        let named = self.input_names().into_iter().zip(constant);
        Ok((scaling, named.filter_map(|(name, constant)| constant.then_some(name)).collect()))
    }
}

impl SchemaOptions {
    /// Returns true if a column of the file is a feature.
    fn is_feature(&self, name: &str) -> bool {
        let named = self.features.as_ref().is_none_or(|features| features.iter().any(|known| known == name));
        let named = named || self.is_place(name);
        let group = match &self.split {
            Some(SplitBy::Group(group)) => self.features.is_none() && group == name,
            _ => false,
        };
        let levels = self.groups.iter().flat_map(GroupFormula::grouping_columns).any(|column| column == name);
        let group = (group || (levels && self.features.is_none())) && !self.is_place(name);
        named
            && !group
            && !special(self).any(|(_, column)| column == name)
            && !self.exclude.iter().any(|known| known == name)
    }

    /// Returns true if a column is declared as categories.
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

    /// The kind of target, if the options determine it; an exposure implies counts.
    pub(crate) fn kind(&self) -> Option<TargetKind> {
        self.target_kind.or(self.exposure.as_ref().map(|_| TargetKind::Count))
    }

    /// Returns what the values of a column must be, or `None` for a column that is not used.
    pub(crate) fn demand(&self, name: &str) -> Option<Demand> {
        if name == self.target {
            // If the options leave the kind open, one of these is inferred.
            let guessed = || if self.classes { vec![] } else { vec![TargetKind::Real, TargetKind::Count] };
            return Some(Demand::Target(self.kind().map_or_else(guessed, |kind| vec![kind])));
        }
        let role = [(&self.exposure, Positive::Exposure), (&self.weights, Positive::Weight)];
        match role.into_iter().find(|(column, _)| column.as_deref() == Some(name)) {
            Some((_, positive)) => Some(Demand::Positive(positive)),
            None => {
                let grouped =
                    || self.groups.iter().flat_map(GroupFormula::columns).any(|column| column == name);
                (self.is_feature(name) || grouped()).then_some(Demand::None)
            }
        }
    }
}

/// Checks that every column that an option names exists, and that the options do not contradict each other.
fn check_options(facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
    for (_, name) in special(options) {
        facts.require_name(name)?;
    }
    let features = options.features.as_deref().unwrap_or_default();
    for name in features.iter().chain(&options.exclude).chain(&options.categorical).chain(&options.keep) {
        facts.require_name(name)?;
    }
    options.split.iter().try_for_each(|by| facts.require_name(by.column()))?;
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
    let features = options.features.as_deref().unwrap_or_default();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for (role, name) in special(options) {
        if let Some(other) = seen.insert(name, role) {
            return Err(Error::usage(format!(
                "the column {} cannot be both {other} and {role}",
                quoted(name)
            ))
            .hint(format!("name another column as {role}")));
        }
        if features.iter().any(|feature| feature == name) {
            return Err(Error::usage(format!("the {role} {} cannot be a feature too", quoted(name))));
        }
    }
    Ok(())
}

/// The categorical columns that look suspicious.
#[derive(Default)]
struct Doubts {
    /// Columns with a different category in every row.
    identifiers: Vec<String>,
    /// Columns with a category that spans several lines, each with that category.
    lines: Vec<(String, String)>,
    /// Columns with more numbers than other text, each with examples of that text.
    mixed: Vec<(String, String)>,
    /// Columns with too many categories, each with their number.
    many: Vec<(String, String)>,
}

impl Doubts {
    /// Returns one line for each kind of doubt.
    fn told(&self, source: &str) -> Vec<String> {
        let listed = |what: &str, columns: &[(String, String)]| {
            let list = folded(columns.iter().map(|(name, about)| format!("{name} ({about})")));
            (!columns.is_empty()).then(|| format!("{source}: {what}: {list}"))
        };
        let identifiers = match self.identifiers.as_slice() {
            [] => None,
            [name] => Some(format!(
                "{source}: column {name} has a different category in every row; it is likely an identifier"
            )),
            names => Some(format!(
                "{source}: columns {} have a different category in every row; they are likely identifiers",
                folded(names.iter().cloned())
            )),
        };
        let lines = match self.lines.as_slice() {
            [] => None,
            [(name, level)] => {
                Some(format!("{source}: column {name} has a category of several lines, {level}"))
            }
            columns => listed("columns have categories of several lines", columns),
        };
        let mixed = listed("columns of numbers and text are categories", &self.mixed);
        let many = listed("the rarest categories are treated as one", &self.many);
        identifiers.into_iter().chain(lines).chain(mixed).chain(many).collect()
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
        let asked = [&options.keep, &options.categorical].into_iter().flatten().any(|kept| kept == name);
        let asked = asked || options.is_place(name);
        // Identifiers have no currency and no separators of thousands.
        let asked = asked || options.readings.as_ref().is_some_and(|readings| readings.contains_key(name));
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
    notes.push(format!(
        "{}: {noun} left out: {words}; ⟨keep {}⟩ keeps {them}",
        facts.source,
        if kept.iter().any(|name| name.contains(' ')) {
            format!("'{}'", kept.join(","))
        } else {
            kept.join(",")
        }
    ));
    Ok(kept)
}

/// Returns the features: the meaning of every column that is used as one.
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
    let (declared, coded) = (options.is_categorical(name), !options.drop_first);
    let column = facts.require(name)?;
    column.supported()?;
    if let Some(calendar) = column.calendar.as_ref() {
        if declared {
            return Err(Error::data(format!(
                "{}: column {} holds dates, expected categories",
                facts.source,
                quoted(name)
            ))
            .hint("leave it out of ⟨categorical⟩: dates make a trend and phases of day, week and year"));
        }
        let (origin, cycles) = (calendar.origin(), calendar.cycles());
        return Ok(Feature::Date { name: name.to_owned(), origin, cycles, missing: column.gaps.1 > 0 });
    }
    if declared {
        return Ok(categorical(facts, name, coded, column, doubts));
    }
    if !column.has_text() || column.is_boolean() {
        return Ok(Feature::Numeric { name: name.to_owned(), missing: column.gaps.1 > 0 });
    }
    if column.is_mostly_numbers() {
        doubts.mixed.push((quoted(name), column.bad.words()));
    }
    Ok(categorical(facts, name, coded, column, doubts))
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
) -> Feature {
    let mut levels = values.distinct.texts();
    let most = most_levels(coded);
    let rest = levels.len() > most || values.distinct.more;
    if rest {
        let mut frequent: Vec<&Level> = values.distinct.levels.iter().collect();
        frequent.sort_by_key(|level| std::cmp::Reverse(level.rows));
        levels = frequent.iter().take(most - 1).map(|level| level.text.clone()).collect();
        doubts.many.push((quoted(name), format!("{} categories", values.distinct.count())));
    }
    if levels.len() > 2 && levels.len() == facts.rows {
        doubts.identifiers.push(quoted(name));
    }
    if let Some(level) = levels.iter().find(|level| level.contains('\n')) {
        doubts.lines.push((quoted(name), shown(level)));
    }
    levels.sort_by(|a, b| level_order(a, b));
    levels.extend(rest.then(|| OTHERS.to_owned()));
    Feature::Categorical { name: name.to_owned(), levels, missing: values.gaps.1 > 0, coded, rest }
}
