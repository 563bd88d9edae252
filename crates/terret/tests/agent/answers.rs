//! Structured output: answers held to a schema, mended once, and read as values of a type.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use terret::agent::{Agent, Answer, Builder, Settlement};
use terret::core::chunk::{Failure, code};
use terret::core::fact::{CallMode, Cause, EndReason, Fact, Lane};
use terret::core::input::Recovery;
use terret::core::line::Event;
use terret::core::message::{Form, Message, Source};
use terret::core::raw::Raw;
use terret::error::{Error, ErrorKind};
use terret::hook::{Listener, Next, Plugin, PreStep, Seams, Stopping, Verdict, Vote};
use terret::model::{OUTPUT_SCHEMA, OutputSchema};
use terret::policy::Structured;
use terret::store::MemoryStore;

use crate::support::{Notes, builder, endings, events, nap};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

fn structured() -> Structured {
    Structured::new("number", Raw::parse(SCHEMA).unwrap()).unwrap()
}

fn held(script: &str) -> Builder {
    builder(script).plugin(structured())
}

/// The outcome of one prompt, and the log of it.
async fn prompted(builder: Builder) -> (terret::agent::Outcome, Vec<Event>) {
    let store = MemoryStore::default();
    let agent = builder.store(store.clone()).create(None).await.unwrap();
    let outcome = agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    (outcome, events(store.bytes(agent.id().as_str()).unwrap()))
}

/// Texts of what the policy told the model in this form, with the ids they went under.
fn told(events: &[Event], form: Form) -> Vec<(String, String)> {
    let by = Source::Plugin { plugin: "output-schema".into(), form };
    let texts = events.iter().filter_map(|e| match &e.fact {
        Fact::UserMessage(user) if user.message.source == by => {
            Some((user.message.id.to_string(), user.message.text()))
        }
        _ => None,
    });
    texts.collect()
}

fn is_instruction(message: &Message) -> bool {
    message.source == Source::Plugin { plugin: "output-schema".into(), form: Form::Instructions }
}

/// The schema of each header.
fn asked(events: &[Event]) -> Vec<Option<OutputSchema>> {
    let headers = events.iter().filter_map(|e| match &e.fact {
        Fact::RequestHeader(header) => Some(OutputSchema::among(&header.header.parameters)),
        _ => None,
    });
    headers.collect()
}

fn code_of(ending: &EndReason) -> &str {
    match ending {
        EndReason::Error { failure } => &failure.code,
        other => other.word(),
    }
}

