//! From flags and configuration to a running agent.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use terret::agent::{Agent, Builder, parse_route};
use terret::config::Config;
use terret::core::chunk::code;
use terret::core::fact::{EndReason, Fact};
use terret::core::id::Seq;
use terret::core::line::Event;
use terret::core::raw::Raw;
use terret::limits::MAX_OUTPUT_SCHEMA_BYTES;
use terret::model::compact::compact;
use terret::model::failure::without_userinfo;
use terret::model::{Models, Proposal, Providers};
use terret::policy::{self, Budget, Repeat, Retry, Structured};
use terret::store::{Address, MemoryStore, SALVAGE, Scan};
use terret::tool::{Permissions, Tool, builtin};

use super::super::fork;
use super::models::providers;
use super::told::Told;
use crate::args::{self, Mode};
use crate::open;
use crate::problem::{Problem, exit};
use crate::render::shell;

/// What is known of a session before the run.
pub(super) struct Before {
    /// The command that goes on with it; none for one that is not kept.
    pub(super) again: Option<String>,
    /// What that command must name as long as the log names no model; empty otherwise.
    pub(super) model: String,
    /// How its last turn ended.
    pub(super) ending: Option<EndReason>,
}

/// The agent, and what was there before it.
pub(super) async fn agent(
    args: &args::Run,
    told: &Arc<Told>,
    schema: Option<&Structured>,
) -> Result<(Agent, Before), Problem> {
    let here = open::cwd(args.cwd.as_deref())?;
    let id = args.session_id.as_deref().map(fork::new_id).transpose()?;
    let found = session(args, &here, told)?;
    if args.resume_turn && found.is_none() {
        return Err(Problem::usage(
            "`--resume-turn` goes on with a session: name it by `-r`, or take the newest by `-c`",
        )
        .hint("terret run -c --resume-turn"));
    }
    if args.fork && found.is_none() {
        return Err(Problem::usage(
            "`--fork` branches off a session: name it by `-r`, or take the newest by `-c`",
        )
        .hint("terret run -c --fork \"…\""));
    }
    // A resumed session works where it worked before, unless told otherwise.
    let cwd = match (&found, &args.cwd) {
        (Some(found), None) => open::cwd(Some(Path::new(&found.cwd)))?,
        _ => here,
    };
    let config = open::config(&cwd, &args.sets)?;
    for note in &config.notes {
        told.note(format!("note: {note}"));
    }
    let models = providers(&config)?;
    let (asked, configured) = (args.model.as_deref().map(route), config.text("model").map(route));
    let chosen = check_model(&models, asked.as_deref(), configured.as_deref(), found.as_ref())?;
    if let (Some(_), Some((provider, model))) = (args.max_cost, chosen) {
        check_price(&models, &provider, &model)?;
    }
    let mut builder = Agent::builder(Arc::new(models)).cwd(&cwd).permissions(permissions(args, &config));
    if let Some(model) = asked {
        builder = builder.model(&model)?;
    }
    if let Some(model) = configured {
        builder = builder.default_model(&model)?;
    }
    if let Some(path) = &args.system {
        builder = builder.identity(read(path)?);
    }
    let keys = config.providers().into_iter();
    builder = builder.hide_env(
        keys.filter_map(|name| config.text(&format!("providers.{name}.api_key_env")).map(str::to_owned)),
    );
    builder = builder.tools(tools(args)?);
    builder = policies(builder, args, &config);
    builder = schema.into_iter().fold(builder, |builder, schema| builder.plugin(schema.clone()));
    builder = told.listen(builder);
    if args.ephemeral {
        let agent = builder.store(MemoryStore::default()).create(None).await?;
        return Ok((agent, Before { again: None, model: String::new(), ending: None }));
    }
    let elsewhere = found.as_ref().is_some_and(|found| Path::new(&found.cwd) != cwd);
    let flags = flags(args, elsewhere.then_some(&*cwd));
    let is_named = found.as_ref().is_some_and(|found| found.route.is_some());
    let model = args.model.as_deref().filter(|_| !is_named);
    let model = model.map(|model| format!(" -m {}", shell::quoted(&route(model)))).unwrap_or_default();
    let ending = found.as_ref().and_then(|found| found.ending.clone());
    builder = builder.store(open::store()?);
    let agent = match found {
        Some(found) if args.fork => {
            let header = fork::make(&found.path, found.boundary, None)?;
            header.parent.iter().for_each(|parent| told.note(fork::origin(parent)));
            builder.resume(header.id.as_str()).await?
        }
        Some(found) => builder.resume(&found.id).await?,
        None => builder.create(id).await?,
    };
    let again = format!("terret run -r {}{flags}", agent.id());
    Ok((agent, Before { again: Some(again), model, ending }))
}

