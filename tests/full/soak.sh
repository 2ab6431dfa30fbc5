#!/usr/bin/env bash
# Four ranks as processes over hostnccl, the plugin enforcing, its plane and its page on, for some minutes. Again
# and again a rank is killed and started anew, or stopped until the others give it up, or all go on to a new
# communicator; each time they take over rank 0's scaler, activate and step (tests/integration/soak/worker.cc
# checks every step). What must hold besides:
#   - nobody fails but who was killed
#   - ranks 0 and 1, which live through all of it, hold no more memory, descriptors and threads at the end than in
#     the beginning
#   - rank 0's page answers and counts four ranks after every change
# Needs the main tree, curl and python3 (for a free port).
#
# usage: tests/full/soak.sh [SECONDS]     (default 300; STEPGATE_SOAK_SEED repeats a run's choices)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-300}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "soak.sh: SECONDS is '$seconds'; allowed: a whole number above 0" >&2
  exit 2
}
build=${STEPGATE_SOAK_BUILD:-$PWD/build/dev}
worker=$build/bin/soak_worker
[[ -x $worker ]] || {
  echo "soak.sh: $worker is missing; build the main tree first" >&2
  exit 1
}
seed=${STEPGATE_SOAK_SEED:-$(date +%s)}
RANDOM=$((seed % 32768))
echo "soak: $seconds s, STEPGATE_SOAK_SEED=$seed"

ranks=4
allowed_kib=2048 # between the most of the first quarter and the least of the last
folder=$(mktemp -d "${TMPDIR:-/tmp}/stepgate-soak.XXXXXX")
pids=()
round=0
kills=0
stops=0

finish() {
  local status=$?
  trap - EXIT
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  if [[ $status != 0 ]]; then tail -n 20 "$folder"/rank*.log >&2 || true; fi
  rm -rf "$folder"
  exit "$status"
}
trap finish EXIT

fail() {
  echo "soak.sh: round $round: $*" >&2
  exit 1
}

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
settings=$("$build/bin/stepgate" env torchrun --nccl host --mode enforce)

# start RANK
start() {
  local rank=$1
  (
    eval "$settings"
    export RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$ranks STEPGATE_RUN_ID=soak \
      STEPGATE_PLANE=on STEPGATE_RENDEZVOUS=127.0.0.1:$port STEPGATE_METRICS_PORT=0 STEPGATE_LOG=error \
      STEPGATE_HOSTNCCL_TIMEOUT=8
    exec "$worker" "$folder" "$rank" "$ranks" "$seed" >>"$folder/rank$rank.log" 2>&1
  ) &
  pids[rank]=$!
}

# wait_until SECONDS WHAT COMMAND...: polls; a rank that has ended fails the soak at once.
wait_until() {
  local limit=$1 what=$2 end=$((SECONDS + $1)) rank
  shift 2
  until "$@"; do
    for rank in "${!pids[@]}"; do
      # A zombie has none.
      [[ -e /proc/${pids[rank]}/exe ]] || fail "rank $rank has ended: $(tail -n 1 "$folder/rank$rank.log")"
    done
    [[ $SECONDS -lt $end ]] || fail "$what: not within $limit s"
    sleep 0.05
  done
}

all_are_steady() {
  local rank
  for ((rank = 0; rank < ranks; ++rank)); do [[ -e $folder/steady.$round.$rank ]] || return 1; done
}

page_counts_all() {
  local url
  url=$(sed -n 's/^page //p' "$folder/rank0.log" | tail -n 1)
  curl -qsf --noproxy '*' --max-time 5 "$url" >"$folder/page" || return 1
  grep -qE "^stepgate_job_ranks_up(\{[^}]*\})? $ranks\$" "$folder/page"
}

# "KiB descriptors threads" of a process.
look_at() {
  awk -v descriptors="$(find "/proc/$1/fd" -mindepth 1 | wc -l)" '
    $1 == "RssAnon:" { kib = $2 }
    $1 == "Threads:" { threads = $2 }
    END { print kib, descriptors, threads }' "/proc/$1/status"
}

# A line "round rank KiB descriptors threads" for each rank that lives through it all: the least of three looks, for
# what is being closed is not held.
sample() {
  local rank
  for rank in 0 1; do
    for _ in 1 2 3; do
      look_at "${pids[rank]}"
      sleep 0.1
    done | awk -v who="$round $rank" '
      NR == 1 { kib = $1; descriptors = $2; threads = $3 }
      { if ($1 < kib) kib = $1; if ($2 < descriptors) descriptors = $2; if ($3 < threads) threads = $3 }
      END { print who, kib, descriptors, threads }' >>"$folder/samples"
  done
}

# All ranks into the next round, until they step there and rank 0 knows them all.
next_round() {
  round=$((round + 1))
  echo "$round" >"$folder/round.new"
  mv "$folder/round.new" "$folder/round"
  wait_until 120 "the ranks did not come together" all_are_steady
  wait_until 120 "rank 0's page does not count $ranks ranks" page_counts_all
  sample
  rm -f "$folder/id.$((round - 1))" "$folder/steady.$((round - 1))."*
}

kill_one() {
  local victim=$((2 + RANDOM % 2))
  kills=$((kills + 1))
  kill -KILL "${pids[victim]}"
  wait "${pids[victim]}" 2>/dev/null || true
  start "$victim"
}

# Longer than the others wait for it.
stop_one() {
  local victim=$((2 + RANDOM % 2))
  stops=$((stops + 1))
  kill -STOP "${pids[victim]}"
  sleep 10
  kill -CONT "${pids[victim]}"
}

# most COLUMN RANK QUARTER, least COLUMN RANK QUARTER: over the first or the last quarter of the rounds; the first
# three are the start's.
over_a_quarter() {
  awk -v column="$2" -v rank="$3" -v quarter="$4" -v how="$1" '
    $2 == rank && $1 > 3 { value[++n] = $column }
    END {
      part = int(n / 4)
      if (part < 1) part = 1
      from = quarter == "first" ? 1 : n - part + 1
      found = value[from]
      for (i = from; i < from + part; ++i)
        if (how == "most" ? value[i] > found : value[i] < found) found = value[i]
      print found
    }' "$folder/samples"
}

# no_more COLUMN WHAT ALLOWED
no_more() {
  local rank first last
  for rank in 0 1; do
    first=$(over_a_quarter most "$1" "$rank" first)
    last=$(over_a_quarter least "$1" "$rank" last)
    echo "  rank $rank: $2: $first at most in the beginning, $last at least at the end"
    [[ $last -le $((first + $3)) ]] || fail "rank $rank: $2 grew from $first to $last; allowed: $3 more"
  done
}

for ((rank = 0; rank < ranks; ++rank)); do start "$rank"; done
next_round
end=$((SECONDS + seconds))
while [[ $SECONDS -lt $end || $round -lt 8 ]]; do
  # One of each first, however short the run.
  case $round in
    1) action=1 ;;
    2) action=0 ;;
    *) action=$((RANDOM % 8)) ;;
  esac
  case $action in
    0) stop_one ;;
    1 | 2 | 3 | 4) kill_one ;;
    *) ;; # all go on together
  esac
  next_round
done
touch "$folder/end"
for rank in "${!pids[@]}"; do
  status=0
  wait "${pids[rank]}" || status=$?
  [[ $status == 0 ]] || fail "rank $rank ended with status $status: $(tail -n 1 "$folder/rank$rank.log")"
done
pids=()
echo "soak: $round rounds, $kills killed, $stops stopped"
no_more 3 "KiB of memory" "$allowed_kib"
no_more 4 descriptors 0
no_more 5 threads 0
echo "soak: well"
