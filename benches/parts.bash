# What the scripts beside this share: servers on fixed ports, their load, medians, rows of a table.
# To be sourced. benches/README.md says what RLSBENCH, FLOOR and TIDEGATE are.

: "${RLSBENCH:?the load generator, see benches/README.md}"
: "${FLOOR:?the server with the constant answer, see benches/README.md}"
rounds=${ROUNDS:-3}
seconds=${SECONDS_PER_RUN:-5}
algorithms=(fixed_window sliding_window_log sliding_window_counter token_bucket leaky_bucket)

# Servers by name: process, and port (for Tidegate the first: gRPC; HTTP and admin are the next two).
declare -A pid=()
declare -A port=()

work=$(mktemp -d)

end_all() {
    trap - EXIT
    local name
    for name in "${!pid[@]}"; do stop "$name"; done
    rm -rf "$work"
}
trap end_all EXIT
trap 'exit 130' INT TERM

# Sets `tidegate` to the binary to measure: TIDEGATE, or else what is built from here.
find_tidegate() {
    tidegate=${TIDEGATE:-}
    [[ -z $tidegate ]] || return 0
    cargo build --release
    tidegate=${CARGO_TARGET_DIR:-target}/release/tidegate
}

say_where() {
    echo "load of the machine before: $(cut -d' ' -f1-3 /proc/loadavg), processors: $(nproc)"
}

until_open() {
    local n
    for ((n = 0; n < 3000; n++)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.01
    done
    echo "nothing listens on port $1" >&2
    exit 1
}

start_floor() {
    "$FLOOR" "127.0.0.1:${port[floor]}" "$(nproc)" &
    pid[floor]=$!
    until_open "${port[floor]}"
}

# start_tidegate NAME POLICY_FOLDER [VARIABLE=VALUE…]
start_tidegate() {
    local name=$1 policies=$2 first=${port[$1]}
    shift 2
    env -i POLICIES="$policies" LOG_LEVEL=error HOST=127.0.0.1 GRPC_HOST=127.0.0.1 \
        GRPC_PORT="$first" PORT=$((first + 1)) DEBUG_PORT=$((first + 2)) "$@" "$tidegate" &
    pid[$name]=$!
    until_open $((first + 1))
    until [[ $(get $((first + 1)) /healthcheck) == 'HTTP/1.1 200'* ]]; do sleep 0.01; done
}

# start_redis NAME [ARGUMENT…]
start_redis() {
    local name=$1
    shift
    mkdir -p "$work/$name"
    redis-server --port "${port[$name]}" --bind 127.0.0.1 --save '' --appendonly no --daemonize no \
        --dir "$work/$name" --logfile "$work/$name/log" "$@" &
    pid[$name]=$!
    until_open "${port[$name]}"
}

# start_cluster NAME…: the first half are masters, the others their replicas
start_cluster() {
    local name addresses=()
    for name; do
        rm -rf "${work:?}/$name" # what an earlier cluster left
        start_redis "$name" --cluster-enabled yes --cluster-node-timeout 2000 \
            --repl-diskless-sync-delay 0 ${cluster_arguments[@]+"${cluster_arguments[@]}"}
        addresses+=("127.0.0.1:${port[$name]}")
    done
    redis-cli --cluster create "${addresses[@]}" --cluster-replicas 1 --cluster-yes >/dev/null
    for name; do
        until [[ $(ask_redis "$name" CLUSTER INFO) == *cluster_state:ok* ]]; do sleep 0.05; done
    done
    # A replica that has never followed its master does not take its place.
    for name in "${@:$(($# / 2 + 1))}"; do
        until [[ $(ask_redis "$name" INFO replication) == *master_link_status:up* ]]; do sleep 0.05; done
    done
}

# ask_redis NAME WORD…
ask_redis() {
    local name=$1
    shift
    redis-cli -p "${port[$name]}" "$@"
}

# stop NAME
stop() {
    kill -s KILL "${pid[$1]}" 2>/dev/null || true
    wait "${pid[$1]}" 2>/dev/null || true
    unset "pid[$1]"
}

# get PORT PATH
get() {
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' "$2" >&3
    cat <&3
    exec 3>&-
}

# metric NAME SERIES: the sum of a Tidegate's series that begin so
metric() {
    get $((port[$1] + 1)) /metrics | awk -v series="$2" \
        'index($1, series) == 1 { n += $2 } END { printf "%d\n", n }'
}

# median FIELD NAME: of the lines of name=value pairs that this server's runs left
median() {
    tr ' ' '\n' <"$work/$2.runs" | sed -n "s/^$1=//p" | sort -g |
        awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# ratio A B
ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / b }'
}

milliseconds_of() {
    local began=${EPOCHREALTIME/./}
    "$@" >/dev/null
    echo $(((${EPOCHREALTIME/./} - began) / 1000))
}

# limit ALGORITHM UNIT N: a rate_limit in which N may come at once
limit() {
    local burst=''
    [[ $1 == leaky_bucket ]] && burst=", burst: $3"
    echo "{ algorithm: $1, unit: $2, requests_per_unit: $3$burst }"
}

# for_users DOMAIN LIMIT
for_users() {
    printf 'domain: %s\ndescriptors:\n  - key: user\n    rate_limit: %s\n' "$1" "$2"
}

heading() {
    printf '\n%-58s %12s %10s\n' "$1" measured bound
}

# row_of_fallbacks NAME…: that these Tidegates asked Redis for every decision, or why not
row_of_fallbacks() {
    local name n=0 fallbacks=tidegate_fallback_decisions_total
    for name; do n=$((n + $(metric "$name" $fallbacks))); done
    row 'decisions by a failure mode' "$n" '=' 0
    [[ $n == 0 ]] || for name; do get $((port[$name] + 1)) /metrics | grep "^$fallbacks.* [1-9]"; done
}

# row FIGURE VALUE ['<='|'>='|'=' BOUND]
row() {
    local verdict=''
    [[ $# -lt 4 ]] || verdict=$(awk -v a="$2" -v op="$3" -v b="$4" 'BEGIN {
        kept = op == "<=" ? a <= b : op == ">=" ? a >= b : a == b
        print a ~ /^[0-9.]+$/ && kept ? "kept" : "MISSED"
    }')
    printf '%-58s %12s %10s  %s\n' "$1" "$2" "${3:-} ${4:-}" "$verdict"
}
