# Runs the steps of scripts/test, one after the other or in two lanes side by side, and reports on them. Sourced by it.

# Each step and its watchdog is a process group of its own, so that none of its processes outlives it.
set -m
declare -A running=() watchdogs=() began=() lane_of=()
failed=() rows=()
# Exit notices of steps, what steps in a lane print, their processor times and their rustc runs.
reports=$(mktemp -d)
mkfifo "$reports/ended"
# Opened for reading and writing, so that reading never sees the end of the file.
exec {ended}<>"$reports/ended"

# begin STEP [lane]: starts a step in the background. In a lane its output is kept until it ends.
begin() {
  local step=$1 log="$reports/$1.log"
  began[$step]=$SECONDS
  if (($# > 1)); then
    echo "--> $step begins"
    run_step "$step" </dev/null >"$log" 2>&1 &
  else
    printf '\n==> %s: %s\n' "$step" "${about[$step]}"
    # The subshell keeps tee in the step's process group.
    (run_step "$step" </dev/null 2>&1 | tee "$log") &
  fi
  running[$step]=$!
  watch "$step" "$!" "$log" </dev/null &
  watchdogs[$step]=$!
}

# run_step STEP: runs a step, and writes its exit code, processor time and rustc runs into the reports.
run_step() {
  local lacking
  # Global: the trap runs after the function has returned.
  this=$1
  trap 'code=$?; times >"$reports/$this.times"; echo "$this $code" >&"$ended"' EXIT
  trap - INT TERM
  set -e
  export RUSTC_RUNS="$reports/$this.rustc"
  : >"$RUSTC_RUNS"
  lacking=$(lacks "$this" | listed)
  [[ -z "$lacking" ]] || { echo "scripts/test $this: this machine lacks: $lacking" >&2; exit 1; }
  "step_$this"
}

# watch STEP GROUP LOG: ends a step that makes no progress: less than three seconds of processor time, and no output, in $stall_minutes minutes.
# A slow machine makes progress; a wall clock would end a step there that is about to pass.
watch() {
  local step=$1 group=$2 log=$3 ticks size last_ticks=0 last_size=0 idle=0
  trap - EXIT INT TERM
  while sleep 10; do
    ticks=$(processor_ticks "$group")
    size=$(stat -c %s "$log" 2>/dev/null || echo 0)
    # Processes that ended take their ticks with them, so any large change is progress.
    if ((size != last_size || ticks - last_ticks > 300 || last_ticks - ticks > 300)); then
      idle=0 last_ticks=$ticks last_size=$size
    elif (((idle += 10) >= stall_minutes * 60)); then
      {
        echo "scripts/test $step: no progress for $stall_minutes minutes (STALL_MINUTES); it is ended. Its processes and their threads:"
        processes_of "$group"
      } >>"$log"
      ((in_parallel)) || tail -n 200 "$log" | sed -n '/no progress for/,$p' >&2
      kill -KILL -- "-$group" || true
      echo "$step stalled" >&"$ended"
      return
    fi
  done
}

# processor_ticks GROUP: hundredths of a second that the group's processes, and children they waited for, have used.
processor_ticks() {
  # Fields after the name, which is in parentheses: 3 is the group, 12 to 15 are the times.
  cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | awk -v group="$1" '$3 == group { sum += $12 + $13 + $14 + $15 } END { print sum + 0 }'
}

# processes_of GROUP: the command lines of its processes, and what each of their threads waits for in the kernel.
processes_of() {
  local stat fields thread
  for stat in /proc/[0-9]*/stat; do
    fields=$(sed 's/.*) //' "$stat" 2>/dev/null) || continue
    [[ "$(cut -d ' ' -f 3 <<<"$fields")" == "$1" ]] || continue
    stat=${stat%/stat}
    echo "${stat#/proc/} $(tr '\0' ' ' <"$stat/cmdline")"
    for thread in "$stat"/task/*; do
      echo "    $(cat "$thread/comm") $(sed 's/.*) //' "$thread/stat" | cut -d ' ' -f 1) $(cat "$thread/wchan")"
    done
  done 2>/dev/null
  return 0
}

# end_step STEP: ends what is left of a step.
end_step() {
  local group
  for group in ${watchdogs[$1]-} ${running[$1]-}; do
    kill -KILL -- "-$group" 2>/dev/null || true
    wait "$group" 2>/dev/null || true
  done
  unset "running[$1]" "watchdogs[$1]"
}

# end_all: ends every running step, and prints the output of those in lanes.
end_all() {
  local step
  for step in "${!running[@]}"; do
    end_step "$step"
    ((!in_parallel)) || { printf '\n==> %s, until it was interrupted:\n' "$step"; cat "$reports/$step.log"; }
  done
  rm -rf "$reports"
}
in_parallel=0
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await: waits until a running step has ended, and reports on it; `step` is its name.
await() {
  local code outcome=passed log
  until read -r step code <&"$ended" && [[ -n "${running[$step]-}" ]]; do :; done
  log="$reports/$step.log"
  # Outside of lanes, tee may still be printing the last lines.
  ((in_parallel)) || [[ "$code" == stalled ]] || wait "${running[$step]}" || true
  [[ "$code" == 0 ]] || { outcome=FAILED; failed+=("$step"); }
  end_step "$step"
  ((!in_parallel)) || { printf '\n==> %s: %s\n' "$step" "${about[$step]}"; cat "$log"; }
  printf '<== %s %s in %d s\n' "$step" "$outcome" "$((SECONDS - began[$step]))"
  rows+=("$(printf '  %-10s %-7s %6d %10s %6s' "$step" "$outcome" "$((SECONDS - began[$step]))" "$(processor_seconds "$step")" "$(rustc_runs "$step")")")
}

# processor_seconds STEP: of the step's shell and everything that it waited for.
processor_seconds() {
  # "0m1.230s 0m0.120s", a line for the shell and one for its children.
  awk -F '[ms ]+' '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", sum }' "$reports/$1.times" 2>/dev/null || echo '?'
}

rustc_runs() { wc -l <"$reports/$1.rustc" 2>/dev/null || echo 0; }

# run_sequentially STEP...: runs steps in this order.
run_sequentially() {
  local each step
  in_parallel=0
  for each in "$@"; do
    begin "$each"
    await
  done
}

# run_in_parallel "STEP..." "STEP...": runs the steps of each argument in their order, beside those of the other arguments.
run_in_parallel() {
  local lane step
  local -a queues=("$@")
  in_parallel=1
  for lane in "${!queues[@]}"; do begin_next; done
  while ((${#running[@]})); do
    await
    lane=${lane_of[$step]}
    begin_next
  done
  in_parallel=0
}

# begin_next: starts the next step of the lane `lane`, if there is one.
begin_next() {
  local -a rest
  read -ra rest <<<"${queues[lane]}"
  ((${#rest[@]})) || return 0
  queues[lane]="${rest[*]:1}"
  lane_of[${rest[0]}]=$lane
  begin "${rest[0]}" lane
}

# summary: the table of steps, the number of tests by language, and what was left out.
summary() {
  printf '\n  %-10s %-7s %6s %10s %6s\n' step outcome time,s processor,s rustc
  printf '%s\n' "${rows[@]}"
  printf '%s\n' "${rows[@]}" |
    awk -v time="$SECONDS" '{ processor += $4; runs += $5 } END { printf "  %-10s %-7s %6d %10d %6d\n\n", "total", "", time, processor, runs }'
  python3 scripts/count_tests.py "$reports"/*.log
}
