# Through a pooler in transaction mode: many clients share few sessions, and
# find another one at each transaction; a handle works in whatever session.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'pgbouncer is not installed' unless $pgbouncer;
plan skip_all => 'pgbouncer does not run as root' if $> == 0;

my $node = preloaded_node();
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('pool');
CREATE TABLE done (message_id uuid);
CREATE TABLE handle (message_id uuid, h text);
});

# the pooler
my $user = $node->safe_psql('postgres', 'SELECT current_user');
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $dir = PostgreSQL::Test::Utils::tempdir_short();
append_to_file("$dir/users", qq{"$user" ""\n});
append_to_file("$dir/pgbouncer.ini", sprintf(q{
[databases]
postgres = host=%s port=%s
[pgbouncer]
listen_addr =
unix_socket_dir = %s
listen_port = %s
auth_type = trust
auth_file = %s/users
pool_mode = transaction
default_pool_size = 3
max_client_conn = 50
server_reset_query =
logfile = %s/log
pidfile = %s/pid
}, $node->host, $node->port, $dir, $port, $dir, $dir, $dir));
system_or_bail($pgbouncer, '-d', '-q', "$dir/pgbouncer.ini");
my $pooled = "host=$dir port=$port dbname=postgres user=$user";
for (1 .. 100)
{
	# psql would be given its input while it fails to connect, and break the pipe
	last if system_log('pg_isready', '-q', '-d', $pooled) == 0;
	select(undef, undef, undef, 0.1);
}

# Runs a script with many clients through the pooler.
sub pool
{
	my ($name, $transactions, $script, @more) = @_;
	my ($out, $err);
	my $file = "$dir/$name.sql";

	append_to_file($file, $script);
	my $ok = IPC::Run::run(
		[
			'pgbench', '-n', '-c', 20, '-j', 2, '-t', $transactions, '-f', $file, @more,
			'-h', $dir, '-p', $port, '-U', $user, 'postgres'
		],
		'>', \$out, '2>', \$err);
	ok($ok && $out =~ /number of failed transactions: 0 /, $name) or diag($err);
}

pool('send', 10, q{SELECT sqs_send('pool', 'm' || :client_id)});
is($node->safe_psql('postgres', q{SELECT a->>'ApproximateNumberOfMessages' FROM sqs_get_queue_attributes('pool') a}),
	'200', 'all sent');

# received in one transaction, deleted by another client's in another session
pool('receive', 10, q{
INSERT INTO handle SELECT message_id, receipt_handle FROM sqs_receive('pool', 1, 3600);
});
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT message_id) FROM handle'),
	'200|200', 'each received once');
pool('delete', 10, q{
WITH taken AS (DELETE FROM handle WHERE h = (SELECT h FROM handle LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *)
INSERT INTO done SELECT message_id FROM taken WHERE sqs_delete('pool', h);
});
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT message_id) FROM done'),
	'200|200', 'each deleted once');

# transactions of several statements, long polls, rollbacks
$node->safe_psql('postgres', 'TRUNCATE done');
pool('work', 10, q{
BEGIN;
SELECT sqs_send('pool', 'n' || :client_id);
COMMIT;
BEGIN;
INSERT INTO done SELECT message_id FROM sqs_consume('pool', 1, 1);
COMMIT;
BEGIN;
SELECT sqs_send('pool', 'undone');
ROLLBACK;
});
$node->safe_psql('postgres', q{INSERT INTO done SELECT message_id FROM generate_series(1, 200) i, sqs_consume('pool', 1 + 0 * i)});
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT message_id) FROM done'),
	'200|200', 'each consumed once');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sqs_peek($$pool$$)'), '0', 'nothing is left');

# DDL in one session is known in the others
pool('other queues', 3, q{
SELECT sqs_create_queue('q' || :client_id);
SELECT sqs_send('q' || :client_id, 'x');
SELECT sqs_consume('q' || :client_id);
SELECT sqs_delete_queue('q' || :client_id);
});
is($node->safe_psql('postgres', 'SELECT string_agg(q, $$ $$) FROM sqs_list_queues() q'), 'pool', 'none is left');

open my $pid, '<', "$dir/pid" or die "no pid file of pgbouncer: $!";
kill 'TERM', <$pid> + 0;
close $pid;
$node->stop;
done_testing();
