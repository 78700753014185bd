/*-------------------------------------------------------------------------
 *
 * attribute_store.c
 *	  sqs_get_queue_attributes and sqs_set_queue_attributes.
 *
 * Attributes are columns of sqs.queue; attribute.c says which.  Those that
 * are not stored are made here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(sqs_get_queue_attributes);
PG_FUNCTION_INFO_V1(sqs_set_queue_attributes);

/* "true" for an unlogged table. */
static char *
unlogged_text(int32 queue_id)
{
	Oid			relid = catalog_queue_table(queue_id);
	bool		unlogged = OidIsValid(relid) &&
		get_rel_persistence(relid) == RELPERSISTENCE_UNLOGGED;

	return unlogged ? "true" : "false";
}

/* Reads all attributes of a queue that are stored. */
void
attributes_load(int32 queue_id, AttributeSet *current)
{
	StringInfoData select;
	SqlResult	row;
	int			column = 0;

	initStringInfo(&select);
	appendStringInfoString(&select, "SELECT ");
	for (int i = 0; i < ATTRIBUTES; i++)
		for (int c = 0; c < ATTRIBUTE_COLUMNS; c++)
			if (attribute_table[i].columns[c].name != NULL)
				appendStringInfo(&select, "(%s)::text, ",
								 attribute_table[i].columns[c].name);
	appendStringInfoString(&select, "id FROM sqs.queue WHERE id = $1::int4");
	row = sql_queue_row(select.data, queue_id);
	memset(current, 0, sizeof(*current));
	for (int i = 0; i < ATTRIBUTES; i++)
		for (int c = 0; c < ATTRIBUTE_COLUMNS; c++)
			if (attribute_table[i].columns[c].name != NULL)
				current->columns[i][c] = sql_value(&row, 0, column++);
	current->columns[ATTRIBUTE_UNLOGGED][0] = unlogged_text(queue_id);
}

/* Writes the attributes that are given; the caller holds queue_lock. */
void
attributes_store(int32 queue_id, const AttributeSet *set)
{
	const char *args[SQL_MAX_ARGS];
	StringInfoData update;
	int			n = 1;

	args[0] = psprintf("%d", queue_id);
	initStringInfo(&update);
	for (int i = 0; i < ATTRIBUTES; i++)
		for (int c = 0; set->given[i] && c < ATTRIBUTE_COLUMNS; c++)
			if (attribute_table[i].columns[c].type != NULL)
			{
				args[n++] = set->columns[i][c];
				appendStringInfo(&update, "%s %s = $%d::%s",
								 n > 2 ? "," : "",
								 attribute_table[i].columns[c].name, n,
								 attribute_table[i].columns[c].type);
			}
	if (n > 1)
		sql_run(SQL_ROW,
				psprintf("UPDATE sqs.queue SET%s WHERE " SQL_THE_QUEUE,
						 update.data), n, args);
}

/* Sets LastModifiedTimestamp; the caller holds queue_lock. */
void
queue_modified(int32 queue_id)
{
	const char *id = psprintf("%d", queue_id);

	sql_run(SQL_ROW,
			"UPDATE sqs.queue SET modified_at = clock_timestamp()"
			" WHERE " SQL_THE_QUEUE, 1, &id);
}

/* Which attributes a call asks for; without an array, all. */
static void
parse_names(FunctionCallInfo fcinfo, int arg, bool *wanted)
{
	Datum	   *names;
	int			n;

	memset(wanted, PG_ARGISNULL(arg), sizeof(bool) * ATTRIBUTES);
	if (PG_ARGISNULL(arg))
		return;
	names = array_argument(fcinfo, arg, "AttributeNames", &n);
	for (int i = 0; i < n; i++)
	{
		char	   *name = string_element(names[i]);
		int			id = attribute_find(name);

		if (strcmp(name, "All") == 0)
			memset(wanted, true, sizeof(bool) * ATTRIBUTES);
		else if (id >= 0)
			wanted[id] = true;
		else
			report_no_attribute(name);
	}
}

/* Whether any of the message counts is asked for. */
static bool
wants_counts(const bool *wanted)
{
	for (int i = 0; i < ATTRIBUTES; i++)
		if (wanted[i] && attribute_table[i].kind == KIND_COUNT)
			return true;
	return false;
}

/* An attribute as it is shown; NULL = not at all. */
static const char *
show_attribute(AttributeId i, AttributeSet *current, const Queue *queue)
{
	const Attribute *a = &attribute_table[i];
	char	  **columns = current->columns[i];

	if (a->fifo && !queue->fifo)
		return NULL;
	if (i == ATTRIBUTE_KMS_DATA_KEY_REUSE_PERIOD_SECONDS &&
		current->columns[ATTRIBUTE_KMS_MASTER_KEY_ID][0] == NULL)
		return NULL;
	switch (a->kind)
	{
		case KIND_REDRIVE_POLICY:
			return redrive_policy_text(columns);
		case KIND_REDRIVE_ALLOW_POLICY:
			return redrive_allow_policy_text(columns);
		case KIND_STORAGE:
			return strcmp(columns[0], "true") == 0 ? "true" : NULL;
		case KIND_ARN:
			return queue_arn(queue->name);
		default:
			return columns[0];
	}
}

/* Adds a member to a JSON object. */
static void
push_member(JsonbParseState **state, const char *name, const char *text)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, name);
	v.val.string.len = strlen(name);
	pushJsonbValue(state, WJB_KEY, &v);
	v.val.string.val = unconstify(char *, text);
	v.val.string.len = strlen(text);
	pushJsonbValue(state, WJB_VALUE, &v);
}

/* sqs_get_queue_attributes(queue_name, attribute_names) */
Datum
sqs_get_queue_attributes(PG_FUNCTION_ARGS)
{
	Queue		queue;
	bool		wanted[ATTRIBUTES];
	AttributeSet current;
	JsonbParseState *state = NULL;

	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_privilege(&queue, ACL_SELECT);
	parse_names(fcinfo, 1, wanted);
	attributes_load(queue.id, &current);
	if (wants_counts(wanted))
	{
		int64		gauges[METRIC_COUNT];

		check_message_privilege(&queue, ACL_SELECT);
		metrics_gauges(&queue, gauges);
		for (int i = 0; i < 3; i++)
			current.columns[ATTRIBUTE_APPROXIMATE_NUMBER_OF_MESSAGES + i][0] =
				psprintf(INT64_FORMAT, gauges[METRIC_FIRST_GAUGE + i]);
	}
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < ATTRIBUTES; i++)
	{
		const char *text = wanted[i] ? show_attribute(i, &current, &queue) : NULL;

		if (text != NULL)
			push_member(&state, attribute_table[i].name, text);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT,
													   NULL)));
}

/* sqs_set_queue_attributes(queue_name, attributes) */
Datum
sqs_set_queue_attributes(PG_FUNCTION_ARGS)
{
	Queue		queue;
	Jsonb	   *input = jsonb_argument(fcinfo, 1);
	AttributeSet set;
	AttributeSet current;

	queue_get_to_change(fcinfo, "sqs_set_queue_attributes()", &queue);
	if (input == NULL || (JB_ROOT_IS_OBJECT(input) && JB_ROOT_COUNT(input) == 0))
		report_missing_parameter("Attributes");
	attributes_parse(input, false, queue.fifo, &set);
	attributes_load(queue.id, &current);
	attributes_check(&set, &current, queue.name, queue.fifo);
	attributes_store(queue.id, &set);
	queue_modified(queue.id);
	PG_RETURN_VOID();
}