#[tokio::test]
async fn an_answer_that_fits_ends_the_turn_as_it_is() {
    for answer in [r#"{"n":1}"#, "```json\n{\"n\":1}\n```"] {
        let (outcome, events) = prompted(held(&format!("say <<END\n{answer}\nEND"))).await;
        assert_eq!((outcome.ending.word(), outcome.steps), ("completed", 1), "{:?}", outcome.ending);
        assert_eq!(outcome.text, answer, "the log keeps what the model wrote");
        assert_eq!(structured().read(&outcome.text).unwrap(), r#"{"n":1}"#);
        let instructions = told(&events, Form::Instructions);
        assert_eq!(instructions.len(), 1);
        assert!(instructions[0].1.ends_with(SCHEMA), "{}", instructions[0].1);
        assert_eq!(told(&events, Form::Notice), []);
        let schema = OutputSchema { name: "number".into(), schema: Raw::parse(SCHEMA).unwrap() };
        assert_eq!(asked(&events), [Some(schema)]);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong() {
    let (outcome, events) = prompted(held("say {\"n\":\"one\"}\n---\nsay {\"n\":1}")).await;
    assert_eq!((outcome.ending.word(), outcome.steps), ("completed", 2));
    assert_eq!(outcome.text, r#"{"n":1}"#);
    let notices = told(&events, Form::Notice);
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].0, "output-schema-repair-1");
    assert!(notices[0].1.contains("- at `/n`: value is not of type \"integer\""), "{}", notices[0].1);
    assert!(!notices[0].1.contains(SCHEMA), "it was told before");
    assert_eq!(told(&events, Form::Instructions).len(), 1);
    assert_eq!(asked(&events).len(), 1, "the same header serves both requests");
}

#[tokio::test]
async fn a_second_answer_that_does_not_fit_ends_the_turn_with_an_error_and_stays_in_the_log() {
    let (outcome, events) = prompted(held("say one\n---\nsay {}\n---\nsay {\"n\":1}")).await;
    assert_eq!(code_of(&outcome.ending), code::OUTPUT_SCHEMA, "{:?}", outcome.ending);
    let EndReason::Error { failure } = &outcome.ending else { unreachable!() };
    assert!(failure.message.contains("\"n\" is a required property"), "{}", failure.message);
    assert_eq!((outcome.text.as_str(), outcome.steps), ("{}", 2));
    assert_eq!(told(&events, Form::Notice).len(), 1);
}

#[tokio::test]
async fn only_the_answer_behind_the_tools_is_held_to_it() {
    let notes = Notes::default();
    let script = "say Let me see.\ncall nap {\"note\":\"a\"}\n---\nsay not yet\n---\nsay {\"n\":2}";
    let (outcome, events) = prompted(held(script).tool(nap(&notes, CallMode::Exclusive))).await;
    assert_eq!((outcome.ending.word(), outcome.text.as_str()), ("completed", r#"{"n":2}"#));
    assert_eq!(*notes.lock().unwrap(), ["+a", "-a"]);
    assert_eq!(told(&events, Form::Instructions).len(), 1, "not again behind the tool");
    assert_eq!(told(&events, Form::Notice).len(), 1);
}

#[tokio::test]
async fn a_turn_that_ends_by_something_else_is_not_mended() {
    for (script, ending) in [
        ("say {\"n\"\nfinish max-tokens", "max-tokens"),
        ("refuse no\nfinish refusal", code::REFUSAL),
        ("fail AUTH times=9 no key", code::AUTH),
    ] {
        let (outcome, events) = prompted(held(script)).await;
        assert_eq!(code_of(&outcome.ending), ending);
        assert_eq!(told(&events, Form::Notice), [], "{ending}");
    }
}

/// Steers something in at the first stop.
struct OneMore;

impl Plugin for OneMore {
    fn name(&self) -> &str {
        "one-more"
    }
    fn install(&self, seams: &mut Seams) {
        seams.stopping.add(Arc::new(OneMore));
    }
}

impl Vote for OneMore {
    fn vote<'a>(&'a self, question: &'a Stopping) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let message = Message::user("more", "and now the number");
            // Its id is used up the second time, with the same content: nothing is added.
            question.agent.send(message, Lane::NextStep, true).await.map(drop).unwrap();
            Ok(())
        })
    }
}

#[tokio::test]
async fn what_is_said_before_a_turn_goes_on_is_not_its_answer() {
    let script = "say I thought about it.\n---\nsay {\"n\":1}";
    let (outcome, events) = prompted(held(script).plugin(OneMore)).await;
    assert_eq!((outcome.ending.word(), outcome.steps), ("completed", 2));
    assert_eq!(told(&events, Form::Notice), []);
}

/// Keeps everything back.
struct Nothing;

impl Listener<PreStep, Result<Verdict, Failure>> for Nothing {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        next.run(PreStep { messages: Vec::new(), ..question })
    }
}

#[tokio::test]
async fn a_schema_alone_is_no_reason_for_a_step() {
    let builder = held("say {\"n\":1}").seams(|seams| seams.pre_step.add(Arc::new(Nothing)));
    let (outcome, _) = prompted(builder).await;
    assert_eq!((outcome.ending.word(), outcome.steps), ("completed", 0));
}

#[tokio::test]
async fn every_turn_is_told_anew_and_mended_once() {
    let store = MemoryStore::default();
    let script = "say a\n---\nsay {\"n\":1}\n---\nsay b\n---\nsay {\"n\":2}";
    let agent = held(script).store(store.clone()).create(None).await.unwrap();
    for text in [r#"{"n":1}"#, r#"{"n":2}"#] {
        assert_eq!(agent.prompt("go").await.unwrap().text, text);
    }
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    assert_eq!(told(&events, Form::Instructions).len(), 2);
    assert_eq!(told(&events, Form::Notice).len(), 2);
}

