# The server is killed again and again under many clients; what was
# acknowledged to them is compared with what is there afterwards.
#
# Every message sent is in exactly one place: its queue, the dead-letter queue
# or table gone, where whoever deletes a message writes its body in the same
# transaction.  Whoever receives and writes, in any of the ways there are,
# writes to table done.
#
# PG_SQS_CRASH_ROUNDS=200 makes this a long run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{PG_SQS_CRASH_ROUNDS} || 4;
my $steps = 4000;    # of each client, more than it gets done

my $node = crash_node('main', q{
max_connections = 40
log_statement = none
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE TABLE done (client text, body text);
CREATE TABLE gone (client text, body text);
CREATE TABLE hooked (client text, body text);
SELECT sqs_create_queue('dead');
SELECT sqs_create_queue('q', '{"VisibilityTimeout": 1, "RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 20}}');

CREATE FUNCTION receive_and_write(client text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE m record;
BEGIN
	FOR m IN SELECT * FROM sqs_receive('q', 2) LOOP
		INSERT INTO done VALUES (client, m.body);
		RETURN NEXT m.body;
	END LOOP;
END $$;

CREATE FUNCTION receive_before_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	SELECT body INTO NEW.body FROM sqs_receive('q');
	RETURN CASE WHEN NEW.body IS NULL THEN NULL ELSE NEW END;
END $$;
CREATE TRIGGER t BEFORE INSERT ON hooked FOR EACH ROW EXECUTE FUNCTION receive_before_insert();

CREATE PROCEDURE receive_then_delete(client text, INOUT deleted text) LANGUAGE plpgsql AS $$
DECLARE m record;
BEGIN
	SELECT * INTO m FROM sqs_receive('q');
	COMMIT;
	deleted := NULL;
	IF m.body IS NOT NULL AND sqs_delete('q', m.receipt_handle) THEN
		INSERT INTO gone VALUES (client, m.body);
		deleted := m.body;
	END IF;
	COMMIT;
END $$;
});
my ($queue, $dead) = split /\|/, $node->safe_psql('postgres',
	"SELECT format('sqs.queue_%s', q.id), format('sqs.queue_%s', d.id) FROM sqs.queue q, sqs.queue d WHERE q.name = 'q' AND d.name = 'dead'"
);

# One step of each kind of client: what it does, and how it says so.  A line
# counts when the line "committed" follows.
my %steps = (
	sender => q{SELECT 'sent :step' FROM sqs_send('q', ':step');
\echo committed},
	bulk_sender => q{BEGIN;
SELECT 'sent :step-' || n FROM generate_series(1, 3) n, LATERAL sqs_send('q', ':step-' || n);
SELECT 'received' FROM sqs_receive('q');
COMMIT;
\echo committed},
	receiver => q{SELECT 'received' FROM sqs_receive('q', 3);},
	writer_after => q{BEGIN;
WITH m AS (SELECT * FROM sqs_receive('q')), d AS (INSERT INTO done SELECT ':client', body FROM m RETURNING body)
	SELECT 'did ' || body FROM d;
COMMIT;
\echo committed},
	writer_before => q{BEGIN;
INSERT INTO done VALUES (':client', ':step') RETURNING 'did ' || body;
SELECT 'received' FROM sqs_receive('q');
COMMIT;
\echo committed},
	writer_between => q{BEGIN;
SELECT 'received' FROM sqs_receive('q');
SAVEPOINT a;
INSERT INTO done VALUES (':client', ':step') RETURNING 'did ' || body;
RELEASE a;
SELECT 'received' FROM sqs_receive('q');
COMMIT;
\echo committed},
	function => q{SELECT 'did ' || b FROM receive_and_write(':client') b;
\echo committed},
	trigger => q{INSERT INTO hooked VALUES (':client') RETURNING 'hooked ' || body;
\echo committed},
	deleter => q{CALL receive_then_delete(':client', NULL);
\echo committed},
	consumer => q{BEGIN;
WITH m AS (SELECT * FROM sqs_consume('q', 2)), g AS (INSERT INTO gone SELECT ':client', body FROM m RETURNING body)
	SELECT 'deleted ' || body FROM g;
COMMIT;
\echo committed},
	preparer => q{BEGIN;
SELECT 'sent :step' FROM sqs_send('q', ':step');
WITH m AS (SELECT * FROM sqs_consume('q', 2)), g AS (INSERT INTO gone SELECT ':client', body FROM m RETURNING body)
	SELECT 'deleted ' || body FROM g;
PREPARE TRANSACTION ':step';
COMMIT PREPARED ':step';
\echo committed},
	backer => q{BEGIN;
SELECT 'received' FROM sqs_receive('q', 2);
ROLLBACK;},
	changer => q{BEGIN;
SELECT 'changed' FROM sqs_receive('q') m, LATERAL sqs_change_visibility('q', m.receipt_handle, 0);
COMMIT;});

# all kinds at once, or only such as would have nobody's flush but their own
my @mixtures = (
	[ sort keys %steps ],
	[qw(writer_after receiver function)],
	[qw(writer_before writer_between receiver)],
	[qw(trigger function writer_between)],
	[qw(deleter consumer receiver sender bulk_sender changer preparer)]);

my %sent;
my %acknowledged = (done => {}, gone => {}, hooked => {});
my $received = 0;

sub script_of
{
	my ($kind, $client) = @_;
	my $script = '';

	for my $n (1 .. $steps)
	{
		my $step = $steps{$kind};

		$step =~ s/:step/$client-$n/g;
		$step =~ s/:client/$client/g;
		$script .= "$step\n";
	}
	return $script;
}

# Takes down what a client has been told.
sub note_acknowledged
{
	my ($kind, $client) = @_;
	my @pending;

	for my $line (split /\n/, $client->{out})
	{
		if ($line eq 'committed')
		{
			while (my $said = shift @pending)
			{
				my ($what, $body) = split / /, $said;
				my $table =
				    $what eq 'did' ? 'done'
				  : $what eq 'hooked' ? 'hooked'
				  : 'gone';

				if ($what eq 'sent') { $sent{$body} = 1; }
				else { $acknowledged{$table}{$body}++; }
			}
		}
		elsif ($line eq 'received' || $line eq 'changed') { $received++; }
		elsif ($kind eq 'deleter') { push @pending, "deleted $line" if $line; }
		elsif ($line) { push @pending, $line; }
	}
	return;
}

# How often each body is in a table.
sub bodies
{
	my ($table) = @_;

	return map { split /\|/ } split /\n/,
	  $node->safe_psql('postgres',
		"SELECT body, count(*) FROM $table GROUP BY body");
}

# Compares; returns what is wrong.
sub audit
{
	my @wrong;
	my %at = map { $_ => { bodies($_) } } ($queue, $dead, qw(gone done hooked));

	for my $body (keys %sent)
	{
		my $n = 0;

		$n += $at{$_}{$body} // 0 for ($queue, $dead, 'gone');
		push @wrong, "sent $body is there $n times" if $n != 1;
	}
	for my $table ($queue, $dead, 'gone')
	{
		push @wrong, map { "$_ is $at{$table}{$_} times in $table" }
		  grep { $at{$table}{$_} > 1 } keys %{ $at{$table} };
	}
	for my $table (qw(done gone hooked))
	{
		my $told = $acknowledged{$table};

		push @wrong, map { "$_ is lost from $table" }
		  grep { ($at{$table}{$_} // 0) < $told->{$_} } keys %$told;
	}
	return join("\n", splice(@wrong, 0, 20));
}

# Ends what was prepared, one way or the other.
sub end_prepared
{
	for my $gid (split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'))
	{
		my $end = rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';

		note("$end PREPARED '$gid'");
		$node->safe_psql('postgres', "$end PREPARED '$gid'");
	}
	return;
}

sub run_round
{
	my ($round) = @_;
	my $mixture = $mixtures[ $round % @mixtures ];
	my $hold = $round % 4 != 0;
	my @clients;

	# something to receive, when no one sends
	$node->safe_psql('postgres',
		"SELECT FROM sqs_send_many('q', ARRAY(SELECT 'r$round-' || n FROM generate_series(1, 500) n))"
	);
	$sent{"r$round-$_"} = 1 for (1 .. 500);
	hold_wal($node) if $hold;
	for my $kind (@$mixture)
	{
		push @clients, [ $kind, client($node, script_of($kind, "$kind-$round")) ];
	}
	usleep(300_000 + int(rand(400_000)));
	if ($round % 2) { crash($node); }
	else { immediate_stop($node); }
	finish_clients(map { $_->[1] } @clients);
	start_crashed($node);
	end_prepared();
	note_acknowledged(@$_) for @clients;

	is(audit(), '', "round $round: " . join(', ', @$mixture));
	my @errors = grep { /ERROR|FATAL|PANIC/ && !/terminating connection|server closed|connection to server/ }
	  map { split /\n/, $_->[1]{err} } @clients;
	is(join("\n", @errors), '', 'and no error but the end of the server');
	return;
}

# Receives and deletes everything; returns the bodies.
sub drain
{
	my ($name, $table) = @_;
	my @bodies;

	for (1 .. 100)
	{
		push @bodies, split /\n/, $node->safe_psql('postgres',
			"SET pg_sqs.max_batch_size = 10000; SELECT body FROM sqs_consume('$name', 10000, 1)");
		last if $node->safe_psql('postgres', "SELECT count(*) FROM $table") == 0;
	}
	return @bodies;
}

run_round($_) for (1 .. $rounds);

my %left = (bodies($queue), bodies($dead));
is_deeply([ sort(drain('q', $queue), drain('dead', $dead)) ],
	[ sort keys %left ], 'all that is left is delivered, once');
note("$received receives; " . join(', ', map { scalar(keys %{ $acknowledged{$_} }) . " in $_" } sort keys %acknowledged)
	  . '; ' . scalar(keys %sent) . ' sent');
ok(scalar(keys %{ $acknowledged{done} }) > 0, 'there was something to lose');
$node->stop;
done_testing();
