# Many clients do everything at once to a queue: send, delay, receive, hold,
# consume, delete, change visibility, in savepoints, at every isolation level,
# with rollbacks, prepared transactions, foreign locks and killed backends.
# What was committed is written down in the same transactions, and at the end
# it must all add up: nothing lost, nothing twice, nothing late.
#
# One queue is kept nearly empty.  There a cursor that went astray would be
# healed within moments, by the next receive that finds nothing; so a second
# one has a backlog all the time.
#
# PG_SQS_STRESS_SECONDS sets how long.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{PG_SQS_STRESS_SECONDS} || 60;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
max_connections = 100
max_prepared_transactions = 50
track_commit_timestamp = on
synchronous_commit = off
autovacuum_naptime = 1s
});
$node->start;

sub query { return $node->safe_psql('postgres', @_); }

# sent: when each message is due.  lease: when a receive or a change of
# visibility hid it, and until when.  gone: deleted or consumed.
query(q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('q');
SELECT sqs_create_queue('backlog');
CREATE TABLE sent (queue text, message_id uuid, due timestamptz);
CREATE TABLE lease (message_id uuid, at timestamptz, until timestamptz, receive boolean);
CREATE TABLE gone (message_id uuid);

CREATE FUNCTION send(queue text, delay int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sent
		SELECT queue, message_id, clock_timestamp() + make_interval(secs => delay)
		FROM sqs_send(queue, repeat('x', 50), delay)
$$;
CREATE FUNCTION receive(queue text, n int, timeout int, wait int) RETURNS SETOF text LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT * FROM sqs_receive(queue, n, timeout, wait)),
		l AS (INSERT INTO lease
			SELECT message_id, visible_at - make_interval(secs => timeout), visible_at, true FROM m)
	SELECT receipt_handle FROM m
$$;
CREATE FUNCTION receive_and_delete(queue text, n int, wait int) RETURNS void LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT * FROM sqs_receive(queue, n, 2, wait)),
		l AS (INSERT INTO lease
			SELECT message_id, visible_at - interval '2 s', visible_at, true FROM m)
	INSERT INTO gone SELECT message_id FROM m WHERE sqs_delete(queue, receipt_handle)
$$;
CREATE FUNCTION consume(queue text, n int) RETURNS void LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT message_id, clock_timestamp() AS at FROM sqs_consume(queue, n)),
		l AS (INSERT INTO lease SELECT message_id, at, at, true FROM m)
	INSERT INTO gone SELECT message_id FROM m
$$;
CREATE FUNCTION receive_and_change(queue text, n int, timeout int) RETURNS void LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT * FROM sqs_receive(queue, n, 2)),
		l AS (INSERT INTO lease
			SELECT message_id, visible_at - interval '2 s', visible_at, true FROM m),
		c AS MATERIALIZED (SELECT message_id, sqs_change_visibility(queue, receipt_handle, timeout) AS until FROM m)
	INSERT INTO lease SELECT message_id, until - make_interval(secs => timeout), until, false FROM c
$$;
INSERT INTO sent SELECT 'backlog', id, clock_timestamp()
	FROM sqs_send_many('backlog', ARRAY(SELECT 'x' FROM generate_series(1, 20000))) AS id;
});

# What clients do, as pgbench scripts: [name, weight, script].
my $end = '\set end random(1, 3)
\if :end = 1
ROLLBACK;
\else
COMMIT;
\endif
';
my @senders = (
	[ 'send', 8, 'SELECT send(:queue, 0);' ],
	[ 'delay', 3, "\\set delay random(1, 2)\nSELECT send(:queue, :delay);" ],
	[ 'send_late', 3, 'BEGIN; SELECT send(:queue, 0); SELECT pg_sleep(random() * 0.01); COMMIT;' ]);
my @consumers = (
	[ 'delete', 8, 'SELECT receive_and_delete(:queue, 1, 1);' ],
	[ 'delete_many', 4, 'SELECT receive_and_delete(:queue, 10, 1);' ],
	[ 'consume', 3, "BEGIN; SELECT consume(:queue, 2); SELECT pg_sleep(random() * 0.005);\n$end" ]);
