//! Making agents: what one needs, with defaults that work.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use terret_core::fact::ToolSpec;
use terret_core::id::{Seq, SessionId};
use terret_core::line::{Event, FORMAT, SessionHeader, SessionTag};
use terret_core::raw::Raw;
use tokio::sync::{mpsc, watch};

use super::{Agent, Handle, Progress, Status};
use crate::clock::{Clock, Ids, SystemClock, SystemIds};
use crate::driver::{Base, Driver, Folds, Post};
use crate::error::Error;
use crate::hook::{Approver, Plugin, Registry, Seams, sorted};
use crate::limits::{IDLE_TIMEOUT_MS, MAX_MAIL, TOOL_GRACE_MS};
use crate::model::Models;
use crate::store::{BY, Fork, MemoryStore, Opened, Store, check_plugin, fork};
use crate::tool::{Permissions, Tool};
use crate::world::{Context, Surroundings, World, surroundings};

/// Gathers what an agent needs.
pub struct Builder {
    models: Arc<dyn Models>,
    store: Arc<dyn Store>,
    base: Base,
    cwd: PathBuf,
    permissions: Permissions,
    identity: Option<String>,
    hidden_env: Vec<String>,
    tools: Vec<Arc<dyn Tool>>,
    /// What the model sees of them; made once, by [`Builder::assembled`].
    specs: Vec<ToolSpec>,
    seams: Seams,
    plugins: Vec<Arc<dyn Plugin>>,
    approver: Option<Arc<dyn Approver>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    surroundings: Surroundings,
    idle_timeout: Duration,
    grace: Duration,
    at_rest: bool,
}

impl Agent {
    /// Begins an agent over these models. Without more it works in `.`, has no tools and keeps its log in
    /// memory.
    pub fn builder(models: Arc<dyn Models>) -> Builder {
        Builder {
            models,
            store: Arc::new(MemoryStore::default()),
            base: Base::default(),
            cwd: PathBuf::from("."),
            permissions: Permissions::default(),
            identity: None,
            hidden_env: Vec::new(),
            tools: Vec::new(),
            specs: Vec::new(),
            seams: Seams::default(),
            plugins: Vec::new(),
            approver: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            surroundings: Arc::new(surroundings),
            idle_timeout: Duration::from_millis(IDLE_TIMEOUT_MS),
            grace: Duration::from_millis(TOOL_GRACE_MS),
            at_rest: false,
        }
    }
}

impl Builder {
    /// The model to ask, `PROVIDER/MODEL` (or `script:…`), whatever the log says.
    pub fn model(mut self, route: &str) -> Result<Self, Error> {
        self.base.route = Some(parse_route(route)?);
        Ok(self)
    }

    pub(crate) fn routed(mut self, provider: &str, model: &str) -> Self {
        self.base.route = Some((provider.to_owned(), model.to_owned()));
        self
    }

    /// The model to ask where the log names none.
    pub fn default_model(mut self, route: &str) -> Result<Self, Error> {
        self.base.default_route = Some(parse_route(route)?);
        Ok(self)
    }

    /// A request parameter, whatever the log says.
    pub fn parameter(mut self, name: &str, value: Raw) -> Self {
        self.base.parameters.insert(name.to_owned(), value);
        self
    }

