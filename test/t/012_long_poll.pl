# Long polling, where it takes several sessions, time or violence: how soon a
# message arrives, and how soon a poll ends that is cancelled, terminated, left
# by its client or overtaken by a shutdown.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node;

# Starts a psql that runs a long poll as an application of this name.
sub start_poll
{
	my ($name, $sql) = @_;
	my ($out, $err) = ('', '');

	local $ENV{PGAPPNAME} = $name;
	my $psql = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			$sql || "SELECT body FROM sqs_receive('q', wait_time_seconds => 20)"
		],
		'>', \$out, '2>', \$err);
	asleep($name);
	return { psql => $psql, out => \$out, err => \$err };
}

# Waits until a poll sleeps.
sub asleep
{
	my ($name) = @_;

	$node->poll_query_until('postgres', qq{
SELECT count(*) = 1 FROM pg_stat_activity
WHERE application_name = '$name' AND state = 'active' AND wait_event_type = 'Extension'})
	  or die "$name does not sleep";
}

# Ends a poll's psql; returns what it printed.
sub finish_poll
{
	my ($poll) = @_;

	eval { $poll->{psql}->finish };
	return ${ $poll->{out} } . ${ $poll->{err} };
}

sub gone
{
	my ($name) = @_;

	return $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$name'");
}

# Runs the code; says whether it took less than so many seconds.
sub within
{
	my ($limit, $name, $code) = @_;
	my $started = time;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$code->();
	my $took = time - $started;
	ok($took < $limit, "$name: soon") or diag("after $took s");
}

for my $preload ('pg_sqs', '')
{
	my $kind = $preload ? 'preloaded' : 'not preloaded';

	$node = PostgreSQL::Test::Cluster->new($preload ? 'preloaded' : 'unloaded');
	$node->init;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$preload'
pg_sqs.worker = off
});
	$node->start;
	$node->safe_psql('postgres', q{CREATE EXTENSION pg_sqs; SELECT sqs_create_queue('q')});

	# several wait, several messages come: each gets one, at once
	my @polls = map { start_poll("poll$_") } 1 .. 5;
	within(5, "$kind: five messages for five polls", sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM sqs_send_many('q', '{a,b,c,d,e}')");
		is(join('', sort map { finish_poll($_) } @polls), "a\nb\nc\nd\ne\n", "$kind: one each");
	});

	# fewer messages than polls: the others go on, and get what comes later
	@polls = map { start_poll("poll$_") } 1 .. 3;
	$node->safe_psql('postgres', "SELECT sqs_send('q', 'first')");
	$node->poll_query_until('postgres',
		"SELECT count(*) = 2 FROM pg_stat_activity WHERE application_name LIKE 'poll_'")
	  or die 'nobody got the message';
	within(5, "$kind: the others", sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM sqs_send_many('q', '{second,third}')");
		is(join('', sort map { finish_poll($_) } @polls), "first\nsecond\nthird\n", "$kind: one each, later");
	});

	# a waiter that is cancelled takes no message with it
	@polls = map { start_poll("poll$_") } 1 .. 2;
	$node->safe_psql('postgres', q{
BEGIN;
SELECT sqs_send('q', 'm');
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'poll1';
COMMIT});
	within(5, "$kind: beside a cancel", sub {
		like(finish_poll($polls[0]) . finish_poll($polls[1]),
			qr/canceling statement due to user request[\s\S]*m\n|^m\n[\s\S]*canceling/,
			"$kind: one is cancelled, the other has the message");
	});

	# terminated
	my $poll = start_poll('victim');
	within(5, "$kind: terminate", sub {
		$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
		ok(gone('victim'), "$kind: a terminated poll is gone");
	});
	finish_poll($poll);

	# its client is killed
	$poll = start_poll('orphan');
	within(5, "$kind: client killed", sub {
		$poll->{psql}->signal('KILL');
		ok(gone('orphan'), "$kind: a poll whose client is gone ends");
	});
	finish_poll($poll);
	# and what is sent then is not lost with it
	$node->safe_psql('postgres', "SELECT sqs_send('q', 'kept')");
	is($node->safe_psql('postgres', "SELECT body FROM sqs_consume('q')"), 'kept', "$kind: not lost");

	# a poll holds no lock that is in the way of anything
	$poll = start_poll('idle');
	within(5, "$kind: no lock", sub {
		$node->safe_psql('postgres', q{
SET lock_timeout = '4s';
DO $$ BEGIN
	EXECUTE (SELECT format('LOCK TABLE sqs.queue_%s IN ACCESS EXCLUSIVE MODE', id) FROM sqs.queue WHERE name = 'q');
END $$;
SELECT sqs_set_queue_attributes('q', '{"VisibilityTimeout": 7}');
});
	});
	$node->safe_psql('postgres', "SELECT sqs_send('q', 'm')");
	is(finish_poll($poll), "m\n", "$kind: it went on");

	# in a transaction that has done other work
	$poll = start_poll('mixed', q{
BEGIN;
CREATE TEMP TABLE t ();
SELECT (sqs_send('q', 'own', delay_seconds => 900)).message_id IS NOT NULL;
SELECT body FROM sqs_receive('q', wait_time_seconds => 20);
COMMIT});
	$node->safe_psql('postgres', "SELECT sqs_send('q', 'm')");
	is(finish_poll($poll), "t\nm\n", "$kind: in a transaction");

	# the server shuts down
	$poll = start_poll('last');
	within(10, "$kind: fast shutdown", sub { $node->stop('fast') });
	like(finish_poll($poll), qr/terminating connection due to administrator command/,
		"$kind: a poll does not hold up the shutdown");
	unlike(slurp_file($node->logfile), qr/TRAP|PANIC|SIGKILL|signal \d/, "$kind: nothing broke");
}

done_testing();