/// The flags of this run that the session does not remember and the next run needs.
fn flags(args: &args::Run, cwd: Option<&Path>) -> String {
    let mut flags = String::new();
    if let Some(cwd) = cwd {
        flags.push_str(&format!(" --cwd {}", shell::quoted(&cwd.to_string_lossy())));
    }
    if let Some(mode) = args.permissions.and_then(|mode| mode.to_possible_value()) {
        flags.push_str(&format!(" --permissions {}", mode.get_name()));
    }
    for word in &args.sets {
        flags.push_str(&format!(" --set {}", shell::quoted(&shown(word))));
    }
    flags
}

/// A `--set` as it may be shown: no header, no password of a URL.
fn shown(word: &str) -> String {
    match word.split_once('=') {
        Some((name, _)) if name.split('.').nth(2) == Some("headers") => format!("{name}=…"),
        Some(_) | None => without_userinfo(word),
    }
}

/// The route, with a script's file named absolutely: the log is read elsewhere too.
fn route(model: &str) -> String {
    let file = model.strip_prefix("script:").map(Path::new).filter(|file| file.is_relative());
    match file.and_then(|file| file.canonicalize().ok()) {
        Some(file) => format!("script:{}", file.display()),
        None => model.to_owned(),
    }
}

/// Says at once what would fail only after a session was made: a provider nobody knows, a missing key. Checks
/// the model that will be asked: what a log says counts more than what is configured.
fn check_model(
    models: &Providers,
    asked: Option<&str>,
    configured: Option<&str>,
    found: Option<&Found>,
) -> Result<Option<(String, String)>, Problem> {
    let logged = found.and_then(|found| found.route.clone());
    let routes = [asked.map(parse_route), logged.map(Ok), configured.map(parse_route)];
    let Some(route) = routes.into_iter().flatten().next() else {
        // Asked for before anything is claimed: a prompt must not be used up by a question nobody can be asked.
        let problem = Problem::usage("no model was chosen");
        return Err(match found {
            // What is wrong with its log counts first, and whoever opens it says it.
            Some(found) if !found.is_whole => return Ok(None),
            Some(found) => problem
                .fact("so", "nothing was asked, and nothing of the queue was read")
                .hint(format!("terret run -r {} -m PROVIDER/MODEL", found.id)),
            None => {
                problem.hint("terret run -m script:demo \"…\" needs no key; or set `model` in config.toml")
            }
        });
    };
    let (provider, model) = route?;
    let proposal = Proposal { provider, model, ..Proposal::default() };
    let ready = models.adapter(&proposal.provider).and_then(|adapter| adapter.prepare(&proposal));
    ready.map_err(|failure| {
        let hint = match (proposal.provider.as_str(), failure.code.as_str()) {
            ("script", code::INVALID_REQUEST) => "what a line may say is in docs/reference/script-format.md",
            ("script", _) => "terret run -m script:demo \"…\" plays the script that is built in",
            _ => "terret doctor",
        };
        Problem::usage(failure.message).hint(hint)
    })?;
    Ok(Some((proposal.provider, proposal.model)))
}

/// Money is not counted where it cannot be: a model without a price costs something too.
fn check_price(models: &Providers, provider: &str, model: &str) -> Result<(), Problem> {
    let known = models.known(provider, model);
    if known.is_some_and(|known| known.prices.is_some()) {
        return Ok(());
    }
    let key = format!("models.{provider}/{model}");
    let (input, output) = (format!("{key}.input=USD"), format!("{key}.output=USD"));
    Err(Problem::usage(policy::unpriced(provider, model)).fact("so", "nothing was asked").hint(format!(
        "terret run --set {} --set {} --max-cost …",
        shell::quoted(&input),
        shell::quoted(&output)
    )))
}

/// A session to go on with.
struct Found {
    id: String,
    path: PathBuf,
    /// Where a fork leaves it.
    boundary: Option<Seq>,
    cwd: String,
    /// Provider and model that were asked last.
    route: Option<(String, String)>,
    /// How its last turn ended.
    ending: Option<EndReason>,
    /// Whether every line could be read.
    is_whole: bool,
}

/// The session to go on with, if the flags name one.
fn session(args: &args::Run, cwd: &Path, told: &Told) -> Result<Option<Found>, Problem> {
    let address = match (&args.resume, args.continue_) {
        (Some(address), _) => address.parse::<Address>()?,
        (None, true) => "latest".parse::<Address>()?,
        (None, false) => return Ok(None),
    };
    if address.as_path().is_some() && !args.fork {
        return Err(Problem::usage(
            "a log file can be read or forked, not resumed: only sessions of the store can",
        )
        .hint("terret sessions"));
    }
    if let (Some(named), Some(_), false) = (&args.resume, address.point, args.fork) {
        return Err(Problem::usage("a session is resumed at its end, not at a point")
            .hint(format!("terret run -r {} --fork \"…\"", shell::quoted(named))));
    }
    let store = open::store()?;
    let in_cwd = args.continue_.then_some(cwd);
    let path = store.find(&address, in_cwd);
    let unread = match address.session == "latest" {
        true => open::passed_over(&store, path.as_deref().ok()),
        false => Vec::new(),
    };
    let path = path.map_err(|e| {
        let problem = unread.iter().fold(Problem::from(e), |p, note| p.fact("note", note.clone()));
        match args.continue_ {
            true => problem.fact("looked for", format!("sessions of `{}`", cwd.display())),
            false => problem,
        }
    })?;
    unread.into_iter().for_each(|note| told.note(note));
    let boundary = fork::boundary(&path, args.resume.as_deref().unwrap_or("latest"), &address)?;
    found(&path, boundary).map(Some)
}

