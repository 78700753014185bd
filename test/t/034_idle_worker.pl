# Where nothing happens, the worker does nothing that anyone pays for: no WAL,
# no transaction ids, and next to no transactions, however many queues there
# are; and yet what happens in one of them it hears at once.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# nobody else may write WAL: no snapshots for standbys, no checkpoint, no vacuum
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
wal_level = minimal
max_wal_senders = 0
checkpoint_timeout = 1d
max_wal_size = 10GB
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE shop');
$node->safe_psql('shop', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('dead');
SELECT sqs_create_queue('q' || i, '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}')
FROM generate_series(1, 200) i;
SELECT sqs_send('q' || i, 'x') FROM generate_series(1, 200) i;
CHECKPOINT;
});

my $counts = q{
SELECT pg_current_wal_insert_lsn() || ' ' || pg_snapshot_xmax(pg_current_snapshot()) || ' ' || pg_stat_get_db_xact_commit(oid)
FROM pg_database WHERE datname = 'shop'};

# Waits until the worker went to sleep again so many seconds after now.
sub let_it_work
{
	my $until =
	  $node->safe_psql('postgres', "SELECT now() + interval '$_[0] s'");

	return $node->poll_query_until('postgres',
		"SELECT state_change > '$until' FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'"
	);
}

# it has looked at everything when it does little more than look for a reason
# to leave
my ($before, $after, $transactions);
for (1 .. 20)
{
	$before = $node->safe_psql('postgres', $counts);
	let_it_work(3) or last;
	$after = $node->safe_psql('postgres', $counts);
	$transactions = (split / /, $after)[2] - (split / /, $before)[2];
	last if $transactions <= 20;
}
cmp_ok($transactions, '<=', 20,
	'200 queues with messages cost next to no transactions');
ok( $node->poll_query_until(
		'postgres',
		"SELECT pg_stat_get_db_xact_commit(oid) > ${\ (split / /, $before)[2]} FROM pg_database WHERE datname = 'shop'"),
	'though the worker is at work');
is( join(' ', (split / /, $after)[ 0, 1 ]),
	join(' ', (split / /, $before)[ 0, 1 ]),
	'and no WAL and no transaction id');
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_sqs%' AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)"
	),
	'0',
	'and hold back no horizon');

$node->safe_psql('shop', "SELECT sqs_receive('q77', visibility_timeout => 0)");
ok( $node->poll_query_until(
		'shop', "SELECT dead_letter_queue_source FROM sqs_peek('dead')",
		'q77'),
	'what happens in one of them is heard');
$node->stop;
done_testing();
