# The extension is dropped and made again under connected sessions.  Queue
# numbers start again, and message ids with them: what a session remembers of
# a queue must not lead it to another.
#
# PG_SQS_DROP_ROUNDS=200 makes this a long run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;
use Time::HiRes qw(time);

my $rounds = $ENV{PG_SQS_DROP_ROUNDS} || 5;

my $node = crash_node('main', q{
pg_sqs.worker = on
pg_sqs.maintenance_interval = 100ms
pg_sqs.max_queues = 12
log_statement = none
});
$node->start;

sub query { return $node->safe_psql('postgres', @_); }

query(q{CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('a'); SELECT sqs_create_queue('b')});
my ($one, $two) = map { $node->background_psql('postgres', on_error_stop => 0) } (1 .. 2);

# What a session's statement returns, or the first line of its error.
sub answer
{
	my ($session, $sql) = @_;
	my ($out) = $session->query($sql);

	if ($session->{stderr} =~ /(?:ERROR|FATAL):  ([^\n]*)/)
	{
		$out = $1;
	}
	$session->{stderr} = '';
	return $out;
}

#
# What a session remembers
#
answer($one, q{PREPARE send AS SELECT (sqs_send($1, $2)).message_id IS NOT NULL});
is(answer($one, q{EXECUTE send('a', 'a'); EXECUTE send('b', 'b')}), "t\nt", 'two queues');
my $handle = answer($two, q{SELECT receipt_handle FROM sqs_receive('a')});
is(answer($two, q{SELECT body FROM sqs_receive('b', 1, 0)}), 'b', 'which two sessions know');

query(q{
DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('b'); SELECT sqs_create_queue('a'); SELECT sqs_send('b', 'new b')});
is(query(q{SELECT id, name FROM sqs.queue ORDER BY id}), "1|b\n2|a", 'their numbers are exchanged');
is(answer($two, q{SELECT body FROM sqs_receive('a')}), '', 'nothing is in the one');
is(answer($two, qq{SELECT sqs_delete('b', '$handle')}) =~ s/".*"/.../r,
	'The input receipt handle ... is not a valid receipt handle.',
	'a handle of the queue that had this number, and this message id');
is(answer($two, qq{SELECT sqs_change_visibility('a', '$handle', 0)}) =~ s/".*"/.../r,
	'The input receipt handle ... is not a valid receipt handle.',
	'or that had this name');
is(answer($one, q{EXECUTE send('a', 'new a')}), 't', 'a prepared statement sends to the queue of that name');
is(answer($two, q{SELECT body FROM sqs_receive('a', 10)}), 'new a', 'where it is received');
is(answer($two, q{SELECT body FROM sqs_receive('b', 10)}), 'new b', 'as is what is in the other');
is(query(q{SELECT sqs.verify_cursor(q) FROM sqs_list_queues() q}), "0\n0", 'cursors are right');

# undone
answer($one, q{BEGIN; DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('a'); SELECT sqs_send('a', 'undone')});
is(answer($one, q{SELECT body FROM sqs_receive('a')}), 'undone', 'a transaction sees what it made');
answer($one, q{ROLLBACK});
is(answer($one, q{EXECUTE send('a', 'kept')}), 't', 'and sees what there was when it is rolled back');
is(answer($two, q{SELECT body FROM sqs_consume('a', 10)}), 'kept', 'as all do');

# a call that waits for the drop's lock
answer($one, q{BEGIN; DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('c'); SELECT sqs_create_queue('a')});
$two->query_until(qr/sending/, "\\echo sending\nSELECT sqs_send('a', 'waited');\n");
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%waited%' AND pid <> pg_backend_pid()}),
	'a send waits for the drop');
