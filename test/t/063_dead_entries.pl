# A restart forgets where receives start to look, while a prepared transaction
# keeps vacuum from removing a long past.  The first receive walks over all of
# it, and finds what is there; the next ones know where to start.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time);

my $dead = $ENV{PG_SQS_DEAD_ENTRIES} || 200_000;
my $few = 1000;    # buffers that a receive may look at when all is well

my $node = preloaded_node(q{
autovacuum = off
max_prepared_transactions = 10
max_wal_size = 4GB
});

sub query { return $node->safe_psql('postgres', @_); }

query(q{
CREATE EXTENSION pg_sqs;
CREATE TABLE got (n serial, body text);
CREATE TABLE held (n int);
SELECT sqs_create_queue('q');
BEGIN; INSERT INTO held VALUES (1); PREPARE TRANSACTION 'horizon';
});

# Sends and consumes many messages.
sub make_dead
{
	query(qq{
SET synchronous_commit = off;
SET pg_sqs.max_batch_size = 10000;
DO \$\$
DECLARE bodies text[] := ARRAY(SELECT 'dead' FROM generate_series(1, 10000));
BEGIN
	FOR i IN 1 .. $dead / 10000 LOOP
		PERFORM sqs_send_many('q', bodies);
		COMMIT;
		PERFORM sqs_consume('q', 10000);
		COMMIT;
	END LOOP;
END \$\$});
	return;
}

# Receives one message; returns its body and the buffers that took.
sub receive
{
	my ($name) = @_;
	my $began = time;
	my $plan = query(
		q{EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) INSERT INTO got (body) SELECT body FROM sqs_receive('q')}
	);
	my $took = time - $began;
	my $buffers = 0;

	# those of the top node, the first in the plan, include the others'
	$buffers += $1 if $plan =~ /"Shared Hit Blocks": (\d+)/;
	$buffers += $1 if $plan =~ /"Shared Read Blocks": (\d+)/;
	note(sprintf('%s: %d buffers, %.0f ms with the connection', $name, $buffers, 1000 * $took));
	return (query('SELECT body FROM got ORDER BY n DESC LIMIT 1'), $buffers);
}

# Receives some messages.  One of these receives may look at everything, which
# is done now and then; the least one tells what the others cost.
sub is_cheap
{
	my ($name, @expected) = @_;
	my $least;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $expected (@expected)
	{
		my ($body, $buffers) = receive($name);

		is($body, $expected, "$name: $expected");
		$least = $buffers if !defined $least || $buffers < $least;
	}
	cmp_ok($least, '<', $few, "$name: at little cost");
	return;
}

make_dead();
query(qq{SELECT sqs_send('q', 'm' || n) FROM generate_series(1, 40) n});
is(query('SELECT n_dead_tup >= ' . $dead . q{ FROM pg_stat_user_tables WHERE relname = 'queue_1'}),
	't', 'dead rows');
is_cheap('before the restart', qw(m1 m2 m3));

# a transaction that has nothing to do with the queue
$node->restart;
query('VACUUM sqs.queue_1');
my ($body, $buffers) = receive('first after the restart');
is($body, 'm4', 'the next one after the restart');
cmp_ok($buffers, '>', $few, 'which met what is dead');
is_cheap('after it', qw(m5 m6 m7));

# several at once, each the first of its session
$node->restart;
my @sessions = map { $node->background_psql('postgres') } (1 .. 4);
my @bodies = map { $_->query_safe(q{BEGIN; SELECT body FROM sqs_receive('q')}) } @sessions;
is("@bodies", 'm8 m9 m10 m11', 'messages of open transactions');
$_->query_safe('ROLLBACK') for @sessions;
@bodies = map { $_->query_safe(q{SELECT body FROM sqs_receive('q')}) } @sessions;
is("@bodies", 'm8 m9 m10 m11', 'the same when those are rolled back');
$_->quit for @sessions;

# transactions that have to do with it: what they hold may come first
query(q{
BEGIN; SELECT sqs_send('q', 'prepared'); PREPARE TRANSACTION 'send';
BEGIN; SELECT FROM sqs_consume('q'); PREPARE TRANSACTION 'consume';
});
$node->restart;
($body, $buffers) = receive('after the restart, with prepared ones');
is($body, 'm13', 'the next one, but for what is prepared');
query(q{ROLLBACK PREPARED 'consume'});
($body) = receive('after ROLLBACK PREPARED');
is($body, 'm12', 'what a prepared transaction had, when it is rolled back');
query(q{COMMIT PREPARED 'send'});
is( query(q{SET pg_sqs.max_batch_size = 100; SELECT string_agg(body, ' ' ORDER BY body = 'prepared') FROM sqs_receive('q', 100)}),
	join(' ', (map { "m$_" } (14 .. 40)), 'prepared'),
	'all that is left, and what a prepared transaction had sent');
query(q{SELECT sqs_send('q', 'last' || n) FROM generate_series(1, 4) n});
($body) = receive('after all of it');
is($body, 'last1', 'what is sent last');
is_cheap('when no prepared transaction has to do with it', qw(last2 last3 last4));

# the horizon goes, and with it what is dead
query(q{COMMIT PREPARED 'horizon'; VACUUM sqs.queue_1});
$node->restart;
query(q{SELECT sqs_send('q', 'clean' || n) FROM generate_series(1, 3) n});
is_cheap('when the past is gone', qw(clean1 clean2 clean3));

$node->stop;
done_testing();
