# How scripts/test runs steps: one after the other, or in lanes at the same time. Sourced by it.

# Longer than any step takes on two cores, beside other work.
step_minutes=${STEP_MINUTES:-45}

# Of each step that runs, its process group and the one of its watchdog. Each is a group, so that none of its processes can stay behind.
set -m
declare -A running=() watchdogs=() began=() took=() outcomes=()
failed=()
# Where steps say that they have ended, and what they print until then if others run beside them.
reports=$(mktemp -d)
mkfifo "$reports/ended"
# Both ends, so that reading never finds the end of it.
exec {ended}<>"$reports/ended"

# begin STEP [FILE]: starts a step in the background. What it prints goes into FILE.
begin() {
  local step=$1
  began[$step]=$SECONDS
  if (($# > 1)); then
    echo "--> $step begins"
    run_step "$step" </dev/null >"$2" 2>&1 &
  else
    printf '\n==> %s: %s\n' "$step" "${about[$step]}"
    run_step "$step" </dev/null &
  fi
  running[$step]=$!
  if (($# > 1)); then end_late "$step" "$!" </dev/null >>"$2" 2>&1 & else end_late "$step" "$!" </dev/null & fi
  watchdogs[$step]=$!
}

# run_step STEP: runs it, and says at last how it ended and how much of the processors' time it took.
run_step() {
  local lacking
  # Not local: a step that fails leaves every function before this trap runs.
  this=$1
  trap 'code=$?; times >"$reports/$this.times"; echo "$this $code" >&"$ended"' EXIT
  trap - INT TERM
  set -e
  lacking=$(lacks "$this" | listed)
  [[ -z "$lacking" ]] || { echo "scripts/test $this: this machine lacks: $lacking" >&2; exit 1; }
  "step_$this"
}

# processes_of GROUP: its processes, and what each of their threads waits in.
processes_of() {
  local stat fields thread
  for stat in /proc/[0-9]*/stat; do
    # Behind the name, which is in brackets: state, parent, group.
    fields=$(sed 's/.*) //' "$stat" 2>/dev/null) || continue
    [[ "$(cut -d ' ' -f 3 <<<"$fields")" == "$1" ]] || continue
    stat=${stat%/stat}
    echo "${stat#/proc/} $(tr '\0' ' ' <"$stat/cmdline")"
    for thread in "$stat"/task/*; do
      echo "    $(cat "$thread/comm") $(cut -d ' ' -f 1 <<<"$(sed 's/.*) //' "$thread/stat")") $(cat "$thread/wchan")"
    done
  done 2>/dev/null
  return 0
}

# end_late STEP GROUP: ends a step that takes too long, and says what it was at. Something there waits for ever, and would take the others' time.
end_late() {
  trap - EXIT INT TERM
  sleep $((step_minutes * 60))
  echo "scripts/test $1: not over after $step_minutes minutes (STEP_MINUTES), and ended. Its processes and their threads:" >&2
  processes_of "$2" >&2
  kill -KILL -- "-$2" || true
  echo "$1 late" >&"$ended"
}

# end_step STEP: ends what is left of it.
end_step() {
  local group
  for group in ${watchdogs[$1]-} ${running[$1]-}; do
    kill -KILL -- "-$group" 2>/dev/null || true
    wait "$group" 2>/dev/null || true
  done
  unset "running[$1]" "watchdogs[$1]"
}

# end_all: ends every step that runs, and shows what those have printed that run beside others.
end_all() {
  local step
  for step in "${!running[@]}"; do
    end_step "$step"
    [[ ! -s "$reports/$step.log" ]] || { printf '\n==> %s, until it was ended:\n' "$step"; cat "$reports/$step.log"; }
  done
  rm -rf "$reports"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# await: waits until one of the steps that run has ended, and tells of it; `step` is which one.
await() {
  local code outcome=passed processors=?
  until read -r step code <&"$ended" && [[ -n "${running[$step]-}" ]]; do :; done
  [[ "$code" == 0 ]] || { outcome=FAILED; failed+=("$step"); }
  end_step "$step"
  [[ ! -e "$reports/$step.log" ]] || {
    printf '\n==> %s: %s\n' "$step" "${about[$step]}"
    cat "$reports/$step.log"
    rm "$reports/$step.log"
  }
  # "0m1.230s 0m0.120s", for the shell itself and for what it waited for.
  [[ ! -e "$reports/$step.times" ]] ||
    processors=$(awk -F '[ms ]+' '{ all += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", all }' "$reports/$step.times")
  took[$step]=$((SECONDS - began[$step])) outcomes[$step]=$outcome
  printf '<== %s %s in %d s\n' "$step" "$outcome" "${took[$step]}"
  results+=("$(printf '  %-10s %-7s %5d s %7s s' "$step" "$outcome" "${took[$step]}" "$processors")")
}

# one_by_one STEP...: in this order.
one_by_one() {
  local each step
  for each in "$@"; do
    begin "$each"
    await
  done
}

# side_by_side LANE...: each is the name of an array of steps, which run one after the other, beside those of the other lanes.
side_by_side() {
  local lane step
  local -A lane_of=() next=()
  for lane in "$@"; do begin_next; done
  while ((${#running[@]})); do
    await
    lane=${lane_of[$step]}
    begin_next
  done
}

# begin_next: the next step of the lane `lane`, if it has one.
begin_next() {
  local -n steps_of=$lane
  local its=${steps_of[${next[$lane]:-0}]-}
  [[ -n "$its" ]] || return 0
  next[$lane]=$((${next[$lane]:-0} + 1))
  lane_of[$its]=$lane
  begin "$its" "$reports/$its.log"
}
