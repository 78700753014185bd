# A queue's table replicated to another server by logical replication, which
# writes to it and tells nobody: what arrives is found all the same, and the
# other server can take over.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time);

my $conf = q{
shared_preload_libraries = 'pg_sqs'
pg_sqs.worker = off
max_prepared_transactions = 10
};
my ($here, $there) = map { PostgreSQL::Test::Cluster->new($_) } qw(publisher subscriber);
$here->init(allows_streaming => 'logical');
$there->init;
for my $node ($here, $there)
{
	$node->append_conf('postgresql.conf', $conf);
	$node->start;
	$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('q');
CREATE TABLE handles (body text, receipt_handle text);
});
}

# Runs commands; what sqs_send returns is not returned.
sub here { return $here->safe_psql('postgres', @_) =~ s/^\([-0-9a-f]{36},.*\)\n?//gmr; }
sub there { return $there->safe_psql('postgres', @_) =~ s/^\([-0-9a-f]{36},.*\)\n?//gmr; }

sub catch_up
{
	$here->wait_for_catchup('sub');
	return;
}

# Has the cursor there go to now: it receives what is sent and gone.
sub move_cursor
{
	is(there(q{SELECT FROM sqs_receive('q', 10)}), '', 'nothing is there');
	is(there(q{SELECT visible_at > clock_timestamp() - interval '1 minute' FROM sqs.cursor('q')}),
		't', 'and the cursor is past it');
	return;
}

# Receives there until as many messages came; each within one long poll.
sub receive_there
{
	my ($n, $function) = @_;
	my @bodies;

	for (1 .. 100)
	{
		push @bodies, split /\n/, there(qq{SELECT body FROM $function});
		last if @bodies >= $n;
	}
	return join(' ', @bodies);
}

#
# What was there before, copied
#
here(q{SELECT sqs_send('q', 'm' || n) FROM generate_series(1, 5) n; SELECT FROM sqs_receive('q', 1, 43200)});
move_cursor();
here('CREATE PUBLICATION pub FOR TABLE sqs.queue_1');
there(sprintf q{CREATE SUBSCRIPTION sub CONNECTION '%s' PUBLICATION pub}, $here->connstr . ' dbname=postgres');
$there->wait_for_subscription_sync($here, 'sub');
is(receive_there(4, q{sqs_receive('q', 10, 43200)}), 'm2 m3 m4 m5', 'what was copied is received, but for what is in flight');

#
# What comes and goes
#
move_cursor();
here(q{SELECT sqs_send('q', 'sent'); SELECT sqs_send_many('q', '{many1,many2}')});
catch_up();
is(receive_there(3, q{sqs_receive('q', 10, 43200)}), 'sent many1 many2', 'what is sent here is received there');

move_cursor();
here(q{SELECT sqs_send('q', 'd1', 1)});
catch_up();
my $began = time;
is(receive_there(1, q{sqs_receive('q', 10, 43200, 2)}), 'd1', 'what is delayed comes in its time');

move_cursor();
here(q{BEGIN; SELECT sqs_send('q', 'p1'); PREPARE TRANSACTION 'p'; SELECT pg_switch_wal() IS NULL});
catch_up();
is(there(q{SELECT FROM sqs_receive('q')}), '', 'what is prepared here is not there');
here(q{COMMIT PREPARED 'p'});
catch_up();
is(receive_there(1, q{sqs_receive('q', 10, 43200)}), 'p1', 'and comes when it is committed');

here(q{SELECT FROM sqs_consume('q', 10); SELECT sqs_send('q', 'x' || n) FROM generate_series(1, 6) n;
	INSERT INTO handles SELECT body, receipt_handle FROM sqs_receive('q', 2, 43200)});
is(here(q{SELECT body FROM sqs_consume('q')}), 'x3', 'some are received here, one is gone');
catch_up();
is(receive_there(3, q{sqs_receive('q', 10, 43200)}), 'x4 x5 x6', 'those are not received there');
here(q{SELECT sqs_change_visibility('q', receipt_handle, 0) FROM handles WHERE body = 'x1'});
catch_up();
is(receive_there(1, q{sqs_receive('q', 10, 43200)}), 'x1', 'one is made visible again here, and there');

# a waiter there is not told, but looks before it gives up
move_cursor();
my $waiter = $there->background_psql('postgres');
$waiter->query_until(qr/waiting/, "\\echo waiting\nSELECT body FROM sqs_receive('q', 1, 43200, 3);\n");
$there->poll_query_until('postgres', q{SELECT waiters = 1 FROM sqs.cursor('q')}) or die 'no waiter';
here(q{SELECT sqs_send('q', 'w1')});
is($waiter->query(''), 'w1', 'one who waits there gets what is sent here');
$waiter->quit;

#
# Both at work
#
my $sender = client($here, join('', map { "SELECT sqs_send('q', 'b$_');\n" } (1 .. 500)));
my %got;
$began = time;
while (keys %got < 500 && time - $began < $PostgreSQL::Test::Utils::timeout_default)
{
	$got{$_}++ for split /\n/, there(
		q{SELECT body FROM generate_series(10, 29) n, LATERAL sqs_consume('q', n - n + 10)});
}
finish_clients($sender);
is_deeply(\%got, { map { ("b$_" => 1) } (1 .. 500) }, 'all that is sent is received, once');
is(there(q{SELECT sqs.verify_cursor('q') >= 0}), 't', 'the cursor can be verified');

#
# The other takes over
#
here(q{SELECT sqs_send('q', 'last')});
catch_up();
there(q{ALTER SUBSCRIPTION sub DISABLE; ALTER SUBSCRIPTION sub SET (slot_name = NONE); DROP SUBSCRIPTION sub;
	SELECT setval('sqs.queue_1_seq', (SELECT max(id) FROM sqs.queue_1))});
my $handle = here(q{SELECT receipt_handle FROM handles WHERE body = 'x2'});
is(there(qq{SELECT sqs_delete('q', '$handle')}), 't', 'a handle from here is good there');
there(q{SELECT sqs_send('q', 'new')});
is(receive_there(2, q{sqs_receive('q', 10, 43200)}), 'last new', 'what came last, and what is sent there');

$_->stop for ($here, $there);
done_testing();
