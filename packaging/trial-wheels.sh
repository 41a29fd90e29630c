#!/bin/sh
# Installs the wheels of a folder into a new environment and runs a page's program there: trial-wheels.sh FOLDER PAGE. POSIX sh, since Alpine
# has no bash.
set -eu
folder=$1 page=$2
scratch=$(mktemp -d)
server=
tidy() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap tidy EXIT

python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --disable-pip-version-check --no-index --find-links "$folder" 'statestore[server]'
"$scratch/venv/bin/statestored" --storage memory --listen tcp://127.0.0.1:0 >"$scratch/output" &
server=$!
until grep -q '^listening on ' "$scratch/output"; do
  kill -0 "$server" || { echo "trial-wheels.sh: the server does not start" >&2; exit 1; }
  sleep 0.1
done
address=$(sed -n 's#^listening on tcp://##p' "$scratch/output")
awk '/^```/ { if (inside) exit; inside = /^```python/; next } inside' "$page" | sed "s#127.0.0.1:1883#$address#" >"$scratch/program.py"
output=$("$scratch/venv/bin/python" "$scratch/program.py")
echo "$output"
case $output in *hello*) ;; *) echo "trial-wheels.sh: the program did not print hello" >&2; exit 1 ;; esac
kill -TERM "$server"
wait "$server"
server=
