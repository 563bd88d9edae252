//! Proxies of the environment: honoured for other machines, never for this one, and named when something is wrong.

use std::net::TcpListener;

use crate::place::{Place, Ran, Running, contains};
use crate::server::{Reply, Server, plain, says};

const PASSWORD: &str = "hunter2-hunter2";

/// Runs against a base URL with these variables; nothing is tried twice.
fn run(base_url: &str, env: &[(&str, String)]) -> (Place, Ran) {
    let place = Place::new();
    let base = format!("providers.test.base_url={base_url}");
    let args = ["run", "--json", "-m", "test/m", "--set", &base, "--set", "max_retries=0", "hello"];
    let mut command = place.command(&args);
    command.envs(env.iter().map(|(name, value)| (*name, value)));
    let ran = Running::start(command).end();
    for (path, bytes) in place.kept() {
        assert!(!contains(&bytes, PASSWORD.as_bytes()), "the password is in {}", path.display());
    }
    assert!(!contains(&ran.out, PASSWORD.as_bytes()) && !ran.err.contains(PASSWORD), "{}", ran.err);
    (place, ran)
}

/// The failure the run ended with.
fn failure(base_url: &str, env: &[(&str, String)]) -> (String, String) {
    let (place, ran) = run(base_url, env);
    let failure = place.reason()["failure"].clone();
    assert_eq!(ran.code, 1, "{failure} {}", ran.err);
    let word = |name: &str| failure[name].as_str().unwrap().to_owned();
    (word("code"), word("message"))
}

fn proxy() -> Server {
    Server::start(|_, _| Reply::Stream(says("through")))
}

/// Both variables with this proxy.
fn through(port: u16) -> Vec<(&'static str, String)> {
    let url = format!("http://me:{PASSWORD}@127.0.0.1:{port}");
    vec![("HTTP_PROXY", url.clone()), ("HTTPS_PROXY", url)]
}

fn port_without_listener() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn case_092_this_machine_is_asked_directly() {
    let server = proxy();
    let closed = through(port_without_listener());
    for host in ["127.0.0.1", "localhost"] {
        let (_, ran) = run(&format!("http://{host}:{}/v1", server.port()), &closed);
        ran.exits(0);
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn case_092_another_machine_is_asked_through_the_proxy() {
    let proxy = proxy();
    run("http://model.test/v1", &through(proxy.port())).1.exits(0);
    let head = proxy.requests()[0].head.to_lowercase();
    assert!(head.starts_with("post http://model.test/v1/chat/completions http/1.1"), "{head}");
    assert!(
        head.contains("\r\nproxy-authorization: basic ") && head.contains("\r\nhost: model.test\r\n"),
        "{head}"
    );
}

#[test]
fn case_092_no_proxy_is_honoured_in_every_form() {
    // Names nobody knows: asked directly they cannot be found.
    for (base_url, no_proxy, direct) in [
        ("http://model.test", "model.test", true),
        ("http://model.test", "localhost, .test", true),
        ("http://model.test", "*", true),
        ("http://model.test", "localhost,127.0.0.0/8,odel.test", false),
    ] {
        let proxy = proxy();
        let mut env = through(proxy.port());
        env.push(("NO_PROXY", no_proxy.to_owned()));
        if direct {
            let (code, message) = failure(base_url, &env);
            assert!(["TRANSPORT", "TIMEOUT"].contains(&code.as_str()), "{no_proxy}: {code} {message}");
            assert!(message.contains("model.test:80") && !message.contains("proxy"), "{no_proxy}: {message}");
        } else {
            run(base_url, &env).1.exits(0);
        }
        assert_eq!(proxy.requests().len(), usize::from(!direct), "{no_proxy}");
    }
    // An address that is this machine and does not look like it.
    let (proxy, server) = (proxy(), proxy());
    for (no_proxy, asked) in [("", [1, 0]), ("0.0.0.0/8", [1, 1])] {
        let mut env = through(proxy.port());
        env.push(("NO_PROXY", no_proxy.to_owned()));
        run(&format!("http://0.0.0.0:{}/v1", server.port()), &env).1.exits(0);
        assert_eq!([proxy.requests().len(), server.requests().len()], asked, "{no_proxy}");
    }
}

#[test]
fn case_092_what_a_proxy_says_is_not_taken_for_an_answer_and_names_it() {
    for scheme in ["http", "https"] {
        let proxy = Server::start(|_, _| plain(407, "text/html", "<html>who are you?</html>"));
        let (code, message) = failure(&format!("{scheme}://model.test"), &through(proxy.port()));
        assert_eq!(code, "AUTH", "{message}");
        let named = format!("(through the proxy http://127.0.0.1:{})", proxy.port());
        assert!(message.contains("without a") && message.ends_with(&named), "{message}");
    }
    let proxy =
        Server::start(|_, _| plain(200, "text/html", "<html><title>Pay for the hotel</title></html>"));
    let (code, message) = failure("http://model.test", &through(proxy.port()));
    assert_eq!(code, "MALFORMED_RESPONSE");
    assert!(
        message.contains("web page") && message.contains("(through the proxy http://127.0.0.1:"),
        "{message}"
    );

    let closed = port_without_listener();
    let (code, message) = failure("https://model.test", &through(closed));
    assert_eq!(code, "TRANSPORT");
    assert!(message.starts_with("cannot connect to model.test:443: "), "{message}");
    assert!(message.ends_with(&format!("(through the proxy http://127.0.0.1:{closed})")), "{message}");
}