    /// Where logs are kept.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// The directory tools work in.
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = dir.into();
        self
    }

    /// What tools may do without asking.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Keeps environment variables from whatever tools start, for example the one that holds a key.
    pub fn hide_env(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.hidden_env.extend(names);
        self
    }

    /// Replaces the identity section of the system text.
    pub fn identity(mut self, text: impl Into<String>) -> Self {
        self.identity = Some(text.into());
        self
    }

    /// Offers a tool.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Offers several tools, behind those already there.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds a plugin; where it stands, it says itself. It is installed when the agent is made, for as long as the
    /// agent lives; [`Agent::install`] adds one for a while.
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Names of the plugins in their order, the outermost first. Fails if their wishes contradict each other.
    pub fn plugin_order(&self) -> Result<Vec<String>, Error> {
        Ok(sorted(self.plugins.clone())?.iter().map(|plugin| plugin.name().to_owned()).collect())
    }

    /// Puts listeners in place directly, without a plugin around them.
    pub fn seams(mut self, install: impl FnOnce(&mut Seams)) -> Self {
        install(&mut self.seams);
        self
    }

    /// Sees every event, once it is written.
    pub fn observe(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.seams.events.add(Arc::new(observer));
        self
    }

    /// Who is asked for consent where a plugin demands it. Without one such calls are denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Tells the time.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Mints ids of the session and of messages.
    pub fn ids(mut self, ids: impl Ids + 'static) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    /// Replaces what the model is told of where it works. Asked with the working directory and the epoch
    /// milliseconds wherever new input may have changed it; a context is put in when its text has changed.
    /// Without this it is the directory, the platform, the date and the `AGENTS.md` files that apply.
    pub fn surroundings(mut self, look: impl Fn(&Path, u64) -> Vec<Context> + Send + Sync + 'static) -> Self {
        self.surroundings = Arc::new(look);
        self
    }

    /// Longest silence allowed on a model's stream.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }

    /// How long a tool that was asked to stop may take before it is dropped and its outcome is unknown.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Starts no turn: for a look at a session and its queue, and for changing what waits.
    pub fn at_rest(mut self) -> Self {
        self.at_rest = true;
        self
    }

    /// Which plugins listen at which seam, outermost first. Fails as [`Builder::create`] would.
    pub fn chains(self) -> Result<Vec<(&'static str, Vec<String>)>, Error> {
        Ok(self.assembled()?.1.now().chains())
    }

    /// A new session, under this id or a fresh one. Needs a tokio runtime, on which the agent then runs.
    pub async fn create(self, id: Option<SessionId>) -> Result<Agent, Error> {
        let (builder, registry) = self.assembled()?;
        let id = builder.id(id)?;
        let header = SessionHeader {
            kind: SessionTag::Session,
            format: FORMAT,
            id,
            created: builder.clock.epoch_ms(),
            cwd: builder.cwd.to_string_lossy().into_owned(),
            by: BY.to_owned(),
            parent: None,
            origin: None,
        };
        let opened = builder.store.create(header)?;
        builder.start(opened, Folds::default(), registry)
    }

    /// Opens a session to go on with it. Fails if plugins wrote into it what later requests depend on and are not
    /// installed here ([`Error::MissingPlugin`]). A turn left open by a dead writer waits for [`Agent::recover`].
    pub async fn resume(self, id: &str) -> Result<Agent, Error> {
        let (builder, registry) = self.assembled()?;
        builder.open(id, registry)
    }

    /// A new session that begins with the events of another up to `boundary` (its last one if absent), under this
    /// id or a fresh one, and an agent that goes on there. The other session may be written meanwhile, by whomever,
    /// and is never touched; what waits in it stays with it. A turn that was open at the boundary is closed in the
    /// new session, and nothing runs by that. See [`fork`].
    pub async fn fork(
        self,
        source: &str,
        boundary: Option<Seq>,
        id: Option<SessionId>,
    ) -> Result<Agent, Error> {
        let (builder, registry) = self.assembled()?;
        let (now, plugins) = (builder.clock.epoch_ms(), registry.names());
        let plan = Fork { boundary, id: builder.id(id)?, now, plugins };
        let (store, source) = (builder.store.clone(), source.to_owned());
        // A long log takes a while to copy.
        let made = tokio::task::spawn_blocking(move || fork(|| store.read(&source), &*store, plan)).await;
        let header = made.map_err(|_| Error::Gone)??;
        builder.open(header.id.as_str(), registry)
    }

    /// The id that was chosen, or a fresh one.
    fn id(&self, chosen: Option<SessionId>) -> Result<SessionId, Error> {
        chosen.map_or_else(|| self.ids.fresh().parse().map_err(|e| Error::Usage(format!("{e}"))), Ok)
    }

    fn open(self, id: &str, registry: Arc<Registry>) -> Result<Agent, Error> {
        let (mut folds, here, mut lacks) = (Folds::default(), registry.names(), Ok(()));
        let opened = self.store.open(id, &mut |event| {
            if lacks.is_ok() {
                lacks = check_plugin(event, |name| here.iter().any(|here| here == name));
            }
            folds.state.apply(&event.fact);
            folds.fold(event);
        })?;
        // Nothing was written yet.
        lacks?;
        self.start(opened, folds, registry)
    }

    /// Everything that can be wrong with the parts, found before there is a session.
    fn assembled(mut self) -> Result<(Self, Arc<Registry>), Error> {
        let specs: Vec<ToolSpec> = self.tools.iter().map(|tool| tool.spec()).collect();
        let double = |(i, spec): &(usize, &ToolSpec)| specs[..*i].iter().any(|other| other.name == spec.name);
        if let Some((_, twice)) = specs.iter().enumerate().find(double) {
            return Err(Error::Usage(format!("two tools are named `{}`", twice.name)));
        }
        self.specs = specs;
        let registry = Registry::new(std::mem::take(&mut self.seams), std::mem::take(&mut self.plugins))?;
        Ok((self, registry))
    }

    fn start(self, opened: Opened, folds: Folds, registry: Arc<Registry>) -> Result<Agent, Error> {
        let world = World {
            session: opened.header.id.clone(),
            cwd: Arc::new(self.cwd),
            permissions: self.permissions,
            identity: self.identity,
            hidden_env: self.hidden_env.into(),
            tools: self.tools,
            specs: self.specs,
            registry: registry.clone(),
            approver: self.approver,
            grace: self.grace,
            models: self.models,
            clock: self.clock,
            surroundings: self.surroundings,
            idle_timeout: self.idle_timeout,
        };
        let mut base = self.base;
        // Requests of one session share a cache on the provider's side.
        let key = Raw::string(opened.header.id.as_str());
        base.parameters.entry("cache_key".to_owned()).or_insert(key);
        let (sender, mail) = mpsc::channel(MAX_MAIL);
        let handle = Handle(sender);
        let (alive, held) = mpsc::channel(1);
        let post = Post { handle: handle.clone(), mail, held };
        let start = opened.log.length();
        let left_open = folds.turns.open().cloned();
        let (send, progress) = watch::channel(Progress { bytes: start, ..Progress::default() });
        let (broken, watched, at_rest) = (send.clone(), registry.clone(), self.at_rest);
        let (mut driver, header) = Driver::new(opened, folds, Arc::new(world), base, post, send)?;
        if at_rest {
            driver.rest()?;
        }
        // A future holds what it runs on more than once.
        let driver = Box::new(driver);
        tokio::spawn(async move {
            if std::panic::AssertUnwindSafe(driver.run()).catch_unwind().await.is_err() {
                // What was written stays; who waits must learn that nothing more comes.
                broken.send_modify(|p| {
                    p.status = Status::Poisoned;
                    p.broken = Some("the driver broke down; this is a bug in terret".into());
                });
                watched.now().status.emit(&Status::Poisoned);
            }
        });
        let (id, header) = (header.id.clone(), Arc::new(header));
        let (ids, store) = (self.ids, self.store);
        let asking = Arc::default();
        Ok(Agent {
            id,
            handle,
            _alive: alive,
            progress,
            start,
            header,
            left_open,
            ids,
            registry,
            store,
            asking,
        })
    }
}

/// `PROVIDER/MODEL`, where the model may hold further slashes; or `script:WHAT`.
pub fn parse_route(route: &str) -> Result<(String, String), Error> {
    let bad = || Error::Config(format!("`{route}` is not a model: write `PROVIDER/MODEL`, or `script:demo`"));
    let (provider, model) = match route.split_once(':') {
        Some(("script", what)) => ("script", what),
        Some(_) | None => route.split_once('/').ok_or_else(bad)?,
    };
    if provider.is_empty() || model.is_empty() {
        return Err(bad());
    }
    Ok((provider.to_owned(), model.to_owned()))
}
