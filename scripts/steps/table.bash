# The steps of scripts/test: their groups, order, descriptions and needs. Sourced by it.

# A group runs `first` one step after the other, then its two lanes side by side. Steps of lane_a run the programs in target/debug. Steps of
# lane_b also build packages by themselves, in target/alone.
declare -A first=() lane_a=() lane_b=()
first[front]="packages format build"
lane_a[front]="rust"
lane_b[front]="c python node protocol"
first[ci]="${first[front]}"
lane_a[ci]="rust engines"
lane_b[ci]="c python node protocol sanitizers package demo"
first[all]="${first[front]}"
lane_a[all]="rust simulation engines mqtt interop dapr page operations release"
lane_b[all]="c python node nodered protocol lint provider chaos compilers sanitizers docs wheel npm package recipes demo"
groups=(front ci all)
declare -A about_group=(
  [front]="what a contributor runs before proposing a change; the default"
  [ci]="front, and of the rest what finds most for its time; .ci/run runs it"
  [all]="everything, and the slot of the day: 90 minutes on two cores"
)
# `all` ends with `cluster`, whose rates want an idle machine, `planted`, and one of these a day, chosen by the date. Each of
# them runs once in as many days as there are.
slots=(vendor brokers daprd peers trained macos linux windows races soak ignored runtimes deny fuzz benchmarks book)
today=$(($(date +%s) / 86400 % ${#slots[@]}))

# Every step, in the order of --list.
steps=(
  packages format build rust c python node nodered protocol
  simulation engines cluster mqtt interop dapr page operations release
  fuzz lint provider chaos compilers sanitizers deny docs wheel npm package recipes demo
  planted vendor brokers daprd peers trained macos linux windows races soak ignored runtimes benchmarks book
)
declare -A about=(
  [packages]="install the Debian packages that the chosen steps need"
  [format]="rustfmt, file lengths, links, code blocks and prose of the book, wording of messages, names of planted faults and promises"
  [build]="one compilation of the workspace (libraries, programs, tests) with clippy; a warning is an error; the book has all options of the server"
  [rust]="the workspace's Rust tests, with a hundred seeds and more of each simulation"
  [c]="the C suites in C11 with gcc, on the library of the workspace"
  [python]="the Python package's tests, on the library of the workspace"
  [node]="the Node package's types and tests, on the library of the workspace"
  [nodered]="the package for Node-RED: its types, and its nodes and context store in a real Node-RED, with the editor in Chromium"
  [protocol]="paho and raw bytes against the server"
  [simulation]="all seeds of each simulation, those of the day, and the rules whose absence must be noticed"
  [engines]="servers over a real etcd, Redis and Valkey"
  [cluster]="members of etcd, Redis with replicas, and two servers under faults"
  [mqtt]="paho, MQTT.js and Mosquitto's clients, over a durable store and through a Mosquitto"
  [interop]="the vendor's Rust client against the server and against our client"
  [dapr]="Dapr's conformance suite over the socket of the state component"
  [page]="the server's page in Chromium"
  [operations]="the operator's guide as one session, with a real Prometheus"
  [release]="the protocol, the vendor's client and the C suites against release builds"
  [fuzz]="clippy for the fuzz targets, and each of them for a short time"
  [lint]="clippy for each other set of features"
  [provider]="the client in a program without ring"
  [chaos]="a server and clients in four languages while everything around them fails, on disk and over Redis"
  [compilers]="the C and C++ suites as installed: C99, C11, C++17, gcc and clang, shared and static"
  [sanitizers]="the C and C++ suites with AddressSanitizer, Memcheck and Helgrind"
  [deny]="licences, sources and duplicates of the dependencies"
  [docs]="the shell sessions of the book, and the manifests of a cluster"
  [wheel]="the Python wheels in a fresh environment: tests, types and examples, with every CPython here"
  [npm]="the Node addon built by itself, with its load tests"
  [package]="each artefact of a release, built without optimisation, installed into an empty place, and tried"
  [recipes]="the recipes for Conan, vcpkg and Yocto, as far as they can be tested without a release"
  [demo]="scripts/demo"
  [planted]="one fourteenth of the planted faults, chosen by the date"
  [vendor]="the vendor's own tests of its Rust client, over each storage and through a Mosquitto"
  [brokers]="other clients through Mosquitto and through HiveMQ, which Maven downloads"
  [daprd]="Dapr's state API over HTTP and with Dapr's SDKs, through a real daprd, which is built"
  [peers]="Dapr's own components for Redis and etcd beside ours, in one daprd, which is built"
  [trained]="scripts/train, then the protocol and the vendor's client against the trained programs"
  [macos]="everything but the component for Dapr compiled for macOS, by zig; for ARM64, also linked"
  [linux]="the server, the command line and the libraries for musl, ARM64, 32-bit ARM and RISC-V; tests of the first three, here and by QEMU"
  [windows]="the C library, the command line and the Node addon for Windows: C suites, tests of the command line and a Node program under Wine"
  [races]="ThreadSanitizer over the client, the server and C programs"
  [soak]="scripts/soak for twenty minutes"
  [ignored]="the tests marked #[ignore]: minutes of a slow link, and namespaces"
  [runtimes]="the Node package under Bun and Deno, and compiled by Bun"
  [benchmarks]="clippy for the benchmarks, with and without those of engines"
  [book]="the API documentation of each language, and the book by mdBook"
)

# What each step needs of the machine; scripts/needs.bash describes the names.
declare -A needs=(
  [packages]=""
  [format]="rust rustfmt git python"
  [build]="rust clippy cc protoc python"
  [rust]="rust cc certificates faketime haproxy mosquitto mosquitto_passwd mosquitto-plugin openssl pkg-config prometheus promtool systemd-analyze"
  [c]="cmake gcc g++ make pkg-config python readelf"
  [python]="cc certificates python venv"
  [node]="certificates node npm"
  [nodered]="certificates chromium node npm"
  [protocol]="cc certificates etcd faketime redis-server python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [simulation]="rust cc"
  [engines]="rust cc certificates etcd faketime go haproxy mosquitto-plugin openssl pkg-config protoc redis-server python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [mqtt]="cc certificates etcd faketime redis-server node npm python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [cluster]="rust cc etcd fsfreeze go haproxy ip mkfs.ext4 python redis-server unshare"
  [interop]="rust cc etcd go openssl pkg-config python redis-server"
  [dapr]="rust cc go"
  [page]="node npm chromium"
  [operations]="certificates curl prometheus promtool python"
  [release]="rust cc openssl protoc cmake gcc g++ make pkg-config python venv readelf valgrind faketime mosquitto mosquitto_pub mosquitto_sub mosquitto_rr"
  [fuzz]="rust clippy c++"
  [lint]="rust clippy cc protoc"
  [provider]="rust cc"
  [chaos]="rust cc node npm python readelf redis-server"
  [compilers]="rust abidiff gcc g++ clang clang++ asio cmake glib-2.0 json libevent libuv make nm pkg-config python readelf"
  [sanitizers]="rust gcc g++ clang clang++ sanitizers asio cmake json libuv make nm pkg-config python readelf valgrind"
  [deny]="rust cc"
  [docs]="rust cc python venv"
  [wheel]="rust cc certificates python venv"
  [npm]="rust cc certificates node npm python"
  [package]="rust cc c++ pkg-config readelf python venv node npm"
  [recipes]="rust cc c++ cmake make nm python readelf venv"
  [demo]="rust cc c++ pkg-config readelf python venv node npm"
  [planted]="rust cc git protoc python"
  [vendor]="rust cc go mosquitto openssl pkg-config python redis-server"
  [brokers]="rust cc openssl pkg-config python venv node npm jdk mvn mosquitto mosquitto_rr"
  [daprd]="rust cc go python venv node npm"
  [peers]="rust cc go python redis-server etcd"
  [trained]="rust cc certificates etcd faketime mosquitto mosquitto_pub mosquitto_sub mosquitto_rr openssl pkg-config protoc python venv redis-server"
  [macos]="rust cc python venv"
  [linux]="rust cc certificates etcd faketime redis-server python venv mosquitto mosquitto_pub mosquitto_sub mosquitto_rr cmake make pkg-config readelf qemu aarch64-linux-gnu-gcc arm-linux-gnueabihf-gcc"
  [races]="rust asio clang clang++ cmake glib-2.0 json libevent libuv make pkg-config"
  [windows]="rust clippy cc cmake make mingw node npm python wine"
  [soak]="rust cc node npm python readelf"
  [ignored]="rust cc unshare"
  [runtimes]="node npm"
  [benchmarks]="rust clippy cc openssl pkg-config protoc"
  [book]="rust cc doxygen node npm python"
)
# Debian's packages are among the artefacts only where Debian's tools can be installed.
! is_debian || needs[package]+=" protoc dh dpkg-buildpackage lintian mmdebstrap"

usage() {
  cat <<TXT
Usage: scripts/test [GROUP | STEP...]
       scripts/test --list

Runs the tests. Prints how many ran, and for each step the time, the processor time and the number of rustc runs.

Groups:
TXT
  for group in "${groups[@]}"; do printf '  %-10s %s\n' "$group" "${about_group[$group]}"; done
  cat <<TXT

A group runs its first steps one after the other, then two lanes side by side, each of which prints the output of a step when the step ends.
Named steps run one after the other. A failed step does not stop the others; the exit code is 1 if any failed. A step that makes no progress (neither
output nor processor time) for $stall_minutes minutes (STALL_MINUTES) is ended and counts as failed; its processes are listed.

TXT
  list
  cat <<TXT

Most steps run programs and libraries of the step "build": name it first, unless they are up to date.

Needs a stable Rust toolchain (1.90 or newer) with rustfmt and clippy, Node 20 or newer with npm, and access to crates.io, PyPI and the npm
registry. Steps that build etcd or daprd also need Go 1.26.6 or newer and the proxy of Go's modules. On Debian 12 and 13 and Ubuntu 22.04
and 24.04 the step "packages" installs everything else. On other systems, missing programs are named before the first step.
TXT
}

list() {
  local step
  echo "Steps:"
  for step in "${steps[@]}"; do printf '  %-10s %s\n' "$step" "${about[$step]}"; done
  echo
  echo "\"all\" ends with \"cluster\", \"planted\" and one of these a day (today: ${slots[today]}): $(printf '%s\n' "${slots[@]}" | sort -u | paste -sd ' ')"
}
