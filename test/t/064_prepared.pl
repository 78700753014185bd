# What a prepared transaction sent, received, deleted or changed is in doubt
# until another session ends it, be it after a restart or a crash; then it is
# all done or all undone, and found at once, also by who was waiting for it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time);

my $node = crash_node('main', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_sqs; CREATE TABLE handles (queue text, receipt_handle text)');

# Runs commands; what sqs_send returns is not returned.
sub query
{
	return $node->safe_psql('postgres', @_) =~ s/^\([-0-9a-f]{36},.*\)\n?//gmr =~ s/\n+\z//r;
}

#
# Each thing a transaction can do: what must be there before, what it does,
# and what is received in order after its commit and after its rollback (a
# message that went to the dead-letter queue is "dead").
#
my $send = q{SELECT sqs_send(:q, 'm');};
my $handle = q{(SELECT receipt_handle FROM handles WHERE queue = :q)};
my $receive = q{DELETE FROM handles WHERE queue = :q;
	INSERT INTO handles SELECT :q, receipt_handle FROM sqs_receive(:q, 1, :timeout);};
my @cases = (
	[ 'send', '', $send, 'm', '' ],
	[ 'send_many', '', q{SELECT sqs_send_many(:q, '{m,m}');}, 'm m', '' ],
	[ 'receive', $send, q{SELECT FROM sqs_receive(:q, 1, 40000);}, '', 'm' ],
	[ 'consume', $send, q{SELECT FROM sqs_consume(:q);}, '', 'm' ],
	[ 'delete', $send . ($receive =~ s/:timeout/0/r), qq{SELECT sqs_delete(:q, $handle);}, '', 'm' ],
	[ 'show', $send . ($receive =~ s/:timeout/40000/r), qq{SELECT sqs_change_visibility(:q, $handle, 0);}, 'm', '' ],
	[ 'hide', $send . ($receive =~ s/:timeout/0/r), qq{SELECT sqs_change_visibility(:q, $handle, 40000);}, '', 'm' ],
	[ 'purge', $send, q{SELECT sqs_purge_queue(:q);}, '', 'm' ],
	[ 'redrive', $send . 'SELECT FROM sqs_receive(:q, 1, 0);', q{SELECT FROM sqs_receive(:q);}, 'dead', 'dead' ],
	[ 'levels', $send, q{SAVEPOINT a; SELECT FROM sqs_receive(:q); ROLLBACK TO a; SELECT sqs_send(:q, 'n');}, 'm n', 'm' ]);

# The queues of a pass, each with its case and how it will end.
sub queues_of
{
	my ($pass) = @_;

	return map {
		my $case = $_;
		map { { name => "$pass-$case->[0]-$_", case => $case, end => $_ } }
		  qw(commit rollback)
	} @cases;
}

# Has a queue's transaction prepared.
sub prepare_script
{
	my ($q) = @_;
	my ($name, $before, $what) = @{ $q->{case} };
	my $script = "SELECT sqs_create_queue(:q);\n";

	if ($name eq 'redrive')
	{
		$script = qq{SELECT sqs_create_queue('$q->{name}-dead');
SELECT sqs_create_queue(:q, '{"RedrivePolicy": {"deadLetterTargetArn": "$q->{name}-dead", "maxReceiveCount": 1}}');
};
	}
	$script .= "$before\nBEGIN; $what PREPARE TRANSACTION :q;\n";
	return $script =~ s/:q/'$q->{name}'/gr;
}

# Nothing of it is to be had.  The cursor goes on over other messages.
sub doubt_script
{
	my ($q) = @_;
	my $script = q{SELECT sqs_send(:q, 'other') FROM generate_series(1, 2);
SELECT :q || ' ' || body FROM sqs_consume(:q, 10) WHERE body <> 'other';
SELECT sqs_send(:q, 'other');
SELECT :q || ' ' || body FROM sqs_consume(:q) WHERE body <> 'other';
};
	# a rolled-back level leaves the message to all
	return '' if $q->{case}[0] eq 'levels';
	return $script =~ s/:q/'$q->{name}'/gr;
}

sub end_script
{
	my ($q) = @_;
	my $dead = $q->{case}[0] eq 'redrive' ? qq{SELECT 'dead' FROM sqs_consume('$q->{name}-dead', 10)} : 'SELECT';

	# "last" is found in any case, so the receive does not look twice
	return qq{$q->{end} PREPARED '$q->{name}';
SELECT sqs_send('$q->{name}', 'last');
\\o /dev/null
CREATE TEMP TABLE got AS SELECT body FROM sqs_consume('$q->{name}', 10);
\\o
SELECT '$q->{name}: ' || string_agg(body, ' ') FROM got;
$dead;
DROP TABLE got;
};
}

# Prepares everything, does something to the server, ends everything.
sub run_pass
{
	my ($pass, $between) = @_;
	my @queues = queues_of($pass);
	my $began = time;

	query(join '', map { prepare_script($_) } @queues);
	$between->();
	is(query(join '', map { doubt_script($_) } @queues), '', "$pass: nothing that is in doubt is received");
	my $got = query(join '', map { end_script($_) } @queues);
	$got =~ s/: last\n+dead\n/: dead last\n/g;
	$got =~ s/\n+/\n/g;
	my $expected = join("\n", map {
		my $bodies = $_->{case}[ $_->{end} eq 'commit' ? 3 : 4 ];
		"$_->{name}: " . ($bodies ? "$bodies last" : 'last')
	} @queues);
	is($got, $expected, "$pass: what is received after COMMIT or ROLLBACK PREPARED");
	is(query(qq{SELECT q, sqs.verify_cursor(q) FROM sqs_list_queues('$pass') q WHERE sqs.verify_cursor(q) <> 0}),
		'', "$pass: no message is below its queue's cursor");
	is(query(qq{SELECT q FROM sqs_list_queues('$pass') q, sqs.cursor(q) c WHERE c.prepared}),
		'', "$pass: nothing holds a cursor");
	is(query(qq{SELECT queue_name FROM sqs_metrics m, sqs_peek(queue_name, 10) p WHERE queue_name LIKE '$pass%'
		GROUP BY queue_name, approximate_number_of_messages_visible HAVING count(*) <> approximate_number_of_messages_visible}),
		'', "$pass: counts are right");
	note(sprintf('%s: %.1f s', $pass, time - $began));
	return;
}

run_pass('running', sub { });
run_pass('restarted', sub { $node->restart });
run_pass('crashed', sub { $node->stop('immediate'); start_crashed($node); });

#
# Who waits gets it
#
query(q{SELECT sqs_create_queue('w')});

sub wait_for_waiters
{
	my ($n) = @_;

	return if $n == 0;
	$node->poll_query_until('postgres',
		"SELECT waiters = $n FROM sqs.cursor('w')")
	  or die "not $n waiters";
	return;
}

sub waiters
{
	return map { client($node, q{SELECT body FROM sqs_consume('w', 1, 20);}) } (1 .. $_[0]);
}

# Starts waiters, some before and some after a transaction is prepared, ends
# that by a command, and looks what they got.
sub waiters_get
{
	my ($early, $late, $prepare, $end, $expected, $name) = @_;
	my @early = waiters($early);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for_waiters($early);
	query("$prepare PREPARE TRANSACTION 'w'");
	my @late = waiters($late);
	wait_for_waiters($early + $late);
	my $began = time;
	query("$end PREPARED 'w'");
	finish_clients(@early, @late);
	is(join(' ', sort map { $_->{out} =~ s/\n//r . $_->{err} } @early, @late), $expected, $name);
	cmp_ok(time - $began, '<', 10, 'well before they would have given up');
	return;
}

waiters_get(0, 1, q{BEGIN; SELECT sqs_send('w', 'a');}, 'COMMIT', 'a', 'one who waits gets what is sent');
waiters_get(1, 0, q{BEGIN; SELECT sqs_send('w', 'a');}, 'COMMIT', 'a', 'one who waited before gets it, too');
waiters_get(2, 2, q{BEGIN; SELECT sqs_send_many('w', '{a,b,c,d}');}, 'COMMIT', 'a b c d', 'four who wait get what is sent');
query(q{SELECT sqs_send_many('w', '{a,b,c}')});
waiters_get(0, 3, q{BEGIN; SELECT sqs_receive('w', 3);}, 'ROLLBACK', 'a b c', 'three who wait get what was received');
query(q{SELECT sqs_send('w', 'a'); DELETE FROM handles; INSERT INTO handles SELECT 'w', receipt_handle FROM sqs_receive('w')});
waiters_get(1, 1, q{BEGIN; SELECT sqs_send('w', 'b'); SELECT sqs_change_visibility('w', receipt_handle, 0) FROM handles;}, 'COMMIT', 'a b', 'two who wait get what is sent and what is made visible');

# across a restart
query(q{BEGIN; SELECT sqs_send('w', 'a'); PREPARE TRANSACTION 'w'});
$node->restart;
my ($waiter) = waiters(1);
wait_for_waiters(1);
my $began = time;
query(q{COMMIT PREPARED 'w'});
finish_clients($waiter);
is($waiter->{out}, "a\n", 'one who waits after a restart gets what was sent before');
cmp_ok(time - $began, '<', 10, 'well before it would have given up');

#
# No room for one more: it is rolled back
#
query(q{SELECT sqs_create_queue('full'); SELECT sqs_send('full', 'm' || n) FROM generate_series(1, 3) n});
query(join '', map { "BEGIN; SELECT sqs_send('full', 'p$_'); PREPARE TRANSACTION 'p$_';\n" } (1 .. 20));
my $more = q{BEGIN; SELECT FROM sqs_consume('full'); SELECT sqs_send('full', 'lost'); PREPARE TRANSACTION 'more';
};
my ($rc, $out, $err) = $node->psql('postgres', $more x 100, on_error_stop => 0);
is(scalar(() = $err =~ /maximum number of prepared transactions reached/g), 100,
	'one more than the server has room for, again and again');
is(query(q{SELECT body FROM sqs_consume('full', 10)}), "m1\nm2\nm3", 'is as if it had not been');
query(q{COMMIT PREPARED 'p1'; BEGIN; SELECT sqs_send('full', 'q1'); PREPARE TRANSACTION 'q1'});
is(query(q{SELECT body FROM sqs_consume('full', 10)}), 'p1', 'there is room again when one ends');
is(query(q{SELECT prepared, visible_at > '-infinity' FROM sqs.cursor('full')}), 't|t', 'and no place in shared memory was lost');
query(join '', map { "COMMIT PREPARED '$_';\n" } (map { "p$_" } (2 .. 20)), 'q1');
is(query(q{SET pg_sqs.max_batch_size = 100; SELECT count(*) FROM sqs_consume('full', 100)}), '20', 'all of them are received in the end');

#
# More queues than there are places for
#
query(q{SELECT sqs_create_queue('many' || n) FROM generate_series(1, 10) n});
query(join '', map { "BEGIN; SELECT sqs_send('many' || n, 'p$_') FROM generate_series(1, 10) n; PREPARE TRANSACTION 'p$_';\n" } (1 .. 20));
query(q{SELECT sqs_send(q, 'other') FROM sqs_list_queues('many') q, generate_series(1, 3);
	SELECT FROM sqs_list_queues('many') q, sqs_consume(q, 10)});
query(join '', map { ($_ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$_';\n" } (1 .. 20));
is(query(q{SELECT sqs_send(q, 'last') IS NULL FROM sqs_list_queues('many') q LIMIT 1 OFFSET 9;
	SET pg_sqs.max_batch_size = 100;
	SELECT string_agg(body, ' ' ORDER BY body = 'last', substr(body, 2)::int) FROM (
		SELECT DISTINCT q, body FROM sqs_list_queues('many') q, sqs_consume(q, 100)) m WHERE body <> 'last' GROUP BY q}),
	join("\n", 'f', map { join(' ', map { 'p' . (2 * $_ - 1) } (1 .. 10)) } (1 .. 10)),
	'ten queues in twenty transactions');

#
# Queues made and deleted
#
query(q{SELECT sqs_create_queue('old');
BEGIN; SELECT sqs_create_queue('new'); SELECT sqs_send('new', 'm'); PREPARE TRANSACTION 'create';
BEGIN; SELECT sqs_send('old', 'm'); SELECT sqs_delete_queue('old'); PREPARE TRANSACTION 'delete'});
my $session = $node->background_psql('postgres', on_error_stop => 0);
is($session->query(q{SELECT sqs_list_queues('new')}), '', 'a queue in doubt is not there');
query(q{COMMIT PREPARED 'create'; COMMIT PREPARED 'delete'});
is($session->query(q{SELECT body FROM sqs_receive('new')}), 'm', 'the queue made is there, with its message');
$session->query(q{SELECT sqs_send('old', 'x')});
like($session->{stderr}, qr/The specified queue does not exist/, 'the one deleted is not');
$session->quit;

#
# None at all
#
$node->append_conf('postgresql.conf', 'max_prepared_transactions = 0');
query(q{SELECT sqs_create_queue('none'); SELECT sqs_send('none', 'm')});
$node->restart;
($rc, $out, $err) = $node->psql('postgres', q{BEGIN; SELECT FROM sqs_consume('none'); PREPARE TRANSACTION 'a'});
like($err, qr/prepared transactions are disabled/, 'no prepared transactions');
is(query(q{SELECT body FROM sqs_consume('none')}), 'm', 'and the message is there');

$node->stop;
done_testing();
