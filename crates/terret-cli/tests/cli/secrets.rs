//! What configuration holds and nobody may see: headers, and passwords in URLs.

use crate::place::{Place, Running, contains};
use crate::server::{Server, plain};

const TOKEN: &str = "token-4f1d8a3c9b7e6052";
const PASSWORD: &str = "hunter2hunter2";

#[test]
fn doctor_shows_no_header_and_no_password() {
    let place = Place::new();
    std::fs::create_dir_all(place.home()).unwrap();
    let config = format!(
        "[providers.mine]\nbase_url = \"http://me:{PASSWORD}@127.0.0.1:1/v1\"\n\
         headers.Authorization = \"Bearer {TOKEN}\"\n"
    );
    std::fs::write(place.home().join("config.toml"), config).unwrap();
    let set = format!("providers.other.headers.x-key={TOKEN}");
    for more in [&[][..], &["--config"]] {
        let mut command = place.command(&[&["doctor", "--set", &set][..], more].concat());
        command.env("OPENAI_BASE_URL", format!("https://me:{PASSWORD}@example.org/v1"));
        let text = Running::start(command).end().exits(0).text();
        assert!(!text.contains(TOKEN) && !text.contains(PASSWORD), "{text}");
        assert!(text.contains("providers.mine.headers.Authorization = (set)"), "{text}");
        assert!(text.contains("http://127.0.0.1:1/v1"), "{text}");
        assert_eq!(text.contains("https://example.org/v1"), more.is_empty(), "{text}");
    }
}

#[test]
fn what_a_server_says_back_is_masked() {
    for said in [TOKEN.to_owned(), format!("Bearer {TOKEN}"), PASSWORD.to_owned(), "second-header".to_owned()]
    {
        let place = Place::new();
        let body = said.clone();
        let server =
            Server::start(move |_, _| plain(400, "text/plain", &format!("I do not like {body}, sorry")));
        let mut args = server.run(&["--set", "max_retries=0"]);
        let url = args.iter_mut().find(|word| word.contains("base_url=")).unwrap();
        *url = url.replace("://", &format!("://me:{PASSWORD}@"));
        for header in [&format!("authorization=Token {TOKEN}"), "x-second=second-header"] {
            args.extend(["--set".to_owned(), format!("providers.test.headers.{header}")]);
        }
        args.push("hi".to_owned());
        let ran = place.run(&args).exits(1).says("I do not like");
        assert!(server.requests()[0].head.contains(TOKEN), "the server gets it");
        assert!(!ran.err.contains(&said), "{}", ran.err);
        for (path, bytes) in place.kept() {
            assert!(!contains(&bytes, said.as_bytes()), "it is in {}", path.display());
        }
    }
}

#[test]
fn a_url_that_cannot_be_used_is_named_without_its_password() {
    let place = Place::new();
    let set = format!("providers.mine.base_url=ftp://me:{PASSWORD}@example.org/v1");
    let ran = place.run(&["run", "-m", "mine/m", "--set", &set, "hi"]).exits(2).says("ftp://example.org/v1");
    assert!(!ran.err.contains(PASSWORD), "{}", ran.err);
}
