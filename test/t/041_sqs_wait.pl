# CALL sqs_wait() waits without a snapshot, lock or transaction id, takes
# nothing, and ends as soon as a message can be received, whatever made it so.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node;

sub query { return $node->safe_psql('postgres', @_); }

# Starts a psql that waits, and returns once it sleeps.
sub start_wait
{
	my ($name, $sql) = @_;
	my ($out, $err) = ('', '');

	local $ENV{PGAPPNAME} = $name;
	my $psql = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			$sql || "CALL sqs_wait('q', 20)"
		],
		'>', \$out, '2>', \$err);
	$node->poll_query_until('postgres', qq{
SELECT count(*) = 1 FROM pg_stat_activity
WHERE application_name = '$name' AND state = 'active' AND wait_event_type = 'Extension'})
	  or die "$name does not sleep";
	return { psql => $psql, out => \$out, err => \$err };
}

sub finish_wait
{
	my ($wait) = @_;

	eval { $wait->{psql}->finish };
	return ${ $wait->{out} } . ${ $wait->{err} };
}

# Runs the code, which ends a wait, and says whether that was soon.
sub ends_wait
{
	my ($name, $code, $expected) = @_;
	my $wait = start_wait('waiter');
	my $started;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$code->();
	$started = time;
	like(finish_wait($wait), $expected || qr/^t$/, $name);
	cmp_ok(time - $started, '<', 3, "$name: soon");
	query(q{SELECT sqs_purge_queue('q') FROM sqs_list_queues() WHERE sqs_list_queues = 'q'});
	return;
}

for my $preload ('pg_sqs', '')
{
	my $kind = $preload ? 'preloaded' : 'not preloaded';

	$node = PostgreSQL::Test::Cluster->new($preload ? 'preloaded' : 'unloaded');
	$node->init;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$preload'
max_prepared_transactions = 5
pg_sqs.worker = off
});
	$node->start;
	query(q{CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('q'); SELECT sqs_create_queue('other')});

	# what it holds while it waits
	my $wait = start_wait('waiter');
	is( query(q{SELECT backend_xmin IS NULL AND backend_xid IS NULL
			FROM pg_stat_activity WHERE application_name = 'waiter'}),
		't', "$kind: it holds back no vacuum");
	is( query(q{SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
			WHERE application_name = 'waiter' AND locktype <> 'virtualxid'}),
		0, "$kind: it holds no lock");
	query(q{SELECT sqs_send('other', 'm'); SELECT sqs_send('q', 'm', 900)});
	is(query(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND state = 'active'}),
		1, "$kind: it sleeps on");
	query(q{SELECT sqs_send('q', 'm')});
	is(finish_wait($wait), "t\n", "$kind: a message came");
	is(query(q{SELECT body FROM sqs_receive('q')}), 'm', "$kind: and is there");
	query(q{SELECT sqs_purge_queue('q')});

	ends_wait("$kind: a delayed message", sub { query(q{SELECT sqs_send('q', 'm', 1)}) });
	query(q{CREATE TABLE handles (h text); SELECT sqs_send('q', 'm');
		INSERT INTO handles SELECT receipt_handle FROM sqs_receive('q', 1, 1000)});
	ends_wait("$kind: a change of visibility",
		sub { query(q{SELECT sqs_change_visibility('q', h, 0) FROM handles}) });
	ends_wait("$kind: a prepared transaction", sub { query(q{
		BEGIN; SELECT sqs_send('q', 'm'); PREPARE TRANSACTION 'p';
		SELECT pg_sleep(0.2);
		COMMIT PREPARED 'p'}) });
	ends_wait("$kind: a cancel",
		sub { query(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'}) },
		qr/canceling statement due to user request/);
	ends_wait("$kind: the end of the queue",
		sub { query(q{SELECT sqs_delete_queue('q')}) },
		qr/The specified queue does not exist/);
	query(q{SELECT sqs_create_queue('q')});

	# one message for a wait and a receive that wait
	$wait = start_wait('waiter');
	my $receive = start_wait('receiver', q{SELECT body FROM sqs_receive('q', wait_time_seconds => 20)});
	query(q{SELECT sqs_send('q', 'm')});
	is(finish_wait($receive), "m\n", "$kind: a receive behind it gets the message");
	query(q{SELECT sqs_send('q', 'm')});
	is(finish_wait($wait), "t\n", "$kind: the wait ends no later than with the next");

	# nothing comes
	is(query(q{SELECT sqs_purge_queue('q'); CALL sqs_wait('q', 1)}) =~ s/^\n//r,
		'f', "$kind: it ends when the time is over");
	# where it cannot run
	foreach my $sql (
		q{BEGIN; CALL sqs_wait('q', 1)},
		q{CREATE FUNCTION f() RETURNS boolean LANGUAGE plpgsql AS $$
			DECLARE a boolean; BEGIN CALL sqs_wait('q', 1, a); RETURN a; END $$; SELECT f()})
	{
		my ($ret, $out, $err) = $node->psql('postgres', $sql);
		like($err, qr/sqs_wait\(\) cannot run inside a transaction block/, "$kind: not in a transaction");
	}
	is( query(q{
		CREATE TABLE seen (a boolean);
		DO $$ DECLARE a boolean; BEGIN
			CALL sqs_wait('q', 0, a); INSERT INTO seen VALUES (a); ROLLBACK;
			PERFORM sqs_send('q', 'm');
			CALL sqs_wait('q', 0, a); INSERT INTO seen VALUES (a);
		END $$;
		SELECT a FROM seen}),
		't', "$kind: in a DO block it commits what was done");
	$node->stop('fast');
}
done_testing();
