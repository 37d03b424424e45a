//! The keys of a device's header.
//!
//! Owns names and order only; the columns are written as they come from `tables`. Zero is "none" wherever a
//! number is one more than a position.

use crate::report::html::blob::{Column, MOST_EXACT, Part};
use crate::tables::{
    BandBy, Category, Detail, Drawn, Kind, Levels, Lifetimes, RangeColumns, RowColumns, SIZE_CLASSES, Sources,
};

/// The whole header.
pub(super) fn header(
    sources: Sources<'_>,
    total_bytes: Option<u64>,
    lifetimes: &mut Lifetimes<'_>,
    detail: &Detail,
    drawn: &Drawn,
    levels: Option<&Levels>,
    complete: bool,
) -> Part {
    let history = sources.history;
    // Whatever adds texts comes before the texts.
    let steps = steps(sources, lifetimes);
    let sizes = sizes(lifetimes);
    let levels = Part::or_null(levels.map(|levels| self::levels(levels, lifetimes)));
    let ooms = ooms(sources, lifetimes);
    let ooms_left_out = (history.ooms.len().saturating_sub(lifetimes.limits.ooms)) as u64;
    let steps_left_out = sources.steps.rows.len().saturating_sub(lifetimes.limits.steps) as u64;
    let large = drawn.large.as_ref().zip(detail.large_bytes).map(|(rows, least)| {
        Part::Map(vec![("least_bytes", Part::number(least)), ("rows", self::rows(rows))])
    });
    Part::Map(vec![
        ("device", Part::number(u64::from(history.device.0))),
        ("events", Part::number(history.events)),
        ("strings", Part::values(lifetimes.texts.texts().iter().map(String::as_str))),
        ("frames", frames(lifetimes)),
        ("stacks", stacks(lifetimes)),
        ("stacks_left_out", Part::number(lifetimes.stacks.left_out)),
        ("no_stack", no_stack(lifetimes)),
        ("lines", lines(lifetimes)),
        ("lines_left_out", Part::number(lifetimes.lines.left_out)),
        ("categories", Part::values(Category::ALL.map(Category::name))),
        ("modules", Part::values(lifetimes.modules.iter().copied())),
        ("modules_left_out", Part::number(lifetimes.modules_left_out)),
        ("streams", Part::values(lifetimes.numbers.stream_names())),
        ("sizes", sizes),
        ("kinds", kinds(drawn.kinds.rows())),
        ("regions", Part::values(drawn.places.regions.iter().map(|first| format!("{first:#x}")))),
        ("places", places(drawn)),
        ("ranges", ranges(&drawn.ranges)),
        ("ranges_left_out", Part::number(drawn.ranges.left_out)),
        ("pools", Part::values(drawn.ranges.pools.iter().map(|pool| format!("{}:{}", pool.0, pool.1)))),
        ("steps", steps),
        ("steps_left_out", Part::number(steps_left_out)),
        ("ooms", ooms),
        ("ooms_left_out", Part::number(ooms_left_out)),
        ("peaks", peaks(sources)),
        ("total_bytes", Part::number(total_bytes)),
        ("time_origin_us", Part::Value(lifetimes.time_origin_us().map(exact).into())),
        ("complete", complete.into()),
        ("windows", windows(lifetimes, detail, drawn)),
        ("large", Part::or_null(large)),
        ("levels", levels),
    ])
}

/// A time as a script can hold it.
fn exact(time_us: i64) -> i64 {
    time_us.clamp(-(MOST_EXACT as i64), MOST_EXACT as i64)
}

fn plain<T: Copy + Into<u64>>(values: &[T]) -> Part {
    Column::plain(values.iter().copied()).into()
}

fn zigzag<T: Copy + Into<u64>>(values: &[T]) -> Part {
    Column::zigzag(values.iter().copied()).into()
}

fn frames(lifetimes: &Lifetimes<'_>) -> Part {
    let frames = &lifetimes.stacks.frames;
    Part::Map(vec![
        ("file", zigzag(&frames.file)),
        ("line", zigzag(&frames.line)),
        ("function", zigzag(&frames.function)),
    ])
}

fn stacks(lifetimes: &Lifetimes<'_>) -> Part {
    let stacks = &lifetimes.stacks;
    Part::Map(vec![
        ("parent", zigzag(&stacks.parent)),
        ("frame", zigzag(&stacks.frame)),
        ("held", Column::plain(stacks.own.iter().map(|own| own.held_bytes)).into()),
        ("total", Column::plain(stacks.own.iter().map(|own| own.total_bytes)).into()),
        ("count", Column::plain(stacks.own.iter().map(|own| own.allocations)).into()),
    ])
}

fn no_stack(lifetimes: &Lifetimes<'_>) -> Part {
    let own = lifetimes.stacks.no_stack;
    Part::Map(vec![
        ("held", Part::number(own.held_bytes)),
        ("total", Part::number(own.total_bytes)),
        ("count", Part::number(own.allocations)),
    ])
}

fn lines(lifetimes: &Lifetimes<'_>) -> Part {
    let lines = &lifetimes.lines;
    Part::Map(vec![
        ("file", zigzag(&lines.file)),
        ("line", zigzag(&lines.line)),
        ("function", zigzag(&lines.function)),
        ("held", plain(&lines.held)),
        ("own", plain(&lines.own)),
    ])
}

fn sizes(lifetimes: &mut Lifetimes<'_>) -> Part {
    let class = |size: &crate::tables::SizeClass| {
        let name = u64::from(lifetimes.texts.text(size.name));
        Part::Map(vec![("from", Part::number(size.from_bytes)), ("name", Part::number(name))])
    };
    Part::List(SIZE_CLASSES.iter().map(class).collect())
}

