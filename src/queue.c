/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  sqs_create_queue, sqs_delete_queue and sqs_list_queues.
 *
 * Queue N is a row of sqs.queue and the table sqs.queue_N.  The caller makes
 * the table, so it is the caller's: native privileges, pg_dump and DROP TABLE
 * work on it as on any other.  A queue whose table somebody dropped does not
 * exist; what is left of it goes when its name is created or deleted.
 *
 * Whoever creates, deletes or changes a queue holds queue_lock on its name to
 * the end of the transaction, so that two who create the same one get in each
 * other's way neither in sqs.queue nor in the schema.  Nothing on the path of
 * a message takes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "compat.h"
#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(sqs_create_queue);
PG_FUNCTION_INFO_V1(sqs_delete_queue);
PG_FUNCTION_INFO_V1(sqs_list_queues);

/*
 * Storage parameters of a queue's table.
 *
 * Every receive moves its row to a new version, but on the way through a page
 * one is taken after the other and the old versions are pruned as they die: a
 * reserve of some rows keeps new versions on their page.  A queue has as many
 * dead rows as it had messages, whatever its length, so vacuum goes by an
 * absolute number, and without pauses, for the queue does not pause either.
 * Rows that only wait need no vacuum.  No plan depends on statistics.
 */
#define TABLE_OPTIONS \
	"fillfactor = 80," \
	" autovacuum_vacuum_scale_factor = 0," \
	" autovacuum_vacuum_threshold = 5000," \
	" autovacuum_vacuum_insert_threshold = -1," \
	" autovacuum_vacuum_cost_delay = 0," \
	" autovacuum_analyze_threshold = 10000," \
	" toast.autovacuum_vacuum_scale_factor = 0," \
	" toast.autovacuum_vacuum_threshold = 5000," \
	" toast.autovacuum_vacuum_insert_threshold = -1," \
	" toast.autovacuum_vacuum_cost_delay = 0"

/* Whether a name can be that of a queue of this type. */
bool
queue_name_is_valid(const char *name, bool fifo)
{
	size_t		length = strlen(name);
	size_t		suffix = fifo ? strlen(SQS_FIFO_SUFFIX) : 0;

	return length > suffix && length <= SQS_MAX_NAME &&
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			   "0123456789_-") == length - suffix &&
		(!fifo || strcmp(name + length - suffix, SQS_FIFO_SUFFIX) == 0);
}

/* Refuses a name that no queue of this type can have. */
static void
check_queue_name(const char *name, bool fifo)
{
	size_t		length = strlen(name);
	size_t		suffix = strlen(SQS_FIFO_SUFFIX);
	const char *hint = NULL;

	if (queue_name_is_valid(name, fifo))
		return;
	if (fifo)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length");
	if (length > suffix && strcmp(name + length - suffix, SQS_FIFO_SUFFIX) == 0)
		hint = "The suffix .fifo is that of FIFO queues, with the attribute FifoQueue = true; this version of pg_sqs has none.";
	sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, hint,
			  "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length");
}

/*
 * Locks the name of a queue to the end of the transaction, whether there is
 * such a queue or not.  Afterwards what is remembered of it is current.
 */
void
queue_lock(const char *name)
{
	uint32		key = DatumGetUInt32(hash_any((const unsigned char *) name,
											  strlen(name)));

	LockDatabaseObject(catalog_relation("queue"), key, 0, ExclusiveLock);
}

/* Finds the queue of argument 0 to change it, which its owner may; locks it. */
void
queue_get_to_change(FunctionCallInfo fcinfo, const char *call, Queue *queue)
{
	text	   *name = text_argument(fcinfo, 0);

	PreventCommandIfReadOnly(call);
	catalog_get(name, queue);
	check_queue_owner(queue);
	queue_lock(queue->name);
	catalog_get(name, queue);
	check_queue_owner(queue);
}

/* The one place that stands in the way of FIFO queues. */
static void
refuse_fifo(bool fifo)
{
	if (fifo)
		sqs_error(ERRCODE_SQS_UNSUPPORTED_OPERATION,
				  "Create a standard queue: leave out FifoQueue and the suffix .fifo.",
				  "FIFO queues are not supported by this version of pg_sqs.");
}

/* The number of the queue whose row has this name; 0 = none. */
static int32
find_row(const char *name)
{
	SqlResult	row = sql_run(SQL_ROW,
							  "SELECT id FROM sqs.queue WHERE name = $1",
							  1, &name);

	return row.rows > 0 ? pg_strtoint32(sql_value(&row, 0, 0)) : 0;
}

