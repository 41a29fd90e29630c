# What the scripts need of a machine, and the Debian packages that have it. Sourced by them; needs bash 4.

# Descriptions for messages. A need that is not listed is a program of that name.
declare -A needs_called=(
  [rust]="Rust 1.90 or newer (https://rustup.rs)"
  [rustfmt]="rustfmt (rustup component add rustfmt)"
  [clippy]="clippy (rustup component add clippy)"
  [cc]="a C compiler (cc)"
  [c++]="a C++ compiler (c++)"
  [python]="Python 3.10 or newer (python3)"
  [venv]="Python's venv with pip (Debian: python3-venv)"
  [node]="Node 20 or newer"
  [npm]="npm"
  [go]="Go 1.26.6 or newer (https://go.dev/dl)"
  [openssl]="the headers of OpenSSL (Debian: libssl-dev)"
  [certificates]="the program openssl (Debian: openssl)"
  [json]="the C++ header nlohmann/json.hpp (Debian: nlohmann-json3-dev)"
  [abidiff]="abidiff (Debian: abigail-tools)"
  [sanitizers]="clang's runtime for sanitizers (Debian: libclang-rt-VERSION-dev)"
  [asio]="standalone Asio (Debian: libasio-dev)"
  [libuv]="libuv (Debian: libuv1-dev)"
  [libevent]="libevent (Debian: libevent-dev)"
  [glib-2.0]="GLib (Debian: libglib2.0-dev)"
  [libmosquitto]="libmosquitto (Debian: libmosquitto-dev)"
  [mosquitto-plugin]="the headers for plugins of Mosquitto (Debian: mosquitto-dev and libmosquitto-dev)"
  [dh]="debhelper (Debian: debhelper)"
  [dpkg-buildpackage]="dpkg-buildpackage (Debian: dpkg-dev)"
  [etcd]="etcd (Debian: etcd-server)"
  [faketime]="faketime (Debian: faketime)"
  [qemu]="QEMU's user mode, static (Debian: qemu-user-static)"
  [aarch64-linux-gnu-gcc]="a C compiler for ARM64 (Debian: gcc-aarch64-linux-gnu and libc6-dev-arm64-cross)"
  [arm-linux-gnueabihf-gcc]="a C compiler for 32-bit ARM (Debian: gcc-arm-linux-gnueabihf and libc6-dev-armhf-cross)"
  [promtool]="promtool (Debian: prometheus)"
  [protoc]="protoc with its descriptions (Debian: protobuf-compiler and libprotobuf-dev)"
  [redis-server]="redis-server (Debian: redis-server)"
  [systemd-analyze]="systemd-analyze (Debian: systemd)"
  [mingw]="the C compiler of mingw-w64 for x86-64 (Debian: gcc-mingw-w64-x86-64)"
  [wine]="Wine for 64-bit programs (Debian: wine and wine64)"
  [jdk]="a JDK, 17 or newer (Debian: default-jdk-headless)"
  [mvn]="Maven (Debian: maven)"
)

