# pg_dump and pg_restore bring a database's queues back: attributes, tags,
# policies, permissions and messages, with the right to go on using them; in
# the same cluster, in another one, and where the roles do not exist.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

$node->safe_psql('postgres', q{
CREATE ROLE seller;
CREATE ROLE reader;
CREATE ROLE "odd ""name";
CREATE DATABASE shop;
});
$node->safe_psql('shop', q{
CREATE EXTENSION pg_sqs;
GRANT CREATE ON SCHEMA sqs TO seller;
SET ROLE seller;

SELECT sqs_create_queue('orders-dlq', '{"RedriveAllowPolicy": {"redrivePermission": "byQueue", "sourceQueueArns": ["orders"]}}', '{"kind": "dlq"}');
SELECT sqs_create_queue('orders', '{"VisibilityTimeout": 43200, "DelaySeconds": 7, "MaximumMessageSize": 2048,
	"RedrivePolicy": {"deadLetterTargetArn": "orders-dlq", "maxReceiveCount": 1},
	"Policy": "{ \"Version\": \"2012-10-17\" }", "KmsMasterKeyId": "größe"}', '{"team": "a''b\"c", "größe": ""}');
SELECT sqs_create_queue('fast', '{"Unlogged": true}');
SELECT sqs_create_queue('deleted');
SELECT sqs_delete_queue('deleted');

SELECT sqs_add_permission('orders', 'consumers', '{reader,"odd \"name"}', '{ReceiveMessage,DeleteMessage}');
SELECT sqs_add_permission('orders', 'anyone', '{public}', '{SendMessage}');

SELECT sqs_send('orders', 'moved', 0, visibility_timeout => 0);
SELECT FROM sqs_receive('orders');
SELECT FROM sqs_receive('orders');
SELECT sqs_send('orders', 'in flight', 0, '{"n": 5, "s": "größe"}', aws_trace_header => 'Root=1-5759e988-bd862e3fe1be46a994272793');
CREATE TEMP TABLE taken AS SELECT receipt_handle FROM sqs_receive('orders');
SELECT sqs_send('orders', 'visible', 0, message_group_id => 'g');
SELECT sqs_send('orders', 'delayed', 900);
SELECT sqs_send('fast', 'quick');
RESET ROLE;
CREATE TABLE handle AS SELECT * FROM taken;
GRANT SELECT ON handle TO PUBLIC;
});

# All there is to know of the queues but what differs with region and account.
my $describe = q{
SELECT q, sqs_get_queue_attributes(q) - '{QueueArn,RedrivePolicy,RedriveAllowPolicy}'::text[],
	sqs_list_queue_tags(q) FROM sqs_list_queues() q;
SELECT name, dead_letter_queue, max_receive_count, redrive_permission, redrive_source_queues FROM sqs.queue ORDER BY 1;
SELECT q, p.* FROM sqs_list_queues() q, sqs_list_permissions(q) p;
SELECT q.name, d.* FROM sqs_list_queues() d, sqs.queue q, sqs_list_dead_letter_source_queues(q.name) s WHERE s = d;
SELECT q.name, c.relname, c.relpersistence, pg_get_userbyid(c.relowner),
	(SELECT array_agg(a ORDER BY a::text COLLATE "C") FROM unnest(c.relacl) a),
	c.reloptions, obj_description(c.oid), pg_get_serial_sequence(c.oid::regclass::text, 'id'),
	(SELECT array_agg(pg_get_indexdef(indexrelid) ORDER BY 1) FROM pg_index WHERE indrelid = c.oid)
	FROM sqs.queue q JOIN pg_class c ON c.oid = to_regclass('sqs.queue_' || q.id) ORDER BY 1;
SELECT * FROM sqs.queue_1 ORDER BY id;
SELECT * FROM sqs.queue_2 ORDER BY id;
SELECT * FROM sqs.queue_3 ORDER BY id;
SELECT last_value, is_called FROM sqs.queue_2_seq;
SELECT last_value, is_called FROM sqs.queue_id_seq;
SELECT nspname, pg_get_userbyid(nspowner), nspacl FROM pg_namespace WHERE nspname = 'sqs';
};
my $expected = $node->safe_psql('shop', $describe);
like($expected, qr/in flight/, 'there is something to dump');
is( $node->safe_psql('shop',
		"SELECT sqs_get_queue_attributes('orders', '{ApproximateNumberOfMessages,ApproximateNumberOfMessagesNotVisible,ApproximateNumberOfMessagesDelayed}')"
	),
	'{"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesDelayed": "1", "ApproximateNumberOfMessagesNotVisible": "1"}',
	'one message of each kind');

