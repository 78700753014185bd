# Sixteen receivers drain a queue of 10,000 messages: at every isolation level
# each message goes to one of them, nothing fails, nothing is left; also when
# some of the transactions roll back.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $messages = 10000;
my $clients = 16;

# Runs pgbench until the queue has nothing left to take; returns how often it
# failed.
sub drain
{
	my ($node, $level, $script) = @_;
	my $failures = 0;

	local $ENV{PGOPTIONS} =
	  '-c default_transaction_isolation=' . $level =~ s/ /\\ /r;
	$node->safe_psql('postgres', 'SHOW transaction_isolation') eq $level
	  or die "not at $level";
	for my $round (1 .. 20)
	{
		my ($out, $err);

		my $ok = run_pgbench($node, $script, \$out, \$err);
		$failures++ unless $ok;
		$failures += $1
		  if $out =~ /number of failed transactions: (\d+)/;
		diag($err) if !$ok;
		last
		  if $node->safe_psql('postgres', q{SELECT count(*) FROM sqs_peek('drain', 1)}) eq '0';
	}
	return $failures;
}

sub run_pgbench
{
	my ($node, $script, $out, $err) = @_;
	my $file = $node->basedir . '/script.sql';

	unlink $file;
	append_to_file($file, $script);
	return IPC::Run::run(
		[
			'pgbench', '-n', '-c', $clients, '-j', 2, '-t', 60, '-f', $file,
			'-h', $node->host, '-p', $node->port, 'postgres'
		],
		'>', $out, '2>', $err);
}

my %scripts = (
	receive => q{
INSERT INTO got SELECT message_id FROM sqs_receive('drain', 10, 3600);
INSERT INTO got SELECT message_id FROM sqs_receive('drain', 1, 3600);
},
	consume => q{
INSERT INTO got SELECT message_id FROM sqs_consume('drain', 7);
INSERT INTO got SELECT message_id FROM sqs_consume('drain', 7);
},
	'receive, roll back some' => q{
\set end random(1, 4)
BEGIN;
INSERT INTO got SELECT message_id FROM sqs_receive('drain', 10, 3600);
SAVEPOINT s;
INSERT INTO got SELECT message_id FROM sqs_receive('drain', 5, 3600);
\if :end = 1
ROLLBACK TO s;
\endif
INSERT INTO got SELECT message_id FROM sqs_receive('drain', 5, 3600);
\if :end = 2
ROLLBACK;
\else
COMMIT;
\endif
});

for my $preload ('pg_sqs', '')
{
	my $node = PostgreSQL::Test::Cluster->new($preload ? 'preloaded' : 'unloaded');

	$node->init;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$preload'
max_connections = 50
pg_sqs.worker = off
});
	$node->start;
	$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE TABLE got (message_id uuid);
});
	for my $level ('read committed', 'repeatable read', 'serializable')
	{
		for my $kind (sort keys %scripts)
		{
			next if !$preload && $kind eq 'consume';
			my $name = $node->name . ", $level, $kind";

			$node->safe_psql('postgres', qq{
TRUNCATE got;
SELECT sqs_create_queue('drain');
SELECT count(*) FROM sqs_send_many('drain', ARRAY(SELECT 'm' || i FROM generate_series(1, $messages) i));
});
			is(drain($node, $level, $scripts{$kind}), 0, "$name: nothing failed");
			is( $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT message_id) FROM got'),
				"$messages|$messages",
				"$name: each message once");
			$node->safe_psql('postgres', "SELECT sqs_delete_queue('drain')");
		}
	}
	$node->stop;
}

done_testing();
