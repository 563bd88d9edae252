//! `terret models`: what is known of models. It asks nobody.

use serde_json::json;
use terret::core::price::{Prices, Rate};
use terret::model::Models;
use terret::model::catalogue::{self, Model};

use crate::args;
use crate::open;
use crate::problem::Problem;
use crate::render;

pub(crate) fn models(args: &args::Models) -> Result<u8, Problem> {
    let config = open::config(&open::cwd(None)?, &args.sets)?;
    let providers = super::run::providers(&config)?;
    // Those that are set stand for those that are listed.
    let mut listed: Vec<(Model, bool)> = Vec::new();
    let mut configured = Vec::new();
    for name in config.models() {
        let (provider, model) = terret::agent::parse_route(&name)?;
        let known = providers.known(&provider, &model).unwrap_or_default();
        configured.push(Model { provider, id: model, ..known });
    }
    let is_set = |model: &Model| configured.iter().any(|c| c.provider == model.provider && c.id == model.id);
    listed.extend(catalogue::all().filter(|model| !is_set(model)).map(|model| (model, false)));
    listed.extend(configured.into_iter().map(|model| (model, true)));
    let wanted = args.provider.as_deref();
    let is_provider = listed.iter().any(|(model, _)| wanted == Some(&model.provider));
    listed.retain(|(model, _)| wanted.is_none_or(|wanted| fits(model, wanted, is_provider)));
    listed.sort_by(|(a, _), (b, _)| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
    if let (Some(wanted), true) = (wanted, listed.is_empty()) {
        return Err(nothing(wanted));
    }
    match args.json {
        true => print_json(&listed)?,
        false => print_table(&listed)?,
    }
    Ok(0)
}

/// Whether a model is of this provider, or, where there is none of that name, has the word in its own.
fn fits(model: &Model, wanted: &str, is_provider: bool) -> bool {
    let name = format!("{}/{}", model.provider, model.id);
    match is_provider {
        true => model.provider == wanted,
        false => name.to_lowercase().contains(&wanted.to_lowercase()),
    }
}

fn nothing(wanted: &str) -> Problem {
    let mut providers: Vec<String> = catalogue::all().map(|model| model.provider).collect();
    providers.dedup();
    let problem = Problem::usage(format!("no model of `{wanted}` is known, and none has that in its name"))
        .fact("from", catalogue::version())
        .fact("providers", providers.join(", "));
    match open::nearest(wanted, providers.iter().map(String::as_str)) {
        Some(near) => problem.hint(format!("terret models {near}")),
        None => problem.hint("terret models"),
    }
}

fn print_json(models: &[(Model, bool)]) -> Result<(), Problem> {
    for (model, is_set) in models {
        let mut line = json!(model);
        line["configured"] = json!(is_set);
        if !render::out(format!("{line}\n"))? {
            break;
        }
    }
    Ok(())
}

const HEAD: [&str; 10] = [
    "model",
    "window",
    "max output",
    "images",
    "thinks",
    "$ input",
    "$ output",
    "$ cached",
    "$ written",
    "ends",
];

fn print_table(models: &[(Model, bool)]) -> Result<(), Problem> {
    let rows: Vec<[String; 10]> = models.iter().map(|(model, is_set)| row(model, *is_set)).collect();
    let mut widths = HEAD.map(str::len);
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let mut text = line(&HEAD.map(str::to_owned), &widths);
    rows.iter().for_each(|row| text.push_str(&line(row, &widths)));
    if models.iter().any(|(_, is_set)| *is_set) {
        text.push_str("* as configured\n");
    }
    render::out_plain(&text)?;
    let (count, version) = (models.len(), catalogue::version());
    render::err(format!("{count} models; {version}; prices in US dollars per million tokens"));
    Ok(())
}

/// The first column to the left, numbers to the right.
fn line(cells: &[String; 10], widths: &[usize; 10]) -> String {
    let mut text = format!("{:<width$}", cells[0], width = widths[0]);
    for (cell, width) in cells.iter().zip(widths).skip(1) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    format!("{}\n", text.trim_end())
}

fn row(model: &Model, is_set: bool) -> [String; 10] {
    let unknown = || "-".to_owned();
    let number = |number: Option<u64>| number.map_or_else(unknown, |number| number.to_string());
    let flag =
        |flag: Option<bool>| flag.map_or_else(unknown, |flag| if flag { "yes" } else { "no" }.to_owned());
    let price = |pick: fn(&Prices) -> Option<Rate>| {
        let price = model.prices.as_ref().and_then(pick);
        price.map_or_else(unknown, |price| price.to_string())
    };
    // Larger requests cost more: the threshold stands with the price below it.
    let tier = model.prices.as_ref().and_then(|prices| prices.tiers.first());
    let above = tier.map(|tier| format!("<{}k ", tier.above / 1000)).unwrap_or_default();
    let mark = if is_set { " *" } else { "" };
    [
        format!("{}/{}{mark}", model.provider, model.id),
        number(model.context_window),
        number(model.max_output_tokens),
        flag(model.images),
        flag(model.reasoning),
        format!("{above}{}", price(|prices| Some(prices.rates.input))),
        price(|prices| Some(prices.rates.output)),
        price(|prices| prices.rates.cache_read),
        price(|prices| prices.rates.cache_write),
        model.ends.clone().unwrap_or_else(unknown),
    ]
}