answer($one, 'COMMIT');
my $sent = answer($two, '');
note("the send that waited: $sent");
is(query(q{SELECT (SELECT string_agg(body, ' ') FROM sqs_receive('c', 10)) IS NULL, (SELECT string_agg(body, ' ') FROM sqs_receive('a', 10))}),
	't|' . ($sent =~ /^\(/ ? 'waited' : ''), 'and goes to the queue of that name, or to none');

# who waits for messages
my $waiter = client($node, q{SELECT body FROM sqs_consume('a', 1, 20);});
$node->poll_query_until('postgres', q{SELECT waiters = 1 FROM sqs.cursor('a')}) or die 'no waiter';
my $began = time;
query(q{BEGIN; DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('b'); SELECT sqs_create_queue('a'); SELECT sqs_send('b', 'b'); COMMIT;
SELECT sqs_send('a', 'a')});
finish_clients($waiter);
is($waiter->{out} . $waiter->{err}, "a\n", 'one who waits gets what is sent to the new queue of that name');
cmp_ok(time - $began, '<', 10, 'well before it would have given up');

$waiter = client($node, q{SELECT body FROM sqs_consume('a', 1, 20);});
$node->poll_query_until('postgres', q{SELECT waiters = 1 FROM sqs.cursor('a')}) or die 'no waiter';
$began = time;
query(q{DROP EXTENSION pg_sqs CASCADE});
finish_clients($waiter);
like($waiter->{err}, qr/extension "pg_sqs" is not installed|queue does not exist/, 'one who waits hears that there is no queue any more');
cmp_ok(time - $began, '<', 10, 'at once');
query(q{CREATE EXTENSION pg_sqs});
$one->quit;
$two->quit;

#
# Under load
#
my @names = qw(a b c d);
my @clients;
query(qq{SELECT sqs_create_queue('$_')}) for @names;
for my $name (@names)
{
	push @clients,
	  endless_client($node, qq{SELECT sqs_send('$name', '$name');
SELECT '$name got ' || body FROM sqs_receive('$name', 3, 1);
SELECT sqs_send_many('$name', '{$name,$name,$name,$name,$name}');
WITH m AS (SELECT * FROM sqs_receive('$name')) SELECT '$name got ' || body FROM m WHERE sqs_delete('$name', receipt_handle);
SELECT '$name got ' || body FROM sqs_consume('$name', 2);
SELECT '$name got ' || body FROM sqs_peek('$name', 2);
SELECT '$name got ' || body FROM sqs_consume('$name', 1, 1);});
}
my %wrong;
for my $round (1 .. $rounds)
{
	my @order = sort { rand() <=> 0.5 } @names;
	my $script = 'BEGIN; DROP EXTENSION pg_sqs CASCADE; CREATE EXTENSION pg_sqs; '
	  . join(' ', map { "SELECT sqs_create_queue('$_');" } @order) . ' COMMIT;';
	my ($rc, $out, $err);

	# what is in each queue after some work
	$node->poll_query_until('postgres', q{SELECT sum(c) > 20 FROM (SELECT count(*) AS c FROM sqs_list_queues() q, sqs_peek(q, 10)) c});
	$wrong{$_}++ for split /\n/, query(
		q{SELECT format('%s holds %s', q, body) FROM sqs_list_queues() q, sqs_peek(q, 10) WHERE q <> body});
	for (1 .. 20)
	{
		# sessions at work may be in the way
		($rc, $out, $err) = $node->psql('postgres', $script);
		last if $rc == 0;
		note("round $round: $err");
	}
	is($rc, 0, "round $round: @order");
}
query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
finish_clients(@clients);
is_deeply(\%wrong, {}, 'no queue ever held what was not sent to it');
my %errors;
for my $client (@clients)
{
	is(join(' ', grep { !/^(\w) got \1$/ && !/^\(/ && !/^[-0-9a-f]{36}$/ } split /\n/, $client->{out}), '',
		'nothing was received that was not sent to that queue');
	$errors{$_}++ for map { /(?:ERROR|FATAL|PANIC):  (.*)/ ? $1 =~ s/\d+/N/gr : () } split /\n/, $client->{err};
}
note(join("\n", map { "$errors{$_} x $_" } sort keys %errors));
ok(scalar(grep { /PANIC|corrupt|unexpected|lock.*not owned|XX00/ } keys %errors) == 0, 'errors are such as are to be expected');
is(query(q{SELECT sqs_create_queue('end'); SELECT sqs_send('end', 'm') IS NULL; SELECT body FROM sqs_receive('end')}), "end\nf\nm", 'all works in the end');
is(query(q{SELECT sqs.cursor('end') IS NOT NULL}), 't', 'and has its place in shared memory');
$node->stop;
done_testing();
