/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Policies that are JSON: Policy, RedrivePolicy, RedriveAllowPolicy.
 *
 * Queues are stored by their plain names, so that a dump can be restored
 * under another region or account; ARNs are made when a policy is shown.
 *
 * A RedrivePolicy is checked when it is set: that its target exists, takes
 * messages of this queue (RedriveAllowPolicy) and of the one who sets it.
 * What happens to the target later does not undo it; a policy whose target is
 * gone has no effect.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"

#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

#define MAX_POLICY_BYTES 8192
#define MAX_RECEIVE_COUNT 1000
#define MAX_SOURCE_QUEUES 10

typedef enum TargetForm
{
	TARGET_OURS,				/* a name, or an ARN of this database */
	TARGET_MALFORMED,
	TARGET_FOREIGN_ACCOUNT,
	TARGET_FOREIGN_REGION
} TargetForm;

PG_FUNCTION_INFO_V1(sqs_list_dead_letter_source_queues);

/* The ARN of a queue. */
char *
queue_arn(const char *name)
{
	return psprintf("arn:aws:sqs:%s:%s:%s", sqs_region, sqs_account_id, name);
}

/* Reads JSON text that must be an object; NULL where it is not. */
static Jsonb *
parse_object(const char *input)
{
	Jsonb	   *object = json_parse(input);

	return object != NULL && JB_ROOT_IS_OBJECT(object) ? object : NULL;
}

/* Whether an object has members beside those of these names. */
static bool
has_other_members(Jsonb *object, const char *one, const char *other)
{
	JsonbIterator *it = JsonbIteratorInit(&object->root);
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char	   *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		if (strcmp(name, one) != 0 && strcmp(name, other) != 0)
			return true;
	}
	return false;
}

/* Whether a name has the form of a queue's. */
static bool
is_queue_name(const char *name)
{
	return queue_name_is_valid(name, false) || queue_name_is_valid(name, true);
}

/* Finds the queue that a name or an ARN names: arn:partition:sqs:region:account:name. */
static TargetForm
parse_target(const char *arn, char **name)
{
	char	   *copy = pstrdup(arn);
	char	   *part[6];
	char	   *rest = copy;

	if (strchr(arn, ':') == NULL)
	{
		*name = copy;
		return is_queue_name(copy) ? TARGET_OURS : TARGET_MALFORMED;
	}
	for (int i = 0; i < 6; i++)
	{
		part[i] = strsep(&rest, ":");
		if (part[i] == NULL || *part[i] == '\0')
			return TARGET_MALFORMED;
	}
	if (rest != NULL || strcmp(part[0], "arn") != 0 ||
		strcmp(part[2], "sqs") != 0 || !is_queue_name(part[5]))
		return TARGET_MALFORMED;
	*name = part[5];
	if (strcmp(part[4], sqs_account_id) != 0)
		return TARGET_FOREIGN_ACCOUNT;
	if (strcmp(part[3], sqs_region) != 0)
		return TARGET_FOREIGN_REGION;
	return TARGET_OURS;
}

/* Raises the error for a RedrivePolicy that is JSON but cannot be. */
pg_noreturn static void
report_redrive_policy(const char *input, const char *hint, const char *reason)
{
	sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, hint,
			  "Value %s for parameter RedrivePolicy is invalid. Reason: %s",
			  excerpt(input, strlen(input)), reason);
}

/* Raises the error for a target that is not a queue of this database. */
pg_noreturn static void
report_target(const char *input, TargetForm form)
{
	const char *hint = psprintf("Give the name of a queue, or an ARN like \"%s\".",
								queue_arn("name"));

	if (form == TARGET_MALFORMED)
		report_redrive_policy(input, hint,
							  "Dead-letter target ARN should be fully qualified ARN.");
	if (form == TARGET_FOREIGN_ACCOUNT)
		report_redrive_policy(input, hint,
							  "Dead-letter target owner should be same as the source.");
	report_redrive_policy(input, hint, "Dead letter target does not exist.");
}

/* Reads deadLetterTargetArn. */
static char *
parse_dead_letter_target(const char *input, const JsonbValue *value)
{
	char	   *arn = value->type == jbvString ? json_scalar(value) : NULL;
	char	   *name = NULL;
	TargetForm	form = arn ? parse_target(arn, &name) : TARGET_MALFORMED;

	if (form != TARGET_OURS)
		report_target(input, form);
	return name;
}

/* Reads maxReceiveCount. */
static char *
parse_max_receive_count(const char *input, const JsonbValue *value)
{
	char	   *text = json_text(value);
	int32		count;

	if (parse_integer(text, &count) && count >= 1 && count <= MAX_RECEIVE_COUNT)
		return psprintf("%d", count);
	report_redrive_policy(input, NULL,
						  psprintf("Invalid value for maxReceiveCount: %s, valid values are from 1 to %d both inclusive.",
								   text, MAX_RECEIVE_COUNT));
}