fn kinds(kinds: &[Kind]) -> Part {
    let column = |of: fn(&Kind) -> u64| Part::from(Column::plain(kinds.iter().map(of)));
    Part::Map(vec![
        ("stack", Column::zigzag(kinds.iter().map(|kind| kind.stack)).into()),
        ("requested", column(|kind| kind.requested)),
        ("block", column(|kind| kind.block)),
        ("stream", column(|kind| kind.stream.into())),
        ("category", column(|kind| kind.category.into())),
        ("module", column(|kind| kind.module.into())),
        ("line", column(|kind| kind.line.into())),
        ("inferred", column(|kind| kind.inferred.into())),
    ])
}

fn places(drawn: &Drawn) -> Part {
    let (regions, offsets) = drawn.places.columns();
    Part::Map(vec![("region", zigzag(&regions)), ("offset", zigzag(&offsets))])
}

fn ranges(ranges: &RangeColumns) -> Part {
    Part::Map(vec![
        ("region", zigzag(&ranges.region)),
        ("offset", zigzag(&ranges.offset)),
        ("bytes", plain(&ranges.bytes)),
        ("born", zigzag(&ranges.born)),
        ("died", zigzag(&ranges.died)),
        ("stream", plain(&ranges.stream)),
        ("expandable", plain(&ranges.expandable)),
        ("small", plain(&ranges.small)),
        ("pool", plain(&ranges.pool)),
    ])
}

fn steps(sources: Sources<'_>, lifetimes: &mut Lifetimes<'_>) -> Part {
    let kept = &sources.steps.rows[..sources.steps.rows.len().min(lifetimes.limits.steps)];
    let names: Vec<u32> = kept.iter().map(|step| lifetimes.texts.text(&step.name)).collect();
    Part::Map(vec![
        ("name", zigzag(&names)),
        ("begin", Column::zigzag(kept.iter().map(|step| step.begin.0)).into()),
        ("end", Column::zigzag(kept.iter().map(|step| step.end.0)).into()),
    ])
}

fn ooms(sources: Sources<'_>, lifetimes: &Lifetimes<'_>) -> Part {
    let ooms = &sources.history.ooms;
    let kept = &ooms[ooms.len().saturating_sub(lifetimes.limits.ooms)..];
    let oom = |oom: &crate::rebuild::OomEvent| {
        let group = sources.lines.of_stack.get(oom.stack.0 as usize).copied().unwrap_or(u32::MAX);
        Part::Map(vec![
            ("moment", Part::number(oom.event + 1)),
            ("bytes", Part::number(oom.size)),
            ("line", Part::number(u64::from(lifetimes.lines.of(group)))),
        ])
    };
    Part::List(kept.iter().map(oom).collect())
}

fn peaks(sources: Sources<'_>) -> Part {
    let peaks = sources.history.peaks;
    let peak = |peak: crate::rebuild::Peak| {
        Part::Map(vec![("moment", Part::number(peak.moment.0)), ("bytes", Part::number(peak.bytes))])
    };
    Part::Map(vec![
        ("requested", peak(peaks.requested)),
        ("allocated", peak(peaks.allocated)),
        ("active", peak(peaks.active)),
        ("reserved", peak(peaks.reserved)),
    ])
}

fn windows(lifetimes: &Lifetimes<'_>, detail: &Detail, drawn: &Drawn) -> Part {
    let window = |(window, rows): (&std::ops::RangeInclusive<u64>, &RowColumns)| {
        let times = lifetimes.times(window.clone());
        Part::Map(vec![
            ("from", Part::number(*window.start())),
            ("to", Part::number(*window.end())),
            ("rows", self::rows(rows)),
            ("times", Part::or_null(times.map(|times| Column::zigzag(times).into()))),
        ])
    };
    Part::List(detail.windows.iter().zip(&drawn.windows).map(window).collect())
}

fn rows(rows: &RowColumns) -> Part {
    Part::Map(vec![
        ("begin", Column::delta(rows.begin.iter().copied()).into()),
        ("life", plain(&rows.life)),
        ("pending", plain(&rows.pending)),
        ("place", plain(&rows.place)),
        ("kind", plain(&rows.kind)),
        ("initially_pending", Part::values(rows.initially_pending.iter().copied())),
    ])
}

fn levels(levels: &Levels, lifetimes: &mut Lifetimes<'_>) -> Part {
    let starts = (0..levels.len() as u64).map(|cell| cell * levels.width);
    let start_us = lifetimes.times(starts).map(|times| Column::zigzag(times).into());
    let mut parts = vec![
        ("width", Part::number(levels.width)),
        ("cells", Part::number(levels.len() as u64)),
        ("start_us", Part::or_null(start_us)),
    ];
    parts.extend(levels.columns().into_iter().map(|(name, values)| (name, Column::zigzag(values).into())));
    let bands = BandBy::ALL.map(|by| (by.name(), self::bands(levels, by, lifetimes)));
    parts.push(("bands", Part::Map(bands.into())));
    Part::Map(parts)
}

fn bands(levels: &Levels, by: BandBy, lifetimes: &mut Lifetimes<'_>) -> Part {
    let bands = &levels.bands[by as usize].bands;
    let names: Vec<u32> = bands.iter().map(|band| lifetimes.texts.text(&band.name)).collect();
    let columns = levels.of(by);
    let list = |of: fn(&crate::tables::BandLevels) -> &Vec<u64>| {
        Part::List(columns.iter().map(|band| zigzag(of(band))).collect())
    };
    Part::Map(vec![
        ("names", Part::values(names)),
        ("keys", Part::values(bands.iter().map(|band| band.key.map_or(serde_json::Value::Null, Into::into)))),
        ("at_highest", list(|band| &band.at_highest)),
        ("own_highest", list(|band| &band.own_highest)),
    ])
}