/* Removes what the catalog has of a queue. */
static void
remove_row(int32 id)
{
	const char *arg = psprintf("%d", id);

	sql_run(SQL_ROW, "DELETE FROM sqs.permission WHERE queue_id = $1::int4",
			1, &arg);
	sql_run(SQL_ROW, "DELETE FROM sqs.queue WHERE id = $1::int4", 1, &arg);
}

/* Refuses a name that a queue had a moment ago. */
static void
check_deleted_lately(const char *name)
{
	const char *args[2];

	if (sqs_cooldown == 0)
		return;
	args[0] = name;
	args[1] = psprintf("%d", sqs_cooldown);
	if (sql_run(SQL_ROW,
				"SELECT FROM sqs.deleted_queue WHERE name = $1"
				" AND deleted_at > clock_timestamp() - make_interval(secs => $2::float8)",
				2, args).rows > 0)
		sqs_error(ERRCODE_SQS_QUEUE_DELETED_RECENTLY,
				  "Setting pg_sqs.cooldown is this time in seconds; 0 turns it off.",
				  "You must wait %d seconds after deleting a queue before you can create another with the same name.",
				  sqs_cooldown);
}

/* Remembers that a queue of this name was deleted, and forgets older ones. */
static void
note_deleted(const char *name)
{
	const char *args[2];

	if (sqs_cooldown == 0)
		return;
	args[0] = psprintf("%d", sqs_cooldown);
	args[1] = name;
	/* never waits for another session that does the same */
	if (!IsolationUsesXactSnapshot())
		sql_run(SQL_ROW,
				"DELETE FROM sqs.deleted_queue WHERE ctid = ANY (ARRAY("
				"SELECT ctid FROM sqs.deleted_queue"
				" WHERE deleted_at < clock_timestamp() - make_interval(secs => $1::float8)"
				" FOR UPDATE SKIP LOCKED))", 1, args);
	sql_run(SQL_ROW, "INSERT INTO sqs.deleted_queue (name) VALUES ($1)", 1, args + 1);
}

/* Whether the name of any relation of queue N is taken. */
static bool
is_number_taken(int32 id)
{
	static const char *const suffixes[] = {"", "_seq", "_pkey", "_due"};

	for (int i = 0; i < lengthof(suffixes); i++)
		if (OidIsValid(catalog_relation(psprintf("queue_%d%s", id, suffixes[i]))))
			return true;
	return false;
}

/* Makes the row of a queue, of the next number that is free. */
static int32
insert_row(const char *name, bool fifo, Jsonb *tags)
{
	const char *args[3];
	SqlResult	row;
	int32		id;

	do
	{
		row = sql_run(SQL_ROW, "SELECT nextval('sqs.queue_id_seq')", 0, NULL);
		id = pg_strtoint32(sql_value(&row, 0, 0));
	} while (is_number_taken(id));
	args[0] = psprintf("%d", id);
	args[1] = name;
	args[2] = JsonbToCString(NULL, &tags->root, VARSIZE(tags));
	sql_run(SQL_ROW,
			psprintf("INSERT INTO sqs.queue (id, name, fifo, tags)"
					 " VALUES ($1::int4, $2, %s, $3::jsonb)",
					 fifo ? "true" : "false"), 3, args);
	return id;
}

/*
 * The commands that make the table of queue N.  What a receive changes stands
 * together, since the WAL of an update has all from the first change to the
 * last; last_received_at is NULL where first_received_at says the same.
 */
static char *
table_commands(int32 id, const char *name, bool unlogged)
{
	const char *kind = unlogged ? "UNLOGGED " : "";
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE %sSEQUENCE sqs.queue_%d_seq AS bigint;",
					 kind, id);
	appendStringInfo(&sql,
					 "CREATE %sTABLE sqs.queue_%d ("
					 "id bigint NOT NULL DEFAULT nextval('sqs.queue_%d_seq'),"
					 "sent_at timestamptz NOT NULL,"
					 "message_id uuid NOT NULL,"
					 "visible_at timestamptz NOT NULL,"
					 "receive_count integer NOT NULL,"
					 "visibility_timeout integer,"
					 "enqueued_at timestamptz,"
					 "first_received_at timestamptz,"
					 "last_received_at timestamptz,"
					 "sender_id text COLLATE \"C\","
					 "message_group_id text COLLATE \"C\","
					 "message_deduplication_id text COLLATE \"C\","
					 "aws_trace_header text COLLATE \"C\","
					 "dead_letter_queue_source text COLLATE \"C\","
					 "body text COLLATE \"C\" NOT NULL,"
					 "message_attributes jsonb,"
					 "CONSTRAINT queue_%d_pkey PRIMARY KEY (id) WITH (deduplicate_items = off))"
					 " USING heap WITH (" TABLE_OPTIONS ");",
					 kind, id, id, id);
	/* no two entries are equal, so there is nothing to deduplicate */
	appendStringInfo(&sql,
					 "CREATE INDEX queue_%d_due ON sqs.queue_%d"
					 " (visible_at, id) WITH (deduplicate_items = off);",
					 id, id);
	appendStringInfo(&sql,
					 "ALTER SEQUENCE sqs.queue_%d_seq OWNED BY sqs.queue_%d.id;",
					 id, id);
	appendStringInfo(&sql, "COMMENT ON TABLE sqs.queue_%d IS %s", id,
					 quote_literal_cstr(psprintf("messages of queue %s", name)));
	return sql.data;
}

