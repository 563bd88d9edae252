//! An HTTP client of the program's own (`docs/guides/embedding.md`): a gateway that wants each request signed. This one
//! needs neither a network nor a feature, since what it sends through has the answer at hand.
//!
//! `cargo run --example own_client`

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use terret::Agent;
use terret::model::transport::{Body, HeaderValue, HttpClient, HttpError, Request, Response};
use terret::model::{ProviderSettings, Providers};

/// Signs what goes through it.
struct Signed<C>(C);

impl<C: HttpClient> HttpClient for Signed<C> {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        let signature = HeaderValue::from(sum(request.body()));
        request.headers_mut().insert("x-signature", signature);
        self.0.send(request)
    }
}

fn sum(body: &Bytes) -> u64 {
    body.iter().fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// In place of a network: shows the request, and has an answer.
struct AtHand;

impl HttpClient for AtHand {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, HttpError>> {
        println!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let answer = "data: {\"choices\":[{\"delta\":{\"content\":\"Well signed.\"}}]}\n\n\
                      data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let body = stream::iter([Ok(Bytes::from_static(answer.as_bytes()))]).boxed();
        std::future::ready(Ok(Response::new(body))).boxed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = AtHand;
    let gateway =
        ProviderSettings { base_url: Some("https://gateway.example/v1".into()), ..Default::default() };
    let models = Providers::new(Box::new(|name| std::env::var(name).ok()))
        .with("gateway", gateway)
        .with_client(Signed(client))
        .with_header("x-team", "research");
    let agent = Agent::builder(Arc::new(models)).model("gateway/some-model")?.create(None).await?;
    println!("{}", agent.prompt("Are you there?").await?.text);
    Ok(agent.shutdown().await?)
}
