# A backend is killed, and with it all others: shared memory starts anew.
# What was in it (cursor, waiters, counters) is gone, no message is, and
# everything works as before.
#
# PG_SQS_CRASH_ROUNDS=100 makes this a long run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $rounds = $ENV{PG_SQS_CRASH_ROUNDS} || 3;

my $node = crash_node('main', q{
restart_after_crash = on
pg_sqs.worker = on
pg_sqs.maintenance_interval = 200ms
max_connections = 40
log_statement = none
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE TABLE gone (body text);
SELECT sqs_create_queue('q', '{"VisibilityTimeout": 1}');
SELECT sqs_create_queue('idle');
SELECT sqs_create_queue('unlogged', '{"Unlogged": true}');
SELECT sqs_send('idle', 'prepared in ' || n) FROM generate_series(1, 1) n;
SELECT FROM sqs_consume('idle');
});

sub query { return $node->safe_psql('postgres', @_); }

sub wait_until
{
	my ($query, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($node->poll_query_until('postgres', "SELECT coalesce(($query), false)"),
		$name);
	return;
}

# Kills a process of the server; returns when the server works again.
sub kill_backend
{
	my ($pid) = @_;
	my $offset = -s $node->logfile;

	kill('KILL', $pid);
	$node->wait_for_log(qr/all server processes terminated; reinitializing/,
		$offset);
	$node->poll_query_until('postgres', undef, '')
	  or die 'no restart after the crash';
	return;
}

my @scripts = (
	q{SELECT FROM sqs_receive('q', 5);},
	q{BEGIN; SELECT FROM sqs_receive('q', 5); SAVEPOINT a; SELECT FROM sqs_receive('q', 5); ROLLBACK;},
	q{WITH m AS (SELECT * FROM sqs_receive('q', 1)), d AS (SELECT body FROM m WHERE sqs_delete('q', receipt_handle)) INSERT INTO gone SELECT body FROM d;},
	q{WITH m AS (SELECT * FROM sqs_consume('q', 2)) INSERT INTO gone SELECT body FROM m;},
	q{SELECT sqs_change_visibility('q', receipt_handle, 0) FROM sqs_receive('q', 2);});

for my $round (1 .. $rounds)
{
	query("SELECT FROM sqs_send_many('q', ARRAY(SELECT 'r$round-' || n FROM generate_series(1, 2000) n))");
	query(qq{BEGIN; SELECT sqs_send('idle', 'prepared in $round'); PREPARE TRANSACTION 'send'});

	query(q{SELECT sqs_send('unlogged', 'before')});
	my $handle = query(q{SELECT receipt_handle FROM sqs_receive('unlogged')});
	my $before = query(q{SELECT stats_reset FROM sqs_metrics WHERE queue_name = 'q'});
	my @clients = map { endless_client($node, $_) } @scripts;
	my $waiter = client($node, q{SELECT FROM sqs_receive('idle', 1, NULL, 20);});
	wait_until(q{SELECT waiters = 1 FROM sqs.cursor('idle')},
		"round $round: one waits");
	usleep(int(rand(200_000)));
	my $victim = query(
		q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%sqs\_receive(''q''%' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1});
	kill_backend($victim);
	finish_clients(@clients, $waiter);

	is(query(q{SELECT waiters FROM sqs.cursor('idle')}) || 0,
		'0', 'nobody waits any more');
	is( query(q{
SELECT coalesce(number_of_messages_sent, 0), coalesce(number_of_messages_received, 0),
	approximate_number_of_messages_visible + approximate_number_of_messages_not_visible = count, stats_reset IS DISTINCT FROM '} . $before . q{'
FROM sqs_metrics, (SELECT count(*) FROM sqs.queue_1) c WHERE queue_name = 'q'}),
		'0|0|t|t', 'counters start anew, gauges do not');
	wait_until(
		q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'},
		'the worker is back');
	is(query(q{SELECT body FROM sqs_receive('idle')}),
		'', 'what is prepared is not to be received');

	# an unlogged queue starts anew as well, and its message ids again
	is(query(q{SELECT FROM sqs_receive('unlogged')}), '', 'an unlogged queue is empty');
	query(q{SELECT sqs_send('unlogged', 'after')});
	my ($rc, $out) = $node->psql('postgres', qq{SELECT sqs_delete('unlogged', '$handle')});
	isnt($out, 't', 'a handle from before is no good');
	is(query(q{SELECT body, receive_count FROM sqs_consume('unlogged', 10)}), 'after|1',
		'and it works');

	# a waiter is woken, by a commit and by COMMIT PREPARED
	for my $wake (
		q{SELECT sqs_send('idle', 'sent')},
		q{COMMIT PREPARED 'send'})
	{
		my $began = time;

		$waiter = client($node,
			q{SELECT body FROM sqs_consume('idle', 1, 20);});
		wait_until(q{SELECT waiters = 1 FROM sqs.cursor('idle')},
			'one waits again');
		query($wake);
		finish_clients($waiter);
		is( $waiter->{out} . $waiter->{err},
			$wake =~ /sent/ ? "sent\n" : "prepared in $round\n",
			'and is woken');
		cmp_ok(time - $began, '<', 15, 'long before it would have looked');
	}
}

# everything is there, and all of it is delivered
my @left;
for (1 .. 60)
{
	push @left, split /\n/, query(
		q{SET pg_sqs.max_batch_size = 10000; SELECT body FROM sqs_consume('q', 10000, 1)});
	last if query('SELECT count(*) FROM sqs.queue_1') == 0;
}
my @all;
for my $round (1 .. $rounds) { push @all, map { "r$round-$_" } (1 .. 2000); }
is_deeply([ sort(@left, split /\n/, query('SELECT body FROM gone')) ],
	[ sort @all ], 'every message was delivered, once');
note(scalar(@left) . ' of ' . scalar(@all) . ' were left at the end');

$node->stop;
done_testing();
