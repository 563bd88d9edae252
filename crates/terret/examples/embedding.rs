//! The code of the guide to embedding (`docs/guides/embedding.md`): every block of it stands here word for word.
//!
//! `cargo run --example embedding`

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use terret::Agent;
use terret::core::chunk::Failure;
use terret::hook::{Admission, Approver, Ask, Decision, Listener, Next, Plugin, Seams};
use terret::testing::scripted;
use terret::tool::{Call, tool};

/// What the tool takes; its schema is made from this.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

const SCRIPT: &str = "call add {\"a\": 2, \"b\": 3}\n---\nsay 2 + 3 is 5.\n---\nsay Done.";

struct Careful;

impl Plugin for Careful {
    fn name(&self) -> &str {
        "careful"
    }
    fn install(&self, seams: &mut Seams) {
        seams.pre_execute.add(Arc::new(Careful));
    }
}

impl Listener<Call, Admission> for Careful {
    fn call<'a>(&'a self, call: Call, next: Next<'a, Call, Admission>) -> BoxFuture<'a, Admission> {
        match call.name.as_str() {
            "add" => {
                let ask = Ask::new(format!("add {}", call.arguments));
                std::future::ready(Admission::Ask(ask)).boxed()
            }
            _ => next.run(call),
        }
    }
}

struct Person;

impl Approver for Person {
    fn decide<'a>(&'a self, _: &'a Call, ask: &'a Ask) -> BoxFuture<'a, Result<Decision, Failure>> {
        async move {
            println!("May the agent {}?", ask.what);
            Ok(Decision { choice: "allow".into(), by: "a person".into() })
        }
        .boxed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = scripted(SCRIPT)?
        .tool(tool("add", "Adds two numbers.", |add: Add| async move {
            Ok::<_, String>((add.a + add.b).to_string())
        }))
        .approver(Person)
        .create(None)
        .await?;
    let careful = agent.install(Careful)?;
    println!("{}", agent.prompt("What is 2 + 3?").await?.text);
    drop(careful);

    let mut lines = agent.subscribe_from(0).await?;
    agent.shutdown().await?;
    while let Some(bytes) = lines.next().await? {
        print!("{}", String::from_utf8_lossy(&bytes));
    }
    answers_of_a_type().await
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Finding {
    /// Whether the claim holds.
    holds: bool,
    /// The reason, in one sentence.
    why: String,
}

async fn answers_of_a_type() -> Result<(), Box<dyn std::error::Error>> {
    use terret::agent::Answer;
    use terret::policy::Structured;
    use terret::tool::schema;

    let script = "say {\"holds\": false, \"why\": \"It is 7 times 13.\"}";
    let agent = scripted(script)?.create(None).await?;
    let Answer { value, outcome } = agent.ask::<Finding>("Is 91 a prime number?").await?;
    println!("{}: {} ({} steps)", value.holds, value.why, outcome.steps);

    let builder = scripted(script)?;
    let findings = Structured::new("finding", schema::<Finding>())?;
    let agent = builder.plugin(findings.clone()).create(None).await?;
    let outcome = agent.prompt("Is 91 a prime number?").await?;
    match findings.read(&outcome.text) {
        Ok(json) => println!("{json}"),
        Err(wrong) => println!("{}", wrong.join("\n")),
    }
    Ok(())
}

/// What needs a key, or leaves something behind: compiled here, not run.
#[allow(dead_code)]
async fn with_a_real_model() -> Result<(), Box<dyn std::error::Error>> {
    use terret::model::Providers;

    let models = Arc::new(Providers::new(Box::new(|name| std::env::var(name).ok())));
    let builder = Agent::builder(models.clone()).model("deepseek/deepseek-v4-pro")?;
    builder.create(None).await?;

    let elsewhere = Agent::builder(models.clone()).store(FileStore::new("sessions"));
    let elsewhere = elsewhere.fork("01jab7…", Some(118), None).await?;
    elsewhere.prompt("What if we had gone left?").await?;

    use terret::core::input::Recovery;
    use terret::store::FileStore;

    let agent = Agent::builder(models.clone()).store(FileStore::new("sessions")).create(None).await?;
    let again = Agent::builder(models).store(FileStore::new("sessions")).resume("01jab7…").await?;
    if again.left_open().is_some() {
        again.recover(Recovery::Close).await?;
    }
    agent.shutdown().await?;
    Ok(())
}

/// Leaves something behind: compiled here, not run.
#[allow(dead_code)]
async fn with_a_picture(agent: &Agent, bytes: Vec<u8>) -> Result<(), terret::error::Error> {
    use terret::core::message::Block;

    let attachment = agent.attach(bytes, "image/png", Some("screen.png")).await?;
    let mut message = agent.user("What is wrong here?");
    message.content.push(Block::Image { attachment });
    agent.followup(message).await?;
    Ok(())
}

/// Never ends: compiled here, not run.
#[allow(dead_code)]
async fn from_outside(log: &std::path::Path) -> Result<(), terret::error::Error> {
    use terret::store::Follow;

    let mut follow = Follow::open(log, 0).await?;
    loop {
        let event = follow.next().await?;
        println!("{} {}", event.seq, String::from_utf8_lossy(follow.bytes()));
    }
}
