# A row that is merely locked holds the cursor, for whoever locked it by hand
# will not tell when it is free again.  One that a receive has locked, and is about
# to update, holds nothing: the receive may have to wait for the processor just
# then, and all others would look at more and more dead entries.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;

my $node = preloaded_node();

sub query { return $node->safe_psql('postgres', @_); }

# A receive holds still between the lock and the update of 'slow', for a
# trigger waits there.  The first receive looks at everything, so it has been.
query(q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('q', '{"VisibilityTimeout": "600"}');
SELECT sqs_send('q', 'first');
SELECT sqs_consume('q');
SELECT sqs_send('q', 'slow');
SELECT sqs_send('q', i::text) FROM generate_series(1, 9) AS i;
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
});
my $table = query(q{SELECT 'sqs.queue_' || id FROM sqs.queue});
query(qq{CREATE TRIGGER gate BEFORE UPDATE ON $table FOR EACH ROW
	WHEN (OLD.body = 'slow') EXECUTE FUNCTION wait_at_gate()});

# Receives a message.
sub receive { return query(q{SELECT body FROM sqs_receive('q')}); }

# Whether the cursor is past the message of a body.
sub is_past
{
	my ($body) = @_;

	return query(qq{SELECT (m.visible_at, m.id) < (c.visible_at, c.id)
		FROM $table AS m, sqs.cursor('q') AS c WHERE m.body = '$body'});
}

# Waits until so many receives wait at the gate.
sub wait_at_gate
{
	my ($n) = @_;

	return $node->poll_query_until('postgres',
		"SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	  || die "there are not $n receives at the gate";
}

my $gate = $node->background_psql('postgres');
my $slow = $node->background_psql('postgres', on_error_stop => 0);

# Starts a receive that takes 'slow', and so holds still.
sub start_slow
{
	$slow->query_until(qr/asked/, qq{\\echo asked\nSELECT body FROM sqs_receive('q');\n});
	return wait_at_gate(1);
}

$gate->query_safe('SELECT pg_advisory_lock(1)');
start_slow();
is(receive(), '1', 'a receive passes the row over');
is(is_past('slow'), 't', 'and so does the cursor');

# the receive fails, and tells
query(q{SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
wait_at_gate(0);
$slow->query('SELECT 1');
$slow->quit;
is(is_past('slow'), 'f', 'the cursor is back when the receive was canceled');
$gate->query_safe('SELECT pg_advisory_unlock(1)');
is(receive(), 'slow', 'which gives the message to the next');

# locked by hand
$gate->query_safe(qq{BEGIN; SELECT FROM $table WHERE body = '2' FOR UPDATE});
is(receive(), '3', 'a receive passes over what is locked by hand');
is(is_past('2'), 'f', 'but the cursor does not');
is(is_past('3'), 'f', 'nor what comes after it');
$gate->query_safe('COMMIT');
is(receive(), '2', 'so it is the next, once it is free');

# locked by hand, by a transaction whose receive holds still elsewhere
query(qq{UPDATE $table SET body = 'slow' WHERE body = '4'});
$gate->query_safe('SELECT pg_advisory_lock(1)');
$slow = $node->background_psql('postgres');
$slow->query_safe(qq{BEGIN; SELECT FROM $table WHERE body = '5' FOR UPDATE});
start_slow();
is(receive(), '6', 'a receive passes over both');
is(is_past('5'), 'f', 'and the cursor is before the one that is locked by hand');
$gate->query_safe('SELECT pg_advisory_unlock(1)');
$slow->query_safe('COMMIT');
is(receive(), '5', 'which is the next');
is(query(q{SELECT sqs.verify_cursor('q')}), 0, 'the cursor is past nothing');

$gate->quit;
$slow->quit;
$node->stop;
done_testing();