my $dump = $PostgreSQL::Test::Utils::tmp_check . '/shop.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('shop') ],
	'pg_dump');

# The queues of a restored database are the same, and go on working.
sub check_restored
{
	my ($in, $database, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($in->safe_psql($database, $describe), $expected, "$name: the same");
	is( $in->safe_psql($database, q{
SET ROLE reader;
SELECT (sqs_send('orders', 'new', 0)).message_id IS NOT NULL;
SELECT sqs_delete('orders', receipt_handle) FROM handle;
SELECT body FROM sqs_receive('orders', 10) ORDER BY body COLLATE "C";
}),
		"t\nt\nnew\nvisible", "$name: a role sends, deletes and receives");
	is( $in->safe_psql($database, q{
SET ROLE seller;
SELECT body, dead_letter_queue_source FROM sqs_receive('orders-dlq');
SELECT sqs_remove_permission('orders', 'consumers');
SELECT label, role, action FROM sqs_list_permissions('orders');
SELECT sqs_create_queue('next');
SELECT count(*) FROM sqs_receive('next');
SELECT sqs_delete_queue('orders');
SELECT * FROM sqs_list_queues();
}),
		"moved|orders\n\nanyone|public|SendMessage\nnext\n0\n\nfast\nnext\norders-dlq",
		"$name: the owner manages them");
}

$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok(
	[ 'pg_restore', '-1', '-d', $node->connstr('copy'), $dump ],
	'pg_restore in one transaction');
check_restored($node, 'copy', 'same cluster');

# As a script, too: rows come by COPY or by INSERT.
for my $how ('--column-inserts', '--rows-per-insert=100')
{
	my $script = $PostgreSQL::Test::Utils::tmp_check . '/shop.sql';
	$node->command_ok(
		[ 'pg_dump', $how, '-f', $script, $node->connstr('shop') ],
		"pg_dump $how");
	$node->safe_psql('postgres', 'CREATE DATABASE script');
	$node->command_ok(
		[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $script, $node->connstr('script') ],
		'psql');
	is($node->safe_psql('script', $describe), $expected, "$how: the same");
	$node->safe_psql('postgres', 'DROP DATABASE script');
}

# Another cluster: the same roles have other OIDs, one of another role's.
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->append_conf('postgresql.conf', q{
pg_sqs.region = 'eu-west-1'
pg_sqs.account_id = '123456789012'
});
$other->start;
$other->safe_psql('postgres', q{
CREATE ROLE nobody;
CREATE ROLE "odd ""name";
CREATE ROLE reader;
CREATE ROLE seller;
CREATE DATABASE shop;
CREATE DATABASE bare;
});
$other->command_ok(
	[ 'pg_restore', '-1', '-d', $other->connstr('shop'), $dump ],
	'pg_restore in another cluster');
is( $other->safe_psql('shop', q{
LOAD 'pg_sqs';
SELECT sqs_get_queue_attributes('orders', '{QueueArn}')->>'QueueArn';
SELECT sqs_get_queue_attributes('orders', '{RedrivePolicy}')->>'RedrivePolicy';
SELECT sqs_get_queue_attributes('orders-dlq', '{RedriveAllowPolicy}')->>'RedriveAllowPolicy';
}),
	'arn:aws:sqs:eu-west-1:123456789012:orders
{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:123456789012:orders-dlq","maxReceiveCount":1}
{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:eu-west-1:123456789012:orders"]}',
	'ARNs are those of the other cluster');
check_restored($other, 'shop', 'other cluster');

# Without the roles there are the queues, and no permissions.
$other->safe_psql('postgres', q{
DROP DATABASE shop;
DROP ROLE nobody, "odd ""name", reader, seller;
});
$other->command_ok(
	[ 'pg_restore', '-1', '--no-owner', '--no-privileges', '-d', $other->connstr('bare'), $dump ],
	'pg_restore without the roles');
is( $other->safe_psql('bare', q{
SELECT * FROM sqs_list_permissions('orders');
SELECT body FROM sqs_receive('orders', 10);
SELECT sqs_add_permission('orders', 'consumers', '{public}', '{*}');
SELECT * FROM sqs_list_permissions('orders');
}),
	"visible\n\nconsumers|public|*",
	'no permission of a role that is not there');

$other->stop;
$node->stop;
done_testing();