# The Debian packages of each need. Rust and Go are not here: Debian's are too old.
declare -A debian_packages=(
  [aarch64-linux-gnu-gcc]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" [abidiff]=abigail-tools
  [arm-linux-gnueabihf-gcc]="gcc-arm-linux-gnueabihf libc6-dev-armhf-cross" [asio]=libasio-dev [c++]=g++ [cc]="gcc libc6-dev" [certificates]=openssl [chromium]=chromium [clang]=clang
  [clang++]=clang [cmake]=cmake [curl]=curl [dh]=debhelper [doxygen]=doxygen [dpkg-buildpackage]=dpkg-dev [etcd]=etcd-server [faketime]=faketime [fsfreeze]=util-linux [g++]=g++ [git]=git
  [gcc]="gcc libc6-dev" [haproxy]=haproxy [ip]=iproute2 [json]=nlohmann-json3-dev [libmosquitto]=libmosquitto-dev [libuv]=libuv1-dev [libevent]=libevent-dev [glib-2.0]=libglib2.0-dev [lintian]=lintian
  [make]=make [mingw]=gcc-mingw-w64-x86-64 [mkfs.ext4]=e2fsprogs [mmdebstrap]=mmdebstrap [mosquitto]=mosquitto [mosquitto-plugin]="mosquitto-dev libmosquitto-dev"
  [mosquitto_passwd]=mosquitto [mosquitto_pub]=mosquitto-clients [mosquitto_rr]=mosquitto-clients [mosquitto_sub]=mosquitto-clients [mvn]=maven [nm]=binutils
  [openssl]=libssl-dev [pkg-config]=pkg-config [prometheus]=prometheus [promtool]=prometheus [protoc]="protobuf-compiler libprotobuf-dev" [python]=python3
  [qemu]=qemu-user-static
  [readelf]=binutils [redis-server]=redis-server [systemd-analyze]=systemd [unshare]=util-linux [valgrind]="valgrind libc6-dbg" [venv]=python3-venv [wine]="wine wine64"
)

# has NEED: whether this machine has it.
has() {
  case "$1" in
    rust) is_at_least 1.90 "$(rustc --version | cut -d ' ' -f 2)" && cargo --version ;;
    rustfmt) cargo fmt --version ;;
    go) is_at_least 1.26.6 "$(go env GOVERSION | sed 's/^go//')" ;;
    clippy) cargo clippy --version ;;
    # Visual Studio's compiler is in no PATH; cargo and the crates find it.
    cc) [[ "$OSTYPE" == msys* ]] || command -v cc ;;
    python) python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ;;
    mingw) command -v x86_64-w64-mingw32-gcc ;;
    wine) command -v /usr/lib/wine/wine64 || command -v wine64 || command -v wine ;;
    venv) python3 -c 'import ensurepip, venv' ;;
    node) node --eval 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' ;;
    asio) echo '#include <asio/version.hpp>' | c++ -std=c++17 -fsyntax-only -x c++ - ;;
    # Debian only recommends the C library beside the compiler.
    aarch64-linux-gnu-gcc | arm-linux-gnueabihf-gcc) echo 'int main(void) { return 0; }' | "$1" -x c - -o /dev/null ;;
    qemu) command -v qemu-aarch64-static && command -v qemu-arm-static ;;
    openssl | libmosquitto | libuv | libevent | glib-2.0) pkg-config --exists "$1" ;;
    certificates) command -v openssl ;;
    # One that can run a source file, which a mere runtime cannot.
    jdk) is_at_least 17 "$(javac -version 2>&1 | sed -n 's/^javac //p')" ;;
    json) echo '#include <nlohmann/json.hpp>' | c++ -std=c++17 -fsyntax-only -x c++ - ;;
    mosquitto-plugin) printf '#include <stdbool.h>\n#include <mosquitto.h>\n#include <mosquitto_broker.h>\n#include <mosquitto_plugin.h>\n' | cc -fsyntax-only -x c - ;;
    sanitizers) echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o /dev/null ;;
    # The descriptions that come with it are another package on Debian.
    protoc) echo 'syntax = "proto3"; import "google/protobuf/descriptor.proto";' | protoc -I/dev -o/dev/null /dev/stdin ;;
    # It needs the symbols of the C library, which are in another package.
    valgrind) valgrind -q true ;;
    # Debian keeps them where only root looks.
    fsfreeze | ip | mkfs.ext4 | mosquitto) PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$1" ;;
    *) command -v -- "$1" ;;
  esac &>/dev/null
}

# is_at_least LEAST VERSION: whether a version is not lower.
is_at_least() {
  [[ -n "$2" && "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" == "$1" ]]
}

# missing NEED...: those that this machine lacks, one per line, as a person calls them.
missing() {
  local need
  for need in "$@"; do
    has "$need" || echo "${needs_called[$need]-$need}"
  done
}

# listed: the lines of the input as one, with commas.
listed() {
  paste -sd , - | sed 's/,/, /g'
}