/* Reads a RedrivePolicy into the columns that hold it; "" = none. */
void
redrive_policy_parse(const char *input, char **columns)
{
	static const char *const names[] = {"maxReceiveCount", "deadLetterTargetArn"};
	Jsonb	   *policy;
	JsonbValue	values[2];

	if (*input == '\0')
		return;
	policy = parse_object(input);
	if (policy == NULL)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "Give an object like {\"deadLetterTargetArn\": \"name\", \"maxReceiveCount\": 5}.",
				  "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.");
	for (int i = 0; i < 2; i++)
		if (json_member(policy, names[i], &values[i]) == NULL)
			report_redrive_policy(input, NULL,
								  psprintf("Redrive policy does not contain mandatory attribute: %s.",
										   names[i]));
	if (has_other_members(policy, names[0], names[1]))
		report_redrive_policy(input, NULL,
							  "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].");
	columns[1] = parse_max_receive_count(input, &values[0]);
	columns[0] = parse_dead_letter_target(input, &values[1]);
}

/* Whether the RedriveAllowPolicy of a queue lets another one use it. */
static bool
target_allows(const Queue *target, const char *source)
{
	const char *args[2];

	args[0] = psprintf("%d", target->id);
	args[1] = source;
	return sql_run(SQL_ROW,
				   "SELECT FROM sqs.queue WHERE id = $1::int4"
				   " AND (redrive_permission = 'denyAll'"
				   " OR redrive_permission = 'byQueue'"
				   " AND $2 <> ALL (redrive_source_queues))",
				   2, args).rows == 0;
}

/* Checks that the target of a RedrivePolicy can be one for this queue. */
void
redrive_policy_check(const char *input, char *const *columns,
					 const char *queue_name, bool fifo)
{
	Queue		target;

	if (columns[0] == NULL)
		return;
	if (!catalog_find(columns[0], &target))
		report_redrive_policy(input, "Create the dead-letter queue first.",
							  "Dead letter target does not exist.");
	check_queue_privilege(&target, ACL_INSERT);
	if (target.fifo != fifo)
		report_redrive_policy(input, NULL,
							  "Dead-letter queue must be same type of queue as the source..");
	if (!target_allows(&target, queue_name))
		report_redrive_policy(input,
							  psprintf("Change the RedriveAllowPolicy of queue \"%s\".",
									   target.name),
							  "The dead-letter queue does not allow this queue to be its source.");
}

/* Appends a member to the text of a JSON object. */
static void
append_member(StringInfo json, const char *name)
{
	appendStringInfoChar(json, json->len > 1 ? ',' : '{');
	escape_json(json, name);
	appendStringInfoChar(json, ':');
}

/* The JSON text of a RedrivePolicy; NULL = none. */
char *
redrive_policy_text(char *const *columns)
{
	StringInfoData json;

	if (columns[0] == NULL)
		return NULL;
	initStringInfo(&json);
	append_member(&json, "deadLetterTargetArn");
	escape_json(&json, queue_arn(columns[0]));
	append_member(&json, "maxReceiveCount");
	appendStringInfo(&json, "%s}", columns[1]);
	return json.data;
}

/* Raises the error for a RedriveAllowPolicy that cannot be. */
pg_noreturn static void
report_redrive_allow_policy(const char *reason)
{
	sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE,
			  "Give an object like {\"redrivePermission\": \"byQueue\", \"sourceQueueArns\": [\"name\"]}.",
			  "Invalid value for the parameter RedriveAllowPolicy. Reason: %s",
			  reason);
}

/* Raises the error for a RedriveAllowPolicy of the wrong shape. */
pg_noreturn static void
report_redrive_allow_format(void)
{
	report_redrive_allow_policy("Amazon SQS can't create the redrive allow policy, as it's in an unsupported format.");
}

/* Sorts names, for qsort. */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The text of an array of names, sorted and without repetition. */
static char *
name_array(char **names, int n)
{
	Datum	   *datums = palloc(sizeof(Datum) * n);
	int			kept = 0;

	qsort(names, n, sizeof(char *), compare_names);
	for (int i = 0; i < n; i++)
		if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
			datums[kept++] = CStringGetTextDatum(names[i]);
	return sql_array(construct_array(datums, kept, TEXTOID, -1, false,
									 TYPALIGN_INT));
}

