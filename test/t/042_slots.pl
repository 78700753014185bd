# Shared memory has a place for so many queues.  One without is slower, never
# different, and gets a place when another goes or has long been idle.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded_node(q{
pg_sqs.max_queues = 2
max_prepared_transactions = 5
});

sub query { return $node->safe_psql('postgres', @_); }

# Whether a queue has a place.
sub has_place
{
	return query("SELECT id IS NOT NULL FROM sqs.cursor('$_[0]')");
}

query('CREATE EXTENSION pg_sqs');
foreach my $queue (qw(a b c))
{
	query("SELECT sqs_create_queue('$queue'); SELECT sqs_send('$queue', '1')");
	is(query("SELECT body FROM sqs_receive('$queue', visibility_timeout => 1)"), '1', "queue $queue works");
}
is(join('', map { has_place($_) } qw(a b c)), 'ttf', 'the first two have a place');

# without a place
is(query(q{SELECT body FROM sqs_receive('c', wait_time_seconds => 5)}), '1', 'a poll meets the end of a visibility timeout');
query(q{BEGIN; SELECT sqs_send('c', '2'); ROLLBACK; BEGIN; SELECT sqs_send('c', '3'); SAVEPOINT a; SELECT sqs_send('c', '4'); ROLLBACK TO a; COMMIT});
is(query(q{SELECT body FROM sqs_receive('c', 10)}), '3', 'what was committed comes');
query(q{BEGIN; SELECT sqs_send('c', '5'); PREPARE TRANSACTION 'p'});

# a place becomes free; the transaction prepared before holds the new one
query(q{SELECT sqs_delete_queue('a')});
sleep(1.1);
is(query(q{SELECT count(*) FROM sqs_receive('c')}), 0, 'nothing to receive');
is(query(q{SELECT visible_at, prepared FROM sqs.cursor('c')}), '-infinity|t', 'it looks everywhere, for what the prepared transaction did');
query(q{COMMIT PREPARED 'p'});
is(query(q{SELECT body FROM sqs_receive('c')}), '5', 'which is found');
query(q{SELECT count(*) FROM sqs_receive('c')});
is(query(q{SELECT visible_at > '-infinity', prepared FROM sqs.cursor('c')}), 't|f', 'and then it starts where it got to');

# a prepared transaction of another queue, or of a restart ago
query(q{BEGIN; SELECT sqs_send('b', 'prepared'); SELECT body FROM sqs_receive('b'); PREPARE TRANSACTION 'p'});
$node->restart;
is(query(q{SELECT count(*) FROM sqs_receive('c'); SELECT visible_at > '-infinity', prepared FROM sqs.cursor('c')}), "0\nt|f", 'another queue is not held');
is(query(q{SELECT count(*) FROM sqs_receive('b'); SELECT visible_at, prepared FROM sqs.cursor('b')}), "0\n-infinity|t", 'its own queue is');
query(q{ROLLBACK PREPARED 'p'});
is(query(q{SELECT body FROM sqs_receive('b')}), '1', 'what it received comes again');

# dropped by hand, made anew
query(q{DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE sqs.queue_' || id FROM sqs.queue WHERE name = 'b'); END $$});
query(q{SELECT sqs_create_queue('b'); SELECT sqs_send('b', 'new')});
is(query(q{SELECT body FROM sqs_receive('b')}), 'new', 'a queue made anew');
query(q{DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('q'); SELECT sqs_send('q', 'm')});
is(query(q{SELECT body FROM sqs_receive('q')}), 'm', 'an extension made anew');

$node->stop('fast');
done_testing();
