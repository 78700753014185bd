# A standby shows messages and takes none; promoted, it goes on where the
# primary was: nothing lost, handles good, timeouts still running.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
max_prepared_transactions = 10
pg_sqs.worker = off
});
$primary->start;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

$primary->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('q', '{"VisibilityTimeout": 600}');
SELECT sqs_send_many('q', '{m1,m2,m3,m4,m5}');
SELECT sqs_send('q', 'delayed', delay_seconds => 900);
});
my $handle = $primary->safe_psql('postgres', q{SELECT receipt_handle FROM sqs_receive('q')});
$primary->safe_psql('postgres', q{
BEGIN;
SELECT body FROM sqs_receive('q');
PREPARE TRANSACTION 'open';
});

# Runs something on the standby; returns the SQLSTATE.
sub state_of
{
	my ($sql) = @_;
	my ($code, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\n$sql");
	return $err =~ /ERROR:\s+(\w{5})/ ? $1 : 'no error';
}

$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT string_agg(body, ' ') FROM sqs_peek('q')}),
	'm3 m4 m5', 'the standby shows what can be received');
for my $call (
	q{sqs_send('q', 'x')}, q{sqs_send_many('q', '{x}')}, q{sqs_send_batch('q', '[]')},
	q{sqs_receive('q')}, q{sqs_receive('q', wait_time_seconds => 20)}, q{sqs_consume('q')},
	qq{sqs_delete('q', '$handle')}, qq{sqs_delete_many('q', '{}')}, q{sqs_delete_batch('q', '[]')},
	qq{sqs_change_visibility('q', '$handle', 0)}, q{sqs_change_visibility_many('q', '{}', 0)},
	q{sqs_change_visibility_batch('q', '[]')}, q{sqs_purge_queue('q')}, q{sqs_create_queue('n')},
	q{sqs_delete_queue('q')}, q{sqs_set_queue_attributes('q', '{"DelaySeconds": 1}')})
{
	is(state_of("SELECT $call"), '25006', $call =~ s/\(.*//r . ' is refused');
}
is($standby->safe_psql('postgres', q{SELECT sqs_get_queue_attributes('q') ->> 'VisibilityTimeout'}),
	'600', 'its attributes can be read');
is($standby->safe_psql('postgres', q{
SELECT approximate_number_of_messages_delayed FROM sqs_metrics WHERE queue_name = 'q'}),
	'1', 'its metrics can be read');

# what changes on the primary is seen, also by a session that has looked before
my $session = $standby->background_psql('postgres');
is($session->query(q{SELECT string_agg(body, ' ') FROM sqs_peek('q')}), 'm3 m4 m5', 'before');
$primary->safe_psql('postgres', q{
SELECT sqs_consume('q');
SELECT sqs_set_queue_attributes('q', '{"VisibilityTimeout": 700}');
SELECT sqs_create_queue('new');
SELECT sqs_send('new', 'n1');
});
$primary->wait_for_catchup($standby);
is($session->query(q{SELECT string_agg(body, ' ') FROM sqs_peek('q')}), 'm4 m5', 'after');
is($session->query(q{SELECT body FROM sqs_peek('new')}), 'n1', 'a new queue');
$session->quit;

# promotion
$primary->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', q{SELECT body FROM sqs_consume('q')}), 'm4', 'it consumes');
$standby->safe_psql('postgres', q{SELECT sqs_send('q', 'm6')});
is($standby->safe_psql('postgres', q{
SELECT string_agg(body || '/' || round(extract(epoch FROM visible_at - clock_timestamp())), ' ') FROM sqs_receive('q', 10)}),
	'm5/700 m6/700', 'and receives, with the attributes of last');
is($standby->safe_psql('postgres', qq{SELECT sqs_change_visibility('q', '$handle', 0) IS NOT NULL}), 't', 'a handle is good');
is($standby->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')}), 'm1', 'for its message');
$standby->safe_psql('postgres', q{ROLLBACK PREPARED 'open'});
$standby->poll_query_until('postgres', q{SELECT (SELECT body FROM sqs_receive('q')) = 'm2'})
  or die 'what a prepared transaction had taken is not back';
pass('what a prepared transaction had taken is back');
is($standby->safe_psql('postgres', qq{SELECT sqs_delete('q', '$handle')}), 't', 'and deletes it');
$standby->stop;

done_testing();
