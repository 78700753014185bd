# part-shared.sh: what shared memory is for: many consumers, an old
# transaction, waiting.

HOLD=${HOLD:-60}					# seconds that a transaction stays open
TURNS=${TURNS:-15}					# for each number of consumers
TURN=${TURN:-2}						# seconds that each lasts
WARM=${WARM:-8}						# and that they run before
MINUTE=${MINUTE:-60}				# and of one that sees what vacuum leaves and does

# cycle_scripts NAME: the cycles of part_cycle, without marks
cycle_scripts()
{
	script "$1-hand" <<'END'
INSERT INTO bench.hand (body) VALUES ('a body of fifty bytes, as in an order of one item.') RETURNING id, message_id;
UPDATE bench.hand SET visible_at = now() + interval '30 s', receive_count = receive_count + 1 WHERE id = (SELECT id FROM bench.hand WHERE visible_at <= now() ORDER BY visible_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body, receive_count \gset
DELETE FROM bench.hand WHERE id = :id;
END
	script "$1-sqs" <<END
SELECT (sqs_send('$1', 'a body of fifty bytes, as in an order of one item.')).message_id;
SELECT receipt_handle, body, receive_count FROM sqs_receive('$1') \gset
SELECT sqs_delete('$1', :receipt_handle);
END
}

# hold STATEMENT: a transaction that has done this and stays open
hold()
{
	mkfifo "$WORK/hold"
	"$BIN/psql" -X -q -At <"$WORK/hold" >"$WORK/hold.log" 2>&1 &
	exec 8>"$WORK/hold"
	rm "$WORK/hold"
	echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id(); $1; SELECT 'held';" >&8
	until grep -q held "$WORK/hold.log"; do sleep 0.1; done
}

release()
{
	echo "COMMIT;" >&8
	exec 8>&-
}

# watch_backend: notes each second what CPU time the backend of pgbench has had
watch_backend()
{
	local pid cpu start=${EPOCHREALTIME/./}

	sleep 1						# pgbench's first connection is not the one
	pid=$(value "SELECT max(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'")
	while read -r cpu _ <"/proc/$pid/schedstat"; do
		echo "$((${EPOCHREALTIME/./} - start)) $cpu"
		sleep 1
	done 2>/dev/null >"$WORK/backend.log"
}

# keep_rates NAME FROM TO: keeps throughput and CPU of a cycle in these seconds
keep_rates()
{
	local rate cpu

	rate=$(awk -v from="$2" -v to="$3" '/^progress:/ && $2 > from && $2 <= to + 0.5 { sum += $4; n++ }
		END { print n ? sum / n : 0 }' "$WORK/pgbench.log")
	cpu=$(awk -v from="$2" -v to="$3" '$1 >= from * 1e6 && $1 <= to * 1e6 { if (!n++) { t = $1; c = $2 } last_t = $1; last_c = $2 }
		END { print (n > 1 ? (last_c - c) / (last_t - t) * 1000 : "NULL") }' "$WORK/backend.log")
	sql "INSERT INTO bench.measured (part, variant, per_second, cpu_us)
		VALUES ('horizon', '$1', $rate, $cpu / nullif($rate, 0))"
}

# rates VARIANT HOLD NAME: cycles while a transaction is open, then without it
rates()
{
	local variant=$1 seconds=$2 span=$(($2 < 20 ? $2 / 2 : 10))

	(sleep "$seconds"; release) &
	watch_backend &
	pgbench_run "horizon-$variant" -c 1 -P 1 -T $((seconds + 6))
	exec 8>&-
	wait
	keep_rates "$3 first" 0 $span
	keep_rates "$3 last" $((seconds - span)) "$seconds"
	keep_rates "$3 after" $((seconds + 2)) $((seconds + 6))
}

# rate_figure TEXT TARGET THIS THAT: throughput, then CPU, of what was kept
rate_figure()
{
	figure "  $1" "$2" "bench.median('horizon', '$3', 'per_second')" "bench.median('horizon', '$4', 'per_second')" \
		"bench.median('horizon', '$3', 'per_second') / bench.median('horizon', '$4', 'per_second')"
	figure '    backend CPU of a cycle, µs' '' "bench.median('horizon', '$3', 'cpu_us')" \
		"bench.median('horizon', '$4', 'cpu_us')" NULL
}

# a transaction stays open, so that vacuum can remove nothing
part_horizon()
{
	make_queue horizon
	cycle_scripts horizon
	empty_both horizon
	one_core
	hold "SELECT 1"; rates sqs "$HOLD" old; vacuum horizon
	hold "SELECT 1"; rates hand "$HOLD" hand; vacuum horizon
	hold "SELECT sqs_send('horizon', 'held')"; rates sqs $((HOLD / 2)) sent; vacuum horizon
	sql "SELECT sqs_purge_queue('horizon')" "SELECT sqs_send('horizon', 'held')"
	hold "SELECT sqs_receive('horizon')"; rates sqs $((HOLD / 2)) received; vacuum horizon

	# 200,000 dead entries, and nobody remembers where they end
	fill horizon 200000 0
	sql "SET pg_sqs.max_batch_size = 10000; SELECT count(*) FROM generate_series(1, 20) AS i, sqs_consume('horizon', 10000 + 0 * i)"
	as_user "$BIN/pg_ctl" -D "$WORK/data" -l "$WORK/server.log" -w -m fast restart >/dev/null
	one_core
	watch_backend &
	pgbench_run horizon-sqs -c 1 -P 1 -T 6
	wait
	keep_rates restart 2 6

	heading "cycles per second while a transaction is open for $HOLD s"
	rate_figure 'it did nothing: last seconds, beside the first' '>= 0.9' 'old last' 'old first'
	rate_figure 'it did nothing: two seconds after its end, beside the first' '>= 0.9' 'old after' 'old first'
	rate_figure 'it did nothing: last seconds, beside hand-written SQL' '>= 10' 'old last' 'hand last'
	rate_figure 'it has sent: last seconds, beside the first' '>= 0.9' 'sent last' 'sent first'
	rate_figure 'it has sent: two seconds after its end, beside the first' '>= 0.9' 'sent after' 'sent first'
	rate_figure 'it has received: last seconds, beside the first' '>= 0.9' 'received last' 'received first'
	rate_figure 'it has received: two seconds after its end, beside the first' '>= 0.9' 'received after' 'received first'
	rate_figure 'two seconds after a restart, 200,000 dead in front' '>= 0.9' restart 'old first'
}

# tps SCRIPT CLIENTS SECONDS: transactions per second in the second half of a
# run; in the first, every process fills its caches
tps()
{
	pgbench_run "$1" -c "$2" -j 2 -T "$3" -P 1
	awk -v from="$(($3 / 2))" '/^progress:/ && $2 > from + 0.5 { sum += $4; n++ }
		END { print n ? sum / n : 0 }' "$WORK/pgbench.log"
}

# full_queues: 200,000 messages in the queue, and in the hand-written table
full_queues()
{
	sql "SELECT sqs_purge_queue('consumers')" "TRUNCATE bench.hand" \
		"INSERT INTO bench.hand (body) SELECT rpad('message ' || i, 50, '.') FROM generate_series(1, 200000) AS i"
	fill consumers 200000 0
	vacuum consumers
	sql CHECKPOINT
}

# deleted: messages deleted so far, and when that was, in microseconds
deleted()
{
	echo "$(value "SELECT number_of_messages_deleted FROM sqs_metrics WHERE queue_name = 'consumers'") ${EPOCHREALTIME/./}"
}

# consumer_turns QUANTITY: each number of clients has a pgbench of its own, and
# these run by turns, for some seconds each; the others are stopped.  So all
# have the same machine and the same table, and their caches are filled.
consumer_turns()
{
	local quantity=$1 clients round from to
	local -A pgbench=()

	full_queues
	for clients in 1 8 32 64; do
		pgbench_start "consumers-sqs-$quantity" -c "$clients" -j 2 -T 100000
		pgbench[$clients]=$!
		sleep "$WARM"
		kill -STOP "$!" || die "pgbench failed with $clients clients"
	done
	for ((round = 1; round <= TURNS; round++)); do
		for clients in $(by_turns "$round" 1 8 32 64); do
			kill -CONT "${pgbench[$clients]}"
			sleep 0.5
			from=$(deleted)
			sleep "$TURN"
			to=$(deleted)
			kill -STOP "${pgbench[$clients]}" || die "pgbench failed with $clients clients"
			sql "INSERT INTO bench.measured (part, variant, pair, per_second)
				VALUES ('consumers', 'sqs $quantity $clients', $round, (${to% *} - ${from% *}) * 1e6 / (${to#* } - ${from#* }))"
		done
	done
	kill -KILL "${pgbench[@]}"
	wait "${pgbench[@]}" 2>/dev/null
	until [ "$(value "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" = 0 ]; do
		sleep 0.1
	done
}

# consumer_minute VARIANT QUANTITY: 64 clients for a minute, from full queues
consumer_minute()
{
	full_queues
	sql "INSERT INTO bench.measured (part, variant, pair, per_second)
		VALUES ('consumers', '$1 $2 minute', 1, $2 * $(tps "consumers-$1-$2" 64 "$MINUTE"))"
}

# many clients on one queue, which stays at 200,000 messages; autovacuum as
# PostgreSQL sets it.  Beside the hand-written SQL, a minute with 64 clients.
part_consumers()
{
	local clients quantity variant

	make_queue consumers
	cycle_scripts consumers
	for variant in hand sqs; do
		cp "$WORK/consumers-$variant.pgbench" "$WORK/consumers-$variant-1.pgbench"
	done
	script consumers-hand-10 <<'END'
WITH taken AS (UPDATE bench.hand SET visible_at = now() + interval '30 s', receive_count = receive_count + 1 WHERE id = ANY (ARRAY(SELECT id FROM bench.hand WHERE visible_at <= now() ORDER BY visible_at, id LIMIT 10 FOR UPDATE SKIP LOCKED)) RETURNING id) SELECT array_agg(id) AS ids FROM taken \gset
DELETE FROM bench.hand WHERE id = ANY (:ids);
INSERT INTO bench.hand (body) SELECT 'a body of fifty bytes, as in an order of one item.' FROM generate_series(1, 10) RETURNING id;
END
	script consumers-sqs-10 <<'END'
SELECT array_agg(receipt_handle) AS handles FROM sqs_receive('consumers', 10) \gset
SELECT sqs_delete_many('consumers', :handles);
SELECT sqs_send_many('consumers', array_fill('a body of fifty bytes, as in an order of one item.'::text, ARRAY[10]));
END
	autovacuum on
	for quantity in 1 10; do
		consumer_turns $quantity
		for variant in sqs hand; do
			consumer_minute $variant $quantity
		done
	done
	autovacuum off
	for quantity in 1 10; do
		heading "messages per second: all clients receive $quantity of 200,000, delete and send as many"
		for clients in 1 8 32 64; do
			figure "  $clients clients" '' "bench.median('consumers', 'sqs $quantity $clients', 'per_second')" NULL NULL
		done
		figure "  64 clients, beside the best number of clients" '>= 0.9' "NULL" "NULL" \
			"bench.median('consumers', 'sqs $quantity 64', 'per_second') / (SELECT max(bench.median('consumers', variant, 'per_second'))
				FROM unnest(ARRAY['sqs $quantity 1', 'sqs $quantity 8', 'sqs $quantity 32', 'sqs $quantity 64']) AS variant)"
		figure "  64 clients, in the second half of $MINUTE s, beside hand-written SQL" '>= 3' \
			"bench.median('consumers', 'sqs $quantity minute', 'per_second')" \
			"bench.median('consumers', 'hand $quantity minute', 'per_second')" \
			"bench.ratio('consumers', 'sqs $quantity minute', 'hand $quantity minute', 'per_second')"
	done
}

# every commit is on disk before it returns
part_durable()
{
	local pair variant

	make_queue durable
	cycle_scripts durable
	for variant in hand sqs; do
		measured_script "durable-$variant" <<<"$(cat "$WORK/durable-$variant.pgbench")"
	done
	sql "ALTER SYSTEM SET fsync = on" "SELECT pg_reload_conf()"
	one_core
	for pair in $(seq "$PAIRS"); do
		for variant in $(by_turns "$pair" hand sqs); do
			empty_both durable
			PGOPTIONS="-c synchronous_commit=on" measure durable "$variant" "$pair" $((CYCLES / 20))
		done
	done
	sql "ALTER SYSTEM SET fsync = off" "SELECT pg_reload_conf()"
	heading 'send + receive + delete, one client, synchronous_commit on; beside hand-written SQL'
	figure '  cycles per second' '>= 1.35' "bench.median('durable', 'sqs', 'per_second')" \
		"bench.median('durable', 'hand', 'per_second')" "bench.ratio('durable', 'sqs', 'hand', 'per_second')"
}

# what waiting costs whom, and how soon it ends
part_wakeup()
{
	local latency late waiters pid producers=()

	need libpq
	make_queue wakeup
	gcc -O2 -o "$WORK/wakeup" "$TOP/test/bench/wakeup.c" -I"$("$PG_CONFIG" --includedir)" \
		-L"$("$PG_CONFIG" --libdir)" -lpq || die "wakeup.c does not compile"
	latency=$("$WORK/wakeup" latency 300) || exit 1
	heading 'a message to a waiting receive'
	figure '  from the call of sqs_send to delivery, median, ms' '<= 1' "${latency% *}" NULL NULL
	figure '  the same, 99th percentile, ms' '<= 5' "${latency#* }" NULL NULL
	figure '  of 100 waiters, those that a send wakes' '<= 2' "$("$WORK/wakeup" herd 100 100)" NULL NULL
	late=$(for pair in 1 2 3 4 5; do
		value "SELECT sqs_send('wakeup', 'later', 1)" "SELECT 1000 * extract(epoch FROM clock_timestamp() - sent_at) - 1000
			FROM sqs_receive('wakeup', wait_time_seconds => 5), sqs_delete('wakeup', receipt_handle)" | tail -n 1
	done | sort -n | tail -n 1)
	figure '  a delayed message, after it is due, the slowest of five, ms' '<= 20' "$late" NULL NULL

	# messages that are not due for long, so that those who wait go on waiting
	make_queue producers
	script wakeup-producer <<'END'
SELECT (sqs_send('producers', 'a body of fifty bytes, as in an order of one item.', 900)).message_id;
END
	script wakeup-waiter <<'END'
SELECT receipt_handle FROM sqs_receive('producers', wait_time_seconds => 20);
END
	for pair in $(seq "$PAIRS"); do
		for waiters in $(by_turns "$pair" 0 1 100); do
			empty_both producers
			sql CHECKPOINT
			pid=
			if [ "$waiters" != 0 ]; then
				"$BIN/pgbench" -n -c "$waiters" -T 600 -f "$WORK/wakeup-waiter.pgbench" >/dev/null 2>&1 &
				pid=$!
				sleep 1
			fi
			sql "INSERT INTO bench.measured (part, variant, pair, per_second)
				VALUES ('producers', '$waiters', $pair, $(tps wakeup-producer 64 4))"
			[ -z "$pid" ] || { kill "$pid"; wait "$pid"; sql "SELECT pg_terminate_backend(pid)
				FROM pg_stat_activity WHERE query LIKE '%sqs_receive(''producers''%' AND pid <> pg_backend_pid()"; } 2>/dev/null
		done
	done
	heading '64 clients sending, per second; beside nobody waiting'
	for waiters in 1 100; do
		figure "  with $waiters waiting" '>= 0.95' "bench.median('producers', '$waiters', 'per_second')" \
			"bench.median('producers', '0', 'per_second')" "bench.ratio('producers', '$waiters', '0', 'per_second')"
	done
}

# server_cpu: milliseconds that the processes of the server have run
server_cpu()
{
	local pid cpu sum=0

	for pid in $(server_processes); do
		read -r cpu _ <"/proc/$pid/schedstat" && sum=$((sum + cpu / 1000))
	done 2>/dev/null
	echo $((sum / 1000))
}

# 1,000 queues, of which 100 have a waiter
part_idle()
{
	local cpu wal pid seconds=${IDLE:-30}

	sql "SELECT sqs_create_queue('idle_' || i) FROM generate_series(0, 999) AS i" CHECKPOINT
	script idle <<'END'
SELECT receipt_handle FROM sqs_receive('idle_' || :client_id, wait_time_seconds => 20);
END
	"$BIN/pgbench" -n -c 100 -T 600 -f "$WORK/idle.pgbench" >/dev/null 2>&1 &
	pid=$!
	sleep 16				# the server notes running transactions 15 s after the last change
	cpu=$(server_cpu)
	wal=$(value "SELECT pg_current_wal_insert_lsn()")
	sleep "$seconds"
	cpu=$(($(server_cpu) - cpu))
	wal=$(value "SELECT pg_current_wal_insert_lsn() - '$wal'")
	{ kill "$pid"; wait "$pid"; } 2>/dev/null
	heading "100 waiters on 100 queues, 1,000 empty queues, $seconds s"
	figure '  CPU of the server, per cent of a core' '<= 1' "$cpu / 10.0 / $seconds" NULL NULL
	figure '  WAL, bytes' '<= 0' "$wal" NULL NULL
}