#[tokio::test]
async fn a_schema_is_of_the_agent_that_asks_for_it_not_of_the_session() {
    let store = MemoryStore::default();
    let agent = held("say {\"n\":1}\n---\nsay plain").store(store.clone()).create(None).await.unwrap();
    let id = agent.id().to_string();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    drop(agent);
    let again = builder("say {\"n\":1}\n---\nsay plain").store(store.clone()).resume(&id).await.unwrap();
    assert_eq!(again.prompt("and now?").await.unwrap().text, "plain");
    again.shutdown().await.unwrap();
    let asked = asked(&events(store.bytes(&id).unwrap()));
    assert_eq!(asked.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
}

/// The log up to and with its nth line.
fn cut(log: &[u8], lines: usize) -> Vec<u8> {
    log.split_inclusive(|b| *b == b'\n').take(lines).flatten().copied().collect()
}

async fn log_of(script: &str) -> Vec<u8> {
    let store = MemoryStore::default();
    let agent = followed(script).store(store.clone()).create(None).await.unwrap();
    agent.prompt("go").await.unwrap();
    agent.shutdown().await.unwrap();
    store.bytes(agent.id().as_str()).unwrap()
}

/// Puts a message behind everything that enters at first: a crash may come between the schema and it.
struct Behind;

impl Listener<PreStep, Result<Verdict, Failure>> for Behind {
    fn call<'a>(
        &'a self,
        question: PreStep,
        next: Next<'a, PreStep, Result<Verdict, Failure>>,
    ) -> BoxFuture<'a, Result<Verdict, Failure>> {
        Box::pin(async move {
            let (step, agreed) = (question.step, next.run(question).await?);
            let Verdict::Enter(mut messages) = agreed else { return Ok(agreed) };
            messages.push(Message::user(format!("behind-{step}").as_str(), "mind the gap"));
            Ok(Verdict::Enter(messages))
        })
    }
}

fn followed(script: &str) -> Builder {
    held(script).seams(|seams| seams.pre_step.add(Arc::new(Behind)))
}

/// Opens a log that was cut, goes on inside its turn if one is open, and gives the log then.
async fn resumed(script: &str, log: Vec<u8>, recovery: Recovery) -> Option<(Agent, MemoryStore)> {
    let store = MemoryStore::default();
    store.put("cut", log);
    let agent = followed(script).store(store.clone()).resume("cut").await.unwrap();
    if !agent.look().await.unwrap().suspended {
        return None;
    }
    agent.recover(recovery).await.unwrap();
    agent.when_idle().await.unwrap();
    Some((agent, store))
}

#[tokio::test]
async fn wherever_a_crash_comes_an_answer_is_mended_once() {
    for (script, ending) in [
        ("say a\n---\nsay {\"n\":1}\n---\nsay past the end", "completed"),
        ("say a\n---\nsay b\n---\nsay {\"n\":1}", "error"),
    ] {
        let log = log_of(script).await;
        let mut inside = 0;
        for keep in 2..=log.iter().filter(|b| **b == b'\n').count() {
            let recovery = Recovery::ResumeTurn { keyed: Vec::new() };
            let Some((agent, store)) = resumed(script, cut(&log, keep), recovery).await else { continue };
            inside += 1;
            agent.shutdown().await.unwrap();
            let events = events(store.bytes("cut").unwrap());
            assert_eq!(endings(&events), [ending], "cut behind line {keep}");
            let added = |e: &&Event| matches!(&e.fact, Fact::InboxAdded(a) if a.message.id.to_string().contains("repair"));
            assert_eq!(events.iter().filter(added).count(), 1, "cut behind line {keep}");
            let sent =
                |step| events.iter().any(|e| matches!(&e.fact, Fact::RequestAttempt(a) if a.step == step));
            let tells = |e: &Event| matches!(&e.fact, Fact::UserMessage(u) if is_instruction(&u.message) && sent(u.step));
            assert!(events.iter().any(tells), "cut behind line {keep}");
            let last = events.iter().rev().find_map(|e| match &e.fact {
                Fact::RequestHeader(h) => Some(h.header.parameters.contains_key(OUTPUT_SCHEMA)),
                _ => None,
            });
            assert_eq!(last, Some(true), "cut behind line {keep}");
        }
        assert!(inside > 15, "only {inside} cuts were inside the turn");
    }
}