my @others = (
	[ 'hold', 2, "BEGIN; SELECT receive(:queue, 3, 1, 0); SELECT pg_sleep(random() * 0.01);\n$end" ],
	[ 'change', 2, "\\set timeout random(0, 2)\nSELECT receive_and_change(:queue, 2, :timeout);" ],
	[ 'levels', 3, "BEGIN; SELECT send(:queue, 0); SAVEPOINT a; SELECT receive(:queue, 2, 0, 0); SELECT send(:queue, 1);
\\set r random(1, 3)
\\if :r = 1
ROLLBACK TO a;
\\elif :r = 2
RELEASE a;
\\endif
SELECT receive(:queue, 1, 1, 0); SELECT consume(:queue, 1);\n$end" ],
	[ 'repeatable', 1, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT send(:queue, 0); SELECT receive(:queue, 2, 1, 0); SELECT consume(:queue, 1);\n$end" ],
	[ 'serializable', 1, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT send(:queue, 0); SELECT receive(:queue, 2, 1, 0);\n$end" ],
	[ 'prepare', 2, "BEGIN; SELECT send(:queue, 0); SELECT receive(:queue, 2, 1, 0); SELECT consume(:queue, 1);
SELECT quote_literal(pg_backend_pid()) AS gid \\gset
PREPARE TRANSACTION :gid;
SELECT pg_sleep(random() * 0.02);
\\set r random(1, 2)
\\if :r = 1
COMMIT PREPARED :gid;
\\else
ROLLBACK PREPARED :gid;
\\endif" ],
	[ 'lock', 1, "BEGIN; SELECT id FROM :table ORDER BY visible_at LIMIT 3 FOR UPDATE SKIP LOCKED; SELECT pg_sleep(0.005); ROLLBACK;" ],
	[ 'wait', 1, "CALL sqs_wait(:queue, 1);" ]);
my @victims = (
	[ 'killed', 1, "BEGIN; SELECT send(:queue, 0); SELECT receive(:queue, 2, 1, 1); SELECT consume(:queue, 1); SELECT pg_sleep(0.2); COMMIT;" ]);

my %id = map { split /\|/ } split /\n/, query('SELECT name, id FROM sqs.queue');

# Starts pgbench.
sub start_clients
{
	my ($name, $queue, $clients, $rate, $time, @scripts) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my @command = (
		'pgbench', '-n', '-c', $clients, '-j', 1, '-T', $time,
		'-D', "queue='$queue'", '-D', "table=sqs.queue_$id{$queue}",
		$rate ? ('-R', $rate) : ());
	my $output = '';

	foreach my $script (@scripts)
	{
		my ($file, $weight, $text) = @$script;

		append_to_file("$dir/$file", "$text\n");
		push @command, '-f', "$dir/$file\@$weight";
	}
	local $ENV{PGAPPNAME} = $name;
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = 'postgres';
	return [ IPC::Run::start(\@command, '<', \undef, '>', \$output, '2>&1'),
		\$output, $name ];
}

# Waits for pgbench; tells whether it was content.
sub finish_clients
{
	my ($run, $output, $name) = @{ $_[0] };
	my $ok = $run->finish;

	note("$name: $$output") if !$ok;
	note($1) if $$output =~ /^(tps = \S+)/m;
	return $ok;
}

my $began = time;
my @clients = (
	start_clients('senders', 'q', 4, 150, $seconds, @senders),
	start_clients('consumers', 'q', 8, 0, $seconds, @consumers),
	start_clients('others', 'q', 6, 100, $seconds, @others),
	start_clients('others of the backlog', 'backlog', 6, 400, $seconds, @others));
my $violations = 0;
my $verified = 0;
my $killed = 0;

while (time - $began < $seconds - 3)
{
	my $victims = start_clients('victims', (qw(q backlog))[ $killed / 3 % 2 ], 3, 0, 2, @victims);

	for (my $then = time; time < $then + 1;)
	{
		$violations += query(q{SELECT sum(sqs.verify_cursor(name)) FROM sqs.queue});
		$verified++;
	}
	$killed += query(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'victims' AND backend_type = 'client backend'});
	$victims->[0]->finish;
}
ok(finish_clients($_), "$_->[2] met no error") foreach @clients;
note("$verified looks at the cursor, $killed backends killed");
is($violations, 0, 'the cursor was never past a message');
cmp_ok($killed, '>', 0, 'backends were killed');

# Now it is quiet.  Leases end within two seconds.
$node->poll_query_until('postgres',
	q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'victims'});
is(query('SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing is left prepared');
usleep(2_500_000);
is(query(q{SELECT sum(sqs.verify_cursor(name)) FROM sqs.queue}), 0, 'the cursor is not past one now');
foreach my $queue (qw(q backlog))
{
	my $table = "sqs.queue_$id{$queue}";

	ok( $node->poll_query_until('postgres',
			qq{SELECT approximate_number_of_messages_visible = (SELECT count(*) FROM $table)
			FROM sqs_metrics WHERE queue_name = '$queue'}),
		"gauges of $queue become exact");
	query(qq{SET pg_sqs.max_batch_size = 10000; SELECT consume('$queue', 10000)})
	  until query(qq{SELECT count(*) FROM sqs_peek('$queue')}) == 0;
	is(query("SELECT count(*) FROM $table"), 0, "everything in $queue can be received");
}

note(query('SELECT count(*) FROM sent') . ' messages sent, '
	  . query('SELECT count(*) FROM lease WHERE receive') . ' received');
is( query('SELECT count(*) FROM (TABLE gone EXCEPT ALL SELECT message_id FROM sent) AS g'),
	0, 'nothing came twice or from nowhere');
is( query('SELECT count(*) FROM (SELECT message_id FROM sent EXCEPT ALL TABLE gone) AS s'),
	0, 'nothing was lost');
is( query(q{SELECT count(*) FROM (
		SELECT at, receive, lag(until) OVER (PARTITION BY message_id ORDER BY at) AS hidden
		FROM lease) AS l
	WHERE receive AND at < hidden}),
	0, 'nothing was received while it was hidden');
is( query(qq{SELECT count(*) FROM (
		SELECT greatest(due, pg_xact_commit_timestamp(s.xmin)) AS due,
			(SELECT min(at) FROM lease AS l WHERE l.message_id = s.message_id) AS at
		FROM sent AS s WHERE queue = 'q') AS d
	WHERE at > due + interval '2 seconds'
		AND due < (SELECT max(at) FROM lease) - interval '10 seconds'}),
	0, 'nothing came later than two seconds after it was due');

$node->stop('fast');
done_testing();