/* Makes the table of queue N, which belongs to no extension. */
static void
create_table(int32 id, const char *name, bool unlogged)
{
	bool		in_extension = creating_extension;

	creating_extension = false;
	PG_TRY();
	{
		sql_run(SQL_DDL, table_commands(id, name, unlogged), 0, NULL);
	}
	PG_FINALLY();
	{
		creating_extension = in_extension;
	}
	PG_END_TRY();
	/* an earlier table may have had the same OID */
	shmem_drop(catalog_queue_table(id));
}

/* Raises an error if a queue that exists differs from what is asked for. */
static void
confirm_queue(int32 id, const AttributeSet *set)
{
	AttributeSet current;
	int			differs;

	attributes_load(id, &current);
	differs = attributes_compare(set, &current);
	if (differs >= 0)
		sqs_error(ERRCODE_SQS_QUEUE_ALREADY_EXISTS,
				  attribute_table[differs].use == USE_CREATE ?
				  "This attribute can be given only when the queue is created." :
				  "Use sqs_set_queue_attributes() to change the attributes of a queue.",
				  "A queue already exists with the same name and a different value for attribute %s",
				  attribute_table[differs].name);
}

/* Makes a queue whose name is free. */
static void
create_queue(const char *name, bool fifo, AttributeSet *set, Jsonb *tags)
{
	static const AttributeSet none;
	const char *unlogged = set->columns[ATTRIBUTE_UNLOGGED][0];
	int32		id;

	check_deleted_lately(name);
	attributes_check(set, &none, name, fifo);
	refuse_fifo(fifo);
	id = insert_row(name, fifo, tags);
	attributes_store(id, set);
	create_table(id, name, unlogged != NULL && strcmp(unlogged, "true") == 0);
}

/* sqs_create_queue(queue_name, attributes, tags) */
Datum
sqs_create_queue(PG_FUNCTION_ARGS)
{
	char	   *name = string_argument(fcinfo, 0);
	Jsonb	   *attributes = jsonb_argument(fcinfo, 1);
	Jsonb	   *tags = jsonb_argument(fcinfo, 2);
	bool		fifo = attributes_want_fifo(attributes);
	AttributeSet set;
	int32		id;

	PreventCommandIfReadOnly("sqs_create_queue()");
	if (name == NULL)
		report_missing_parameter("QueueName");
	check_create_privilege();
	check_queue_name(name, fifo);
	attributes_parse(attributes, true, fifo, &set);
	tags = tags_parse(tags, name);

	queue_lock(name);
	id = find_row(name);
	if (id != 0 && OidIsValid(catalog_queue_table(id)))
		confirm_queue(id, &set);
	else
	{
		if (id != 0)
			remove_row(id);
		create_queue(name, fifo, &set, tags);
	}
	PG_RETURN_DATUM(CStringGetTextDatum(name));
}

/* Drops the table of a queue, which its owner may. */
static void
drop_table(const char *name, int32 id)
{
	Queue		queue = {0};

	queue.relid = catalog_queue_table(id);
	if (!OidIsValid(queue.relid))
		return;
	strlcpy(queue.name, name, sizeof(queue.name));
	check_queue_owner(&queue);
	sql_run(SQL_DDL, psprintf("DROP TABLE sqs.queue_%d", id), 0, NULL);
}

/* sqs_delete_queue(queue_name) */
Datum
sqs_delete_queue(PG_FUNCTION_ARGS)
{
	char	   *name = string_argument(fcinfo, 0);
	int32		id;

	PreventCommandIfReadOnly("sqs_delete_queue()");
	if (name == NULL)
		report_missing_parameter("QueueName");
	if (strlen(name) > SQS_MAX_NAME)
		report_missing_queue(name);
	queue_lock(name);
	id = find_row(name);
	if (id == 0)
		report_missing_queue(name);
	drop_table(name, id);
	remove_row(id);
	note_deleted(name);
	PG_RETURN_VOID();
}

/* sqs_list_queues(queue_name_prefix) */
Datum
sqs_list_queues(PG_FUNCTION_ARGS)
{
	result_names(fcinfo, catalog_names(string_argument(fcinfo, 0), NULL));
	PG_RETURN_NULL();
}