#[tokio::test]
async fn a_notice_nobody_read_is_not_what_the_next_turn_begins_with() {
    let script = "say a\n---\nsay {\"n\":1}";
    let log = log_of(script).await;
    let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let sent =
        lines.iter().position(|line| String::from_utf8_lossy(line).contains("output-schema-repair")).unwrap();
    let (agent, store) = resumed(script, cut(&log, sent + 1), Recovery::Close).await.unwrap();
    agent.prompt("go on").await.unwrap();
    agent.shutdown().await.unwrap();
    let events = events(store.bytes("cut").unwrap());
    assert_eq!(told(&events, Form::Notice), []);
    assert_eq!(endings(&events), ["interrupted", "completed"]);
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Report {
    sky: Sky,
    wind: Wind,
    /// Those who said so.
    sources: Vec<String>,
    note: Option<String>,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Sky {
    Clear,
    Cloudy { percent: u8 },
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Wind {
    speed: f64,
    from: Option<char>,
}

const REPORT: &str =
    r#"{"sky":{"cloudy":{"percent":40}},"wind":{"speed":3.5,"from":"N"},"sources":["a"],"note":null}"#;

#[tokio::test]
async fn a_question_is_answered_by_a_value_of_its_type() {
    let wrong = REPORT.replace("40", "\"forty\"").replace(",\"note\":null", "");
    let agent = builder(&format!("say {wrong}\n---\nsay ```json\nsay {REPORT}\nsay ```"));
    let agent = agent.create(None).await.unwrap();
    let Answer { value, outcome } = agent.ask::<Report>("weather?").await.unwrap();
    let wind = Wind { speed: 3.5, from: Some('N') };
    let sky = Sky::Cloudy { percent: 40 };
    assert_eq!(value, Report { sky, wind, sources: vec!["a".into()], note: None });
    assert_eq!((outcome.turn, outcome.steps), (1, 2));
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_that_says_why() {
    let agent = builder("say a\n---\nsay b\n---\nsay 7").create(None).await.unwrap();
    let error = agent.ask::<u8>("how many?").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Answer);
    let Error::NoAnswer { turn: 1, ending, text, why } = error else { panic!("{error}") };
    assert_eq!((code_of(&ending), text.as_str()), (code::OUTPUT_SCHEMA, "b"));
    assert!(why.contains("not JSON"), "{why}");
    assert_eq!(agent.ask::<u8>("how many?").await.unwrap().value, 7);
    assert_eq!(agent.prompt("thanks").await.unwrap().text, "a", "a prompt is held to nothing");
}

#[tokio::test]
async fn a_type_pickier_than_its_schema_has_the_last_word() {
    #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    #[serde(try_from = "u8")]
    #[schemars(with = "u8")]
    struct Even(#[allow(dead_code)] u8);
    impl TryFrom<u8> for Even {
        type Error = &'static str;
        fn try_from(n: u8) -> Result<Self, &'static str> {
            if n.is_multiple_of(2) { Ok(Even(n)) } else { Err("an odd one") }
        }
    }
    let agent = builder("say 3").create(None).await.unwrap();
    let Err(Error::NoAnswer { ending, why, .. }) = agent.ask::<Even>("a number?").await else { panic!() };
    assert_eq!(*ending, EndReason::Completed);
    assert!(why.contains("an odd one"), "{why}");
}

#[tokio::test]
async fn questions_and_prompts_of_one_agent_each_get_their_own() {
    let store = MemoryStore::default();
    let script = "wait 50\nsay so\n---\nsay plain\n---\nsay 1\n---\nsay true";
    let agent = builder(script).store(store.clone()).create(None).await.unwrap();
    agent.followup(agent.user("go")).await.unwrap();
    let prompt = agent.followup(agent.user("go on")).await.unwrap();
    let (number, yes) = tokio::join!(agent.ask::<u8>("how many?"), agent.ask::<bool>("sure?"));
    assert_eq!((number.unwrap().value, yes.unwrap().value), (1, true));
    let Settlement::Ended(outcome) = prompt.settled().await.unwrap() else { panic!() };
    assert_eq!(outcome.text, "plain");
    agent.shutdown().await.unwrap();
    let events = events(store.bytes(agent.id().as_str()).unwrap());
    let names: Vec<_> = asked(&events).into_iter().map(|schema| schema.map(|s| s.name)).collect();
    assert_eq!(names, [None, Some("uint8".to_owned()), Some("boolean".to_owned())]);
    assert_eq!(told(&events, Form::Instructions).len(), 2);
}

#[tokio::test]
async fn a_question_to_an_agent_that_has_a_schema_already_is_refused() {
    let agent = held("say 1").create(None).await.unwrap();
    let Err(Error::Config(why)) = agent.ask::<u8>("how many?").await else { panic!() };
    assert!(why.contains("output-schema"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_cancelled_is_not_answered() {
    let agent = builder("wait 1000\nsay 1").create(None).await.unwrap();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        agent.cancel(Cause::User { text: None }).await.unwrap();
    };
    let (answer, ()) = tokio::join!(agent.ask::<u8>("how many?"), stop);
    let Err(Error::NoAnswer { ending, .. }) = answer else { panic!() };
    assert_eq!(ending.word(), "aborted");
}

#[test]
fn a_schema_that_is_none_is_refused_by_its_name() {
    let refused = Structured::new("my schema", Raw::parse(r#"{"type":"strin"}"#).unwrap()).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    let words = refused.to_string();
    assert!(words.contains("`my_schema`") && words.contains("`/type`"), "{words}");
}