/* Reads sourceQueueArns. */
static char *
parse_source_queues(JsonbContainer *array)
{
	char	   *names[MAX_SOURCE_QUEUES];
	int			n = JsonContainerSize(array);

	if (n == 0)
		report_redrive_allow_policy("When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.");
	if (n > MAX_SOURCE_QUEUES)
		report_redrive_allow_policy("The maximum number of source queue ARNs you can specify is 10.");
	for (int i = 0; i < n; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(array, i);

		if (value->type != jbvString ||
			parse_target(json_scalar(value), &names[i]) != TARGET_OURS)
			report_redrive_allow_format();
	}
	return name_array(names, n);
}

/* Reads redrivePermission. */
static char *
parse_redrive_permission(Jsonb *policy)
{
	JsonbValue	value;
	char	   *permission;

	if (json_member(policy, "redrivePermission", &value) == NULL ||
		value.type != jbvString)
		report_redrive_allow_format();
	permission = json_scalar(&value);
	if (strcmp(permission, "allowAll") != 0 &&
		strcmp(permission, "denyAll") != 0 &&
		strcmp(permission, "byQueue") != 0)
		report_redrive_allow_format();
	return permission;
}

/* Reads a RedriveAllowPolicy into the columns that hold it; "" = none. */
void
redrive_allow_policy_parse(const char *input, char **columns)
{
	Jsonb	   *policy;
	JsonbValue	sources;
	bool		by_queue;

	if (*input == '\0')
		return;
	policy = parse_object(input);
	if (policy == NULL ||
		has_other_members(policy, "redrivePermission", "sourceQueueArns"))
		report_redrive_allow_format();
	columns[0] = parse_redrive_permission(policy);
	by_queue = strcmp(columns[0], "byQueue") == 0;
	if (json_member(policy, "sourceQueueArns", &sources) == NULL)
	{
		if (by_queue)
			report_redrive_allow_policy("When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values.");
		return;
	}
	if (sources.type != jbvBinary || !JsonContainerIsArray(sources.val.binary.data))
		report_redrive_allow_format();
	if (!by_queue)
		report_redrive_allow_policy("To specify one or more source queue ARNs, you must set redrivePermission to byQueue.");
	columns[1] = parse_source_queues(sources.val.binary.data);
}

/* The JSON text of a RedriveAllowPolicy; NULL = none. */
char *
redrive_allow_policy_text(char *const *columns)
{
	StringInfoData json;

	if (columns[0] == NULL)
		return NULL;
	initStringInfo(&json);
	append_member(&json, "redrivePermission");
	escape_json(&json, columns[0]);
	if (columns[1] != NULL)
	{
		const char *args[2];
		SqlResult	arns;

		args[0] = columns[1];
		args[1] = queue_arn("");
		arns = sql_run(SQL_LIST,
					   "SELECT '[' || coalesce(string_agg(to_json($2 || name)::text, ','), '') || ']'"
					   " FROM unnest($1::text[]) name", 2, args);
		append_member(&json, "sourceQueueArns");
		appendStringInfoString(&json, sql_value(&arns, 0, 0));
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/* Raises the error for a Policy that has more of something than allowed. */
static void
check_policy_count(const char *what, const char *count, int max)
{
	if (atoi(count) > max)
		sqs_error(ERRCODE_SQS_OVER_LIMIT, NULL,
				  "%s %s were found in the policy, maximum allowed is %d.",
				  count, what, max);
}

/* Checks a Policy; it is kept and shown, GRANT is what decides. */
void
policy_check(const char *input)
{
	SqlResult	counts;

	if (strlen(input) > MAX_POLICY_BYTES)
		sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE, NULL,
				  "Invalid value for the parameter Policy. Reason: Must be at most %d bytes.",
				  MAX_POLICY_BYTES);
	if (parse_object(input) == NULL)
		sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE,
				  "A policy is a JSON object, or its text.",
				  "Invalid value for the parameter Policy.");
	counts = sql_run(SQL_LIST,
					 "SELECT jsonb_array_length(jsonb_path_query_array(p, '$.Statement[*]')),"
					 " jsonb_array_length(jsonb_path_query_array(p, '$.Statement[*].Principal.*[*]')),"
					 " jsonb_array_length(jsonb_path_query_array(p, '$.Statement[*].Condition.*.*'))"
					 " FROM CAST($1 AS jsonb) p", 1, &input);
	check_policy_count("Statements", sql_value(&counts, 0, 0), 20);
	check_policy_count("Principals", sql_value(&counts, 0, 1), 50);
	check_policy_count("Conditions", sql_value(&counts, 0, 2), 10);
}

/* sqs_list_dead_letter_source_queues(queue_name) */
Datum
sqs_list_dead_letter_source_queues(PG_FUNCTION_ARGS)
{
	Queue		queue;

	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_privilege(&queue, ACL_SELECT);
	result_names(fcinfo, catalog_names(NULL, queue.name));
	PG_RETURN_NULL();
}
