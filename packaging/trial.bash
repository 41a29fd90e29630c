# Trials of the artefacts. Sourced by scripts/package.

scratch= server_pid=
tidy() {
  [[ -z "$server_pid" ]] || kill -KILL "$server_pid" 2>/dev/null || true
  [[ -z "$scratch" ]] || rm -rf "$scratch"
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  echo "scripts/package: $*" >&2
  exit 1
}

# Creates the empty folder `scratch`, and removes that of an earlier trial.
new_work_dir() {
  [[ -z "$scratch" ]] || rm -rf "$scratch"
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/statestore-package.XXXXXX")
}

# serve STATESTORED: starts a server on a free port, and sets `url`.
serve() {
  local line
  exec {ready}< <(exec "$1" --storage memory --listen tcp://127.0.0.1:0 2>"$scratch/statestored.log")
  server_pid=$!
  IFS= read -r -t 20 line <&"$ready" || fail "$1 does not start: $(cat "$scratch/statestored.log")"
  url="mqtt://${line#listening on tcp://}"
}

end_server() {
  exec {ready}<&-
  kill -TERM "$server_pid"
  wait "$server_pid" || fail "the server ended with exit code $?"
  server_pid=
}

# quickstart LANGUAGE: prints the program of docs/start.md, for the started server.
quickstart() {
  awk -v language="$1" '$0 ~ "^```" { if (inside) exit; inside = ($0 ~ "^```" language); next } inside' docs/start.md |
    sed "s#mqtt://127.0.0.1:1883#$url#"
}

# prints_hello COMMAND...: checks that the program of docs/start.md prints the value that it set.
prints_hello() {
  local said
  said=$("$@") || fail "$* ended with exit code $?"
  [[ "$said" == *hello* ]] || fail "$* printed: $said"
  echo "${said%%$'\n'*}"
}

# at_most MIB FILE: checks the size of an optimised artefact.
at_most() {
  local size
  size=$(stat -c %s "$2")
  awk -v size="$size" -v name="$(basename "$2")" 'BEGIN { printf "%s has %.2f MiB\n", name, size / 1048576 }'
  [[ "$profile" == dev ]] || ((size <= $1 * 1048576)) || fail "$2 is larger than $1 MiB"
}
