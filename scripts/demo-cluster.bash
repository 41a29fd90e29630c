# The part `cluster` of scripts/demo. Sourced by it.

# A server that can keep its entries in an etcd, and a program that counts.
prepare_cluster() {
  local began=$SECONDS
  [[ -z "$built" ]] || return 0
  echo "Building a statestored with etcd (some minutes the first time) ..."
  cargo build --locked -p statestored -p statestore --features statestored/etcd --bin statestored --example counter
  echo "It took $((SECONDS - began)) s."
}

# begin NAME: starts a member of the etcd or a server, with what it has on its disk.
begin() {
  run_one "$1" "${1#*-}" >>"$scratch/log" 2>&1 &
  cluster_pids[$1]=$!
}

# run_one NAME NUMBER: is that member or server.
run_one() {
  # The counter's input ends when nobody has its other end any more.
  [[ -z "${go_on-}" ]] || exec {go_on}>&-
  local listen=127.0.0.1:${cluster_ports[$2]} peer=127.0.0.1:${cluster_ports[$2 + 3]}
  case "$1" in
    member-*)
      exec etcd --name "$1" --data-dir "$scratch/$1" --initial-cluster "$cluster_peers" \
        --listen-client-urls "http://$listen" --advertise-client-urls "http://$listen" \
        --listen-peer-urls "http://$peer" --initial-advertise-peer-urls "http://$peer"
      ;;
    server-*)
      exec statestored --storage "$cluster_storage" --listen "tcp://127.0.0.1:${cluster_ports[$2 + 6]}"
      ;;
  esac
}

# listens NUMBER...: waits until somebody listens on these of the ports.
listens() {
  local number patience=200
  for number in "$@"; do
    until (exec 3<>"/dev/tcp/127.0.0.1/${cluster_ports[number]}") 2>/dev/null; do
      ((patience-- > 0)) || fail "nobody listens on port ${cluster_ports[number]}"
      sleep 0.1
    done
  done
}

# kill_one NAME: kills it with SIGKILL.
kill_one() {
  kill -KILL "${cluster_pids[$1]}"
  # The shell says that it was killed, which is what was wanted.
  wait "${cluster_pids[$1]}" 2>/dev/null || true
  unset "cluster_pids[$1]"
}

# counts_on: waits until the counter has counted on for a while, and shows what it says.
counts_on() {
  line=
  until [[ "$line" =~ ^counted\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= ${counted_to:-0} + 100)); do next_line counter; done
  counted_to=${BASH_REMATCH[1]}
  echo "counter> $line"
}

demo_cluster() {
  local ports='import socket; all = [socket.create_server(("127.0.0.1", 0)) for _ in range(8)]; print(*[one.getsockname()[1] for one in all])'
  local name counted_to=0
  read -r -a cluster_ports < <(python3 -c "$ports")
  local members=127.0.0.1:${cluster_ports[0]},127.0.0.1:${cluster_ports[1]},127.0.0.1:${cluster_ports[2]}
  cluster_peers=member-0=http://127.0.0.1:${cluster_ports[3]},member-1=http://127.0.0.1:${cluster_ports[4]},member-2=http://127.0.0.1:${cluster_ports[5]}
  cluster_storage=etcd://$members/demo
  say "Three members of etcd"
  for name in member-0 member-1 member-2; do begin "$name"; done
  echo "\$ etcd --name member-0 ... & etcd --name member-1 ... & etcd --name member-2 ... &"

  listens 0 1 2

  say "Two servers over them"
  for number in 0 1; do
    echo "\$ statestored --storage $cluster_storage --listen tcp://127.0.0.1:${cluster_ports[number + 6]} &"
    begin "server-$number"
  done
  local url=mqtt://127.0.0.1:${cluster_ports[6]},127.0.0.1:${cluster_ports[7]}
  listens 6 7

  say "A client that knows both, and counts"
  echo "\$ counter $url &"
  mkfifo "$scratch/go-on"
  run_counter() { exec "$CARGO_TARGET_DIR/debug/examples/counter" "$url" <"$scratch/go-on"; }
  start counter run_counter
  exec {go_on}>"$scratch/go-on"
  counts_on

  for name in member-0 member-1 member-2 server-0 server-1; do
    say "$name is killed, the count goes on; it comes back"
    echo "\$ kill -KILL %$name"
    kill_one "$name"
    counts_on
    begin "$name"
    counts_on
  done

  say "Nothing was lost"
  exec {go_on}>&-
  go_on=
  while [[ "$line" != stored* ]]; do next_line counter; done
  echo "counter> $line"
  finish counter
  for name in "${!cluster_pids[@]}"; do
    kill -TERM "${cluster_pids[$name]}"
    wait "${cluster_pids[$name]}" 2>/dev/null || true
    unset "cluster_pids[$name]"
  done
}
