/*-------------------------------------------------------------------------
 *
 * tag.c
 *	  sqs_tag_queue, sqs_untag_queue and sqs_list_queue_tags.
 *
 * The tags of a queue are one JSON object of strings, in sqs.queue.tags.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

#define MAX_TAGS 50
#define MAX_TAG_KEY 128			/* characters */
#define MAX_TAG_VALUE 256
#define RESERVED_PREFIX "aws:"

PG_FUNCTION_INFO_V1(sqs_tag_queue);
PG_FUNCTION_INFO_V1(sqs_untag_queue);
PG_FUNCTION_INFO_V1(sqs_list_queue_tags);

/* Checks the key of a tag. */
static void
check_tag_key(const char *key)
{
	int			length = pg_mbstrlen(key);

	if (length < 1 || length > MAX_TAG_KEY)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Tag keys must be between 1 and %d characters in length.",
				  MAX_TAG_KEY);
}

/* Checks a tag to be set. */
static void
check_tag(const char *key, const char *value)
{
	check_tag_key(key);
	if (pg_strncasecmp(key, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value %s for parameter Key is invalid. Reason: The prefix aws: is reserved.",
				  key);
	if (value == NULL)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "The value of a tag is a JSON string, number or boolean.",
				  "Value for tag %s is invalid. Reason: Must be a string.",
				  key);
	if (pg_mbstrlen(value) > MAX_TAG_VALUE)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Tag values must be between 0 and %d characters in length.",
				  MAX_TAG_VALUE);
}

/* Refuses more tags than a queue can have. */
static void
check_tag_count(int n, const char *queue_name)
{
	if (n > MAX_TAGS)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  psprintf("A queue has at most %d tags.", MAX_TAGS),
				  "Too many tags added for queue %s.", queue_name);
}

/* Adds a string to a JSON object being built. */
static JsonbValue *
push_string(JsonbParseState **state, JsonbIteratorToken token, char *string)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = string;
	v.val.string.len = strlen(string);
	return pushJsonbValue(state, token, &v);
}

/* Reads tags: an object of strings; NULL = none. */
Jsonb *
tags_parse(Jsonb *input, const char *queue_name)
{
	JsonbParseState *state = NULL;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	if (input != NULL && !JB_ROOT_IS_OBJECT(input))
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "Give an object like {\"team\": \"billing\"}.",
				  "Value for parameter Tags is invalid. Reason: Must be a JSON object.");
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = input ? JsonbIteratorInit(&input->root) : NULL;
	while (it != NULL &&
		   (token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *key;
		char	   *value;

		if (token != WJB_KEY)
			continue;
		key = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		value = json_scalar(&v);
		check_tag(key, value);
		push_string(&state, WJB_KEY, key);
		push_string(&state, WJB_VALUE, value);
	}
	if (input != NULL)
		check_tag_count(JB_ROOT_COUNT(input), queue_name);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* sqs_tag_queue(queue_name, tags) */
Datum
sqs_tag_queue(PG_FUNCTION_ARGS)
{
	Queue		queue;
	Jsonb	   *tags = jsonb_argument(fcinfo, 1);
	const char *args[2];
	SqlResult	count;

	queue_get_to_change(fcinfo, "sqs_tag_queue()", &queue);
	if (tags == NULL || (JB_ROOT_IS_OBJECT(tags) && JB_ROOT_COUNT(tags) == 0))
		report_missing_parameter("Tags");
	tags = tags_parse(tags, queue.name);
	args[0] = psprintf("%d", queue.id);
	args[1] = JsonbToCString(NULL, &tags->root, VARSIZE(tags));
	count = sql_run(SQL_ROW,
					"UPDATE sqs.queue SET tags = tags || $2::jsonb"
					" WHERE " SQL_THE_QUEUE
					" RETURNING (SELECT count(*) FROM jsonb_object_keys(tags))",
					2, args);
	check_tag_count(pg_strtoint32(sql_value(&count, 0, 0)), queue.name);
	PG_RETURN_VOID();
}

/* sqs_untag_queue(queue_name, tag_keys) */
Datum
sqs_untag_queue(PG_FUNCTION_ARGS)
{
	Queue		queue;
	const char *args[2];
	Datum	   *keys;
	int			n;

	queue_get_to_change(fcinfo, "sqs_untag_queue()", &queue);
	keys = array_argument(fcinfo, 1, "TagKeys", &n);
	if (n == 0)
		check_tag_key("");
	for (int i = 0; i < n; i++)
		check_tag_key(string_element(keys[i]));
	args[0] = psprintf("%d", queue.id);
	args[1] = sql_array(construct_array(keys, n, TEXTOID, -1, false,
										TYPALIGN_INT));
	sql_run(SQL_ROW,
			"UPDATE sqs.queue SET tags = tags - $2::text[]"
			" WHERE " SQL_THE_QUEUE, 2, args);
	PG_RETURN_VOID();
}

/* sqs_list_queue_tags(queue_name) */
Datum
sqs_list_queue_tags(PG_FUNCTION_ARGS)
{
	Queue		queue;
	SqlResult	row;

	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_privilege(&queue, ACL_SELECT);
	row = sql_queue_row("SELECT tags FROM sqs.queue WHERE id = $1::int4",
						queue.id);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in,
										CStringGetDatum(sql_value(&row, 0, 0))));
}