/// Reads what counts before the session is opened. Damage is for whoever opens it to tell of.
fn found(path: &Path, boundary: Option<Seq>) -> Result<Found, Problem> {
    let id = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Found {
        id,
        path: path.to_owned(),
        boundary,
        cwd: String::new(),
        route: None,
        ending: None,
        is_whole: true,
    };
    let mut scan = match boundary {
        Some(_) => Scan::open(path)?,
        None => Scan::skim(path, &mut |event| found.take(event))?,
    };
    found.cwd.clone_from(&scan.header().cwd);
    while let Some(next) = scan.next_event()? {
        let Ok(event) = next else {
            found.is_whole = false;
            break;
        };
        if boundary.is_some_and(|boundary| event.seq > boundary) {
            break;
        }
        found.take(&event);
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, event: &Event) {
        if let Fact::TurnEnd(end) = &event.fact {
            self.ending = Some(end.reason.clone());
        }
        if let Fact::RequestHeader(header) = &event.fact {
            self.route = Some((header.header.provider.clone(), header.header.model.clone()));
        }
    }
}

fn permissions(args: &args::Run, config: &Config) -> Permissions {
    let by_flag = args.permissions.map(|mode| match mode {
        Mode::ReadOnly => Permissions::ReadOnly,
        Mode::WorkspaceWrite => Permissions::WorkspaceWrite,
        Mode::Full => Permissions::Full,
    });
    by_flag.unwrap_or(match config.text("permissions") {
        Some("read-only") => Permissions::ReadOnly,
        Some("full") => Permissions::Full,
        _ => Permissions::WorkspaceWrite,
    })
}

fn tools(args: &args::Run) -> Result<Vec<Arc<dyn Tool>>, Problem> {
    let all = builtin();
    let Some(list) = &args.tools else { return Ok(all) };
    let wanted: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let names: Vec<String> = all.iter().map(|tool| tool.spec().name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.iter().any(|n| n == *name)) {
        return Err(Problem::usage(format!("there is no tool `{unknown}`")).fact("tools", names.join(", ")));
    }
    Ok(all
        .into_iter()
        .zip(names)
        .filter(|(_, n)| wanted.contains(&n.as_str()))
        .map(|(tool, _)| tool)
        .collect())
}

fn policies(builder: Builder, args: &args::Run, config: &Config) -> Builder {
    let retry = match config.number("max_retries") {
        Some(max) => Retry { max: u32::try_from(max).unwrap_or(u32::MAX), ..Retry::default() },
        None => Retry::default(),
    };
    let steps = config.number("max_steps").map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let budget = Budget {
        steps: args.max_steps.or(steps),
        tokens: args.max_tokens_total,
        cost: args.max_cost,
        tool_calls: None,
        wall_time: args.timeout.or(config.number("timeout_s")).map(Duration::from_secs),
    };
    let idle = config.number("idle_timeout_s").map(Duration::from_secs);
    let builder = standard(builder, retry, budget);
    idle.into_iter().fold(builder, Builder::idle_timeout)
}

/// What the answer has to be, if the flags say it.
pub(super) fn schema(args: &args::Run) -> Result<Option<Structured>, Problem> {
    let Some(path) = &args.output_schema else { return Ok(None) };
    let place = path.display();
    // One byte more tells that it is too large.
    let limit = MAX_OUTPUT_SCHEMA_BYTES as u64 + 1;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(|e| Problem::usage(format!("cannot read `{place}`: {e}")))?;
    if text.len() > MAX_OUTPUT_SCHEMA_BYTES {
        let what = format!("`{place}` is too large: a schema may have {MAX_OUTPUT_SCHEMA_BYTES} bytes");
        return Err(Problem::usage(what));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let schema =
        Raw::parse(compact(&text)).map_err(|e| Problem::usage(format!("`{place}` is not JSON: {e}")))?;
    Structured::new(&stem, schema)
        .map(Some)
        .map_err(|e| Problem::usage(e.to_string()).fact("file", place.to_string()))
}

/// The plugins every run has.
pub(crate) fn standard(builder: Builder, retry: Retry, budget: Budget) -> Builder {
    builder.plugin(retry).plugin(Repeat::default()).plugin(budget)
}

/// The names under which they, and this program itself, write events.
pub(crate) fn here() -> Result<Vec<String>, Problem> {
    let builder = Agent::builder(Arc::new(Providers::new(Box::new(|_| None))));
    let mut names = standard(builder, Retry::default(), Budget::all()).plugin_order()?;
    names.push(SALVAGE.to_owned());
    Ok(names)
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|e| Problem::new(exit::USAGE, format!("cannot read `{}`: {e}", path.display())))
}
