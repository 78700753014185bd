# part-standard.sh: what a standard queue costs.

# empty_both QUEUE: an empty queue and an empty table, vacuumed
empty_both()
{
	sql "SELECT sqs_purge_queue('$1')" "TRUNCATE bench.hand"
	vacuum "$1"
}

make_queue()
{
	sql "SELECT sqs_create_queue('$1')"
}

# fill QUEUE N DELAY: sends N messages, 10,000 a call
fill()
{
	sql "SELECT count(*) FROM generate_series(0, $2 - 1, 10000) AS sent, bench.bodies,
		sqs_send_many('$1', bodies[1:least(10000, $2 - sent)], $3) WHERE n = 10000"
}

# autovacuum SETTING NAPTIME: on or off, and how often it looks
autovacuum()
{
	sql "ALTER SYSTEM SET autovacuum = $1" "ALTER SYSTEM SET autovacuum_naptime = '${2:-1min}'" \
		"SELECT pg_reload_conf()"
}

# send, receive and delete, one client.  Each cycle leaves dead entries at the
# front of the index, over which a claim by hand walks until vacuum has removed
# them.  The figures that have a target are of runs of CYCLES on vacuumed
# tables: a few seconds, of the minute that a server with PostgreSQL's settings
# lets pass between two vacuums.  Beside them, what is best for the hand-written
# SQL: runs too short to wear anything, and autovacuum that looks every second.
part_cycle()
{
	local pair variant body="a body of fifty bytes, as in an order of one item."

	make_queue bench
	measured_script cycle-noop <<'END'
SELECT 1;
SELECT 1;
SELECT 1;
END
	measured_script cycle-hand <<'END'
INSERT INTO bench.hand (body) VALUES (:body) RETURNING id, message_id;
UPDATE bench.hand SET visible_at = now() + interval '30 s', receive_count = receive_count + 1 WHERE id = (SELECT id FROM bench.hand WHERE visible_at <= now() ORDER BY visible_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body, receive_count \gset
DELETE FROM bench.hand WHERE id = :id;
END
	measured_script cycle-sqs <<'END'
SELECT (sqs_send('bench', :body)).message_id;
SELECT receipt_handle, body, receive_count FROM sqs_receive('bench') \gset
SELECT sqs_delete('bench', :receipt_handle);
END
	for variant in noop hand sqs; do
		cp "$WORK/cycle-$variant.pgbench" "$WORK/fresh-$variant.pgbench"
		cp "$WORK/cycle-$variant.pgbench" "$WORK/vacuumed-$variant.pgbench"
	done
	one_core
	autovacuum on
	for pair in $(seq "$PAIRS"); do
		for variant in $(by_turns "$pair" hand noop sqs); do
			empty_both bench
			measure cycle "$variant" "$pair" "$CYCLES" -D body="$body"
			empty_both bench
			measure fresh "$variant" "$pair" $((CYCLES / 10)) -D body="$body"
		done
	done
	empty_both bench
	autovacuum on 1s
	for pair in $(seq "$PAIRS"); do
		for variant in $(by_turns "$pair" hand noop sqs); do
			measure vacuumed "$variant" "$pair" "$CYCLES" -D body="$body"
		done
	done
	autovacuum off
	heading "send + receive + delete, one client, $CYCLES times; beside hand-written SQL"
	cycle_figures cycle '>= 1.3' '<= 0.65' '<= 1'
	heading "the same, $((CYCLES / 10)) times on tables just vacuumed"
	cycle_figures fresh '' '' ''
	heading 'the same, with an autovacuum that looks every second'
	cycle_figures vacuumed '' '' ''
}

# cycle_figures PART THROUGHPUT CPU WAL: the figures, and their targets
cycle_figures()
{
	figure '  cycles per second' "$2" "bench.median('$1', 'sqs', 'per_second')" \
		"bench.median('$1', 'hand', 'per_second')" "bench.ratio('$1', 'sqs', 'hand', 'per_second')"
	figure '  backend CPU above three SELECT 1, µs' "$3" \
		"bench.median('$1', 'sqs', 'cpu_us') - bench.median('$1', 'noop', 'cpu_us')" \
		"bench.median('$1', 'hand', 'cpu_us') - bench.median('$1', 'noop', 'cpu_us')" \
		"bench.ratio('$1', 'sqs', 'hand', 'cpu_us', 'noop')"
	figure '  backend CPU of three SELECT 1, µs' '' "NULL" "bench.median('$1', 'noop', 'cpu_us')" "NULL"
	figure '  WAL, bytes' "$4" "bench.median('$1', 'sqs', 'wal_bytes')" \
		"bench.median('$1', 'hand', 'wal_bytes')" "bench.ratio('$1', 'sqs', 'hand', 'wal_bytes')"
}

# receive(10) + delete_many(10), beside receive(1) + delete(1)
part_batch()
{
	local pair variant n=$((CYCLES / 2))

	make_queue batch
	measured_script batch-one <<'END'
SELECT receipt_handle, body, receive_count FROM sqs_receive('batch') \gset
SELECT sqs_delete('batch', :receipt_handle);
END
	measured_script batch-ten <<'END'
SELECT array_agg(receipt_handle) AS handles FROM sqs_receive('batch', 10) \gset
SELECT sqs_delete_many('batch', :handles);
END
	measured_script batch-noop <<'END'
SELECT 1;
SELECT 1;
END
	one_core
	for pair in $(seq "$PAIRS"); do
		for variant in $(by_turns "$pair" noop one ten); do
			sql "SELECT sqs_purge_queue('batch')"
			fill batch $((10 * n)) 0
			vacuum batch
			measure batch "$variant" "$pair" "$n"
		done
	done
	sql "UPDATE bench.measured SET cpu_us = cpu_us / 10 WHERE (part, variant) = ('batch', 'ten')"
	heading 'receive(10) + delete_many(10) per message; beside receive(1) + delete(1)'
	figure '  backend CPU, µs' '<= 0.35' "bench.median('batch', 'ten', 'cpu_us')" \
		"bench.median('batch', 'one', 'cpu_us')" "bench.ratio('batch', 'ten', 'one', 'cpu_us')"
	figure '  backend CPU above SELECT 1 for each call, µs' '' \
		"bench.median('batch', 'ten', 'cpu_us') - bench.median('batch', 'noop', 'cpu_us') / 10" \
		"bench.median('batch', 'one', 'cpu_us') - bench.median('batch', 'noop', 'cpu_us')" "NULL"
}

# sqs_send_many, beside COPY into a table of the same columns and indexes
part_many()
{
	local pair variant n=$((CYCLES / 100))

	make_queue many
	sql "CREATE TABLE bench.copy (LIKE $(queue_table many) INCLUDING ALL)" "CREATE SEQUENCE bench.copy_seq CACHE 1000" \
		"ALTER TABLE bench.copy ALTER id SET DEFAULT nextval('bench.copy_seq'),
			ALTER visible_at SET DEFAULT now(), ALTER sent_at SET DEFAULT now(),
			ALTER message_id SET DEFAULT gen_random_uuid(), ALTER receive_count SET DEFAULT 0" \
		"COPY (SELECT unnest(bodies) FROM bench.bodies WHERE n = 1000) TO '$WORK/data/bodies'"
	measured_script many-copy <<'END'
COPY bench.copy (body) FROM 'bodies';
END
	measured_script many-sqs <<'END'
SELECT count(*) FROM sqs_send_many('many', (SELECT bodies FROM bench.bodies WHERE n = 1000));
END
	one_core
	for pair in $(seq "$PAIRS"); do
		for variant in $(by_turns "$pair" copy sqs); do
			sql "SELECT sqs_purge_queue('many')" "TRUNCATE bench.copy"
			measure many "$variant" "$pair" "$n"
		done
	done
	heading 'sqs_send_many of 1,000 bodies; beside COPY into the same table and indexes'
	figure '  rows per second' '>= 0.5' "1000 * bench.median('many', 'sqs', 'per_second')" \
		"1000 * bench.median('many', 'copy', 'per_second')" "bench.ratio('many', 'sqs', 'copy', 'per_second')"
}

# receive(1) from long queues, beside one of 1,000 messages; the receive alone
# is counted, by pg_stat_statements.  A consumer receives and deletes, and now
# and then the queue is filled up again, by thousands like the long one: how
# full the pages of an index are, of which a receive reads one, depends on that.
# Behind messages that are not due there are but 10, so there each cycle sends
# another one; beside it, the same cycle.
part_backlog()
{
	local pair variant queue n=250

	for queue in short long hidden; do
		make_queue $queue
		script backlog-$queue-consumer <<END
SELECT receipt_handle FROM sqs_receive('$queue') \gset
SELECT sqs_delete('$queue', :receipt_handle);
END
		script backlog-$queue-cycle <<END
SELECT receipt_handle FROM sqs_receive('$queue', visibility_timeout => 43200) \gset
SELECT sqs_delete('$queue', :receipt_handle);
SELECT (sqs_send('$queue', 'a body of fifty bytes, as in an order of one item.')).message_id;
END
	done
	fill short 1000 0
	fill long "$BACKLOG" 0
	fill hidden $((BACKLOG / 10)) 0
	sql "SET pg_sqs.max_batch_size = 10000; SELECT count(*)
		FROM generate_series(1, $BACKLOG / 100000) AS i, sqs_receive('hidden', 10000, 43200 + 0 * i)"
	fill hidden "$BACKLOG" 900
	fill hidden 10 0
	sql "VACUUM ANALYZE" CHECKPOINT
	one_core
	for pair in $(seq $((2 * PAIRS))); do
		for variant in $(by_turns "$pair" short-consumer long-consumer short-cycle hidden-cycle); do
			pgbench_run "backlog-$variant" -c 1 -t 50
			sql "SELECT pg_stat_statements_reset()"
			PGOPTIONS="-c pg_stat_statements.track=top" pgbench_run "backlog-$variant" -c 1 -t "$n"
			sql "INSERT INTO bench.measured (part, variant, pair, ms, buffers)
				SELECT 'backlog', '$variant', $pair, mean_exec_time, (shared_blks_hit + shared_blks_read)::numeric / calls
				FROM pg_stat_statements WHERE query LIKE '%FROM sqs_receive(%' AND calls >= $n"
			[ "${variant#*-}" = cycle ] || fill "${variant%-*}" $((n + 50)) 0
		done
	done
	heading "receive(1) of $BACKLOG visible; beside one of 1,000"
	backlog_figures long-consumer short-consumer
	heading "receive(1) of 10 behind $BACKLOG delayed and $((BACKLOG / 10)) in flight; beside one of 1,000"
	backlog_figures hidden-cycle short-cycle
}

# backlog_figures VARIANT OTHER
backlog_figures()
{
	figure '  time, µs' '<= 1.2' "1000 * bench.median('backlog', '$1', 'ms')" \
		"1000 * bench.median('backlog', '$2', 'ms')" "bench.ratio('backlog', '$1', '$2', 'ms')"
	figure '  buffers' '<= 1.2' "bench.median('backlog', '$1', 'buffers')" \
		"bench.median('backlog', '$2', 'buffers')" "bench.ratio('backlog', '$1', '$2', 'buffers')"
}
