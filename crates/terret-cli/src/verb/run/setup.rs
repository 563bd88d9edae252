//! From flags and configuration to a running agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terret::agent::{Agent, Builder, parse_route};
use terret::config::Config;
use terret::model::{Models, Proposal, ProviderSettings, Providers};
use terret::policy::{Budget, Retry};
use terret::store::{Address, MemoryStore, Scan};
use terret::tool::{Permissions, Tool, builtin};

use super::output::Told;
use crate::args::{self, Mode};
use crate::open;
use crate::problem::{Problem, exit};

pub(super) async fn agent(args: &args::Run, told: &Arc<Told>) -> Result<Agent, Problem> {
    let here = open::cwd(args.cwd.as_deref())?;
    let found = session(args, &here)?;
    // A resumed session works where it worked before, unless told otherwise.
    let cwd = match (&found, &args.cwd) {
        (Some((path, _)), None) => open::cwd(Some(Path::new(&Scan::open(path)?.header().cwd)))?,
        _ => here,
    };
    let config = open::config(&cwd, &args.sets)?;
    for note in &config.notes {
        told.note(format!("note: {note}"));
    }
    let models = providers(&config)?;
    let (asked, configured) = (args.model.as_deref().map(route), config.text("model").map(route));
    match asked.as_ref().or(configured.as_ref()) {
        Some(model) => reachable(&models, model)?,
        None if found.is_none() => {
            return Err(Problem::usage("no model was chosen")
                .hint("terret run -m script:demo \"…\" needs no key; or set `model` in config.toml"));
        }
        None => {}
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
    builder = told.listen(builder);
    if args.ephemeral {
        return Ok(builder.store(MemoryStore::default()).create(None).await?);
    }
    builder = builder.store(open::store()?);
    match found {
        Some((_, id)) => Ok(builder.resume(&id).await?),
        None => {
            let id = args.session_id.as_deref().map(str::parse).transpose();
            let id = id.map_err(|e: terret::core::id::BadSessionId| Problem::usage(e.to_string()))?;
            Ok(builder.create(id).await?)
        }
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

/// Says at once what would fail only after a session was made: a provider nobody knows, a missing key.
fn reachable(models: &Providers, model: &str) -> Result<(), Problem> {
    let (provider, model) = parse_route(model)?;
    let proposal = Proposal { provider, model, ..Proposal::default() };
    let ready = models.adapter(&proposal.provider).and_then(|adapter| adapter.prepare(&proposal));
    ready.map(|_| ()).map_err(|failure| Problem::usage(failure.message).hint("terret doctor"))
}

/// The session to go on with: its log, and its id.
fn session(args: &args::Run, cwd: &Path) -> Result<Option<(PathBuf, String)>, Problem> {
    let address = match (&args.resume, args.continue_) {
        (Some(address), _) => address.parse::<Address>()?,
        (None, true) => "latest".parse::<Address>()?,
        (None, false) => return Ok(None),
    };
    if address.as_path().is_some() {
        return Err(Problem::usage("a log file can be read, not resumed: only sessions of the store can")
            .hint("terret sessions"));
    }
    if address.point.is_some() {
        return Err(Problem::usage("a session is resumed at its end, not at a point"));
    }
    let in_cwd = args.continue_.then_some(cwd);
    let path = open::store()?.find(&address, in_cwd).map_err(|e| {
        let problem = Problem::from(e);
        match args.continue_ {
            true => problem.fact("looked for", format!("sessions of `{}`", cwd.display())),
            false => problem,
        }
    })?;
    let id = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some((path, id)))
}

fn providers(config: &Config) -> Result<Providers, Problem> {
    let mut providers = Providers::new(Box::new(open::env));
    for name in config.providers() {
        let table = config.provider(&name).unwrap_or_default();
        let settings: ProviderSettings = table
            .try_into()
            .map_err(|e: toml::de::Error| Problem::usage(format!("provider `{name}`: {}", e.message())))?;
        providers = providers.with(&name, settings);
    }
    Ok(providers)
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
        wall_time: args.timeout.or(config.number("timeout_s")).map(Duration::from_secs),
    };
    let idle = config.number("idle_timeout_s").map(Duration::from_secs);
    let builder = builder.plugin(&retry).plugin(&budget);
    idle.into_iter().fold(builder, Builder::idle_timeout)
}

fn read(path: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(path)
        .map_err(|e| Problem::new(exit::USAGE, format!("cannot read `{}`: {e}", path.display())))
}
