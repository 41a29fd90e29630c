# The steps of scripts/test: their order, what they are about, and what they need. Sourced by it.
# First these, one after the other; then the two lanes beside each other, each in its order. The first lane runs what "build" has built, in
# target/debug, which the second one leaves as it is: it builds each package by itself, as it is released, in target/alone.
at_first=(packages format build)
tests=(unit engines interop mqtt dapr page operations)
alone=(fuzz lint chaos c deny docs python node package demo)
steps=("${at_first[@]}" "${tests[@]}" "${alone[@]}")
# Not among all steps: these run when they are named.
extra=(quick vendor brokers daprd peers)
declare -A about=(
  [packages]="install the Debian packages that are missing"
  [format]="rustfmt, in every workspace; no source is longer than 500 lines"
  [lint]="clippy, in every workspace; a warning is an error"
  [build]="the libraries and programs of the workspace, the server with its engines, which other steps run"
  [unit]="the Rust workspace's own tests"
  [docs]="the API documentation, a warning is an error; the book, every link of it, and what it says to a shell; the manifests of a cluster, by their schemas"
  [operations]="an operator's way from an empty machine to a backup that comes back, with a real Prometheus"
  [fuzz]="every fuzz target for a short time"
  [c]="the C and C++ library as installed: gcc, clang, sanitizers, Valgrind"
  [interop]="the vendor's Rust client against the server and against our own client"
  [vendor]="the tests of the vendor's own Rust client, as they are, over each storage and through a Mosquitto: only if it is named"
  [mqtt]="independent MQTT 5 clients (paho, Mosquitto's, MQTT.js, bytes by hand) against the server"
  [page]="the page of the server in a real browser: Chromium"
  [python]="the Python package: its wheel in a fresh environment, its tests, types and examples"
  [node]="the Node package: its types, its tests, its tarballs in an empty project"
  [chaos]="a server and clients in four languages, as processes, while everything around them breaks; over its own disk, and over Redis"
  [engines]="servers whose entries are in a real etcd or Redis (the cargo features \`etcd\` and \`redis\`)"
  [quick]="what to run at each change, less than a minute after a build of the tests: format, links, planted faults, the protocol, the client, the store, every end of the storage, 60 seeds: only if it is named"
  [dapr]="Dapr's own conformance suite, over the socket of the state component"
  [brokers]="clients that others wrote and the store, through Mosquitto and through a HiveMQ, which Maven downloads: only if it is named"
  [daprd]="Dapr's state API over HTTP and with Dapr's SDKs of Python and JavaScript, through a real daprd, which it builds: only if it is named"
  [peers]="what Dapr's own components for Redis and etcd do beside ours, in one daprd, which it builds: only if it is named"
  [package]="what a release consists of, made without optimisation, installed into empty places, and tried"
  [deny]="licences, sources and duplicates of the dependencies"
  [demo]="the demonstration ends by itself and succeeds"
)

# What each step needs of the machine.
declare -A needs=(
  [packages]=""
  [format]="rust rustfmt"
  [lint]="rust clippy cc openssl pkg-config protoc"
  [build]="rust cc protoc"
  [unit]="rust cc certificates protoc haproxy mosquitto mosquitto_passwd mosquitto-plugin openssl pkg-config"
  [engines]="rust clippy cc certificates etcd faketime go haproxy mosquitto-plugin openssl pkg-config protoc redis-server python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [docs]="rust cc python venv"
  [operations]="certificates curl prometheus python"
  [fuzz]="rust c++"
  [c]="rust abidiff gcc g++ clang clang++ sanitizers asio cmake json libuv make nm pkg-config python readelf valgrind"
  [interop]="rust cc openssl pkg-config python"
  [vendor]="rust cc go mosquitto openssl pkg-config python redis-server"
  [mqtt]="faketime node npm python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [page]="node npm chromium"
  [python]="rust cc python venv"
  [node]="rust cc node npm python"
  [chaos]="rust cc node npm python readelf redis-server"
  [quick]="rust rustfmt cc python"
  [dapr]="rust cc go"
  [brokers]="rust cc openssl pkg-config python venv node npm jdk mvn mosquitto mosquitto_rr"
  [daprd]="rust cc go python venv node npm"
  [peers]="rust cc go python redis-server etcd"
  [package]="rust cc c++ pkg-config readelf python venv node npm"
  [deny]="rust cc"
  [demo]="rust cc c++ pkg-config readelf python venv node npm"
)

usage() {
  cat <<TXT
Usage: scripts/test [STEP...]
       scripts/test --list

Runs the steps named, in this order, or all of them, and says how long each took, and how much of the processors' time.
All of them run in two lanes at the same time, after the first three: what a step there prints appears as a whole when it has ended.
A failed step does not keep the others from running; the exit code is 1 if any failed. One that is not over after
45 minutes (STEP_MINUTES, 1 or more) is ended, says what it was at, and has failed.

Steps:
TXT
  list
  cat <<TXT

Steps that use a server start the binaries of the step "build": name it first, unless they are up to date.
Needs: a stable Rust toolchain (1.90 or newer) with rustfmt and clippy, Node 20 or newer with npm, Go 1.26.6 or newer, and
access to crates.io, PyPI, the npm registry and the proxy of Go's modules. Everything else the step "packages" installs on Debian 12 and 13, and on
Ubuntu 22.04 and 24.04; Node too, where the system's is new enough, and what "brokers" needs if that is named as well. On other systems, what is missing is told before
anything begins.
TXT
}

list() {
  for step in "${steps[@]}" "${extra[@]}"; do printf '  %-10s %s\n' "$step" "${about[$step]}"; done
}
