/*-------------------------------------------------------------------------
 *
 * attribute.c
 *	  What a queue's attributes are called and what they may be.
 *
 * One table says it all, and creating, setting and getting attributes read
 * it.  Only defaults are not in it: they are those of the columns of
 * sqs.queue.
 *
 * Checking has three steps.  attributes_parse looks at each value alone and
 * brings it into the form of its columns; a queue that is there already is
 * then only compared (attributes_compare).  What depends on other attributes
 * or other queues is checked by attributes_check, before anything is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "pg_sqs.h"
#include "attribute.h"

#define MAX_KEY_LENGTH 2048		/* bytes of KmsMasterKeyId */

#define INTEGER(name, min, max, column) \
	{name, KIND_INTEGER, USE_CREATE_AND_SET, false, min, max, {NULL}, \
	{{column, "int4"}}}
#define BOOLEAN(name, use, fifo, column) \
	{name, KIND_BOOLEAN, use, fifo, 0, 0, {NULL}, {{column, "bool"}}}
#define CHOICE(name, one, other, column) \
	{name, KIND_CHOICE, USE_CREATE_AND_SET, true, 0, 0, {one, other}, \
	{{column, "text"}}}
#define TEXT(name, kind, column) \
	{name, kind, USE_CREATE_AND_SET, false, 0, 0, {NULL}, {{column, "text"}}}
#define POLICY(name, kind, column, other, other_type) \
	{name, kind, USE_CREATE_AND_SET, false, 0, 0, {NULL}, \
	{{column, "text"}, {other, other_type}}}
#define TIME(name, column) \
	{name, KIND_TIME, USE_GET, false, 0, 0, {NULL}, \
	{{"floor(extract(epoch FROM " column "))::int8", NULL}}}
#define MADE(name, kind, use) \
	{name, kind, use}

const Attribute attribute_table[ATTRIBUTES] = {
	INTEGER("DelaySeconds", 0, SQS_MAX_DELAY_SECONDS, "delay_seconds"),
	INTEGER("MaximumMessageSize", 1024, SQS_MAX_BATCH_BYTES,
			"maximum_message_size"),
	INTEGER("MessageRetentionPeriod", 60, 1209600, "message_retention_period"),
	INTEGER("ReceiveMessageWaitTimeSeconds", 0, SQS_MAX_WAIT_SECONDS,
			"receive_message_wait_time_seconds"),
	INTEGER("VisibilityTimeout", 0, SQS_MAX_VISIBILITY_TIMEOUT,
			"visibility_timeout"),
	TEXT("Policy", KIND_POLICY, "policy"),
	POLICY("RedrivePolicy", KIND_REDRIVE_POLICY,
		   "dead_letter_queue", "max_receive_count", "int4"),
	POLICY("RedriveAllowPolicy", KIND_REDRIVE_ALLOW_POLICY,
		   "redrive_permission", "redrive_source_queues", "text[]"),
	TEXT("KmsMasterKeyId", KIND_KEY, "kms_master_key_id"),
	INTEGER("KmsDataKeyReusePeriodSeconds", 60, 86400,
			"kms_data_key_reuse_period_seconds"),
	BOOLEAN("SqsManagedSseEnabled", USE_CREATE_AND_SET, false,
			"sqs_managed_sse_enabled"),
	BOOLEAN("FifoQueue", USE_CREATE, true, "fifo"),
	BOOLEAN("ContentBasedDeduplication", USE_CREATE_AND_SET, true,
			"content_based_deduplication"),
	CHOICE("DeduplicationScope", "queue", "messageGroup",
		   "deduplication_scope"),
	CHOICE("FifoThroughputLimit", "perQueue", "perMessageGroupId",
		   "fifo_throughput_limit"),
	MADE("Unlogged", KIND_STORAGE, USE_CREATE),
	MADE("ApproximateNumberOfMessages", KIND_COUNT, USE_GET),
	MADE("ApproximateNumberOfMessagesNotVisible", KIND_COUNT, USE_GET),
	MADE("ApproximateNumberOfMessagesDelayed", KIND_COUNT, USE_GET),
	TIME("CreatedTimestamp", "created_at"),
	TIME("LastModifiedTimestamp", "modified_at"),
	MADE("QueueArn", KIND_ARN, USE_GET)
};

/* Finds an attribute by name; -1 if there is none. */
int
attribute_find(const char *name)
{
	for (int i = 0; i < ATTRIBUTES; i++)
		if (strcmp(attribute_table[i].name, name) == 0)
			return i;
	return -1;
}

/* What a person can do about a name that is no attribute's. */
static const char *
suggest_attribute(const char *name, bool to_get)
{
	StringInfoData hint;

	for (int i = 0; i < ATTRIBUTES; i++)
		if (pg_strcasecmp(attribute_table[i].name, name) == 0)
			return psprintf("Perhaps you mean \"%s\".", attribute_table[i].name);
	initStringInfo(&hint);
	for (int i = 0; i < ATTRIBUTES; i++)
		if (to_get || attribute_table[i].use != USE_GET)
			appendStringInfo(&hint, "%s%s", i > 0 ? ", " : "Attributes are ",
							 attribute_table[i].name);
	if (to_get)
		appendStringInfoString(&hint, ", All");
	appendStringInfoChar(&hint, '.');
	return hint.data;
}

/* Raises the error for an attribute that does not exist, and was asked for. */
void
report_no_attribute(const char *name)
{
	sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_NAME, suggest_attribute(name, true),
			  "Unknown Attribute %s.", excerpt(name, strlen(name)));
}

/* Raises the error for an attribute that does not exist or cannot be given. */
void
report_unknown_attribute(const char *name)
{
	int			i = attribute_find(name);
	const char *hint;

	if (i < 0)
		hint = suggest_attribute(name, false);
	else if (attribute_table[i].use == USE_GET)
		hint = "This attribute can be read but not set.";
	else if (attribute_table[i].fifo)
		hint = "Only FIFO queues have this attribute.";
	else
		hint = "This attribute can be given only when the queue is created.";
	sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_NAME, hint,
			  "Unknown Attribute %s.", excerpt(name, strlen(name)));
}

/* Reads "true" or "false", in any case of letters. */
static bool
parse_boolean(const char *value, bool *result)
{
	*result = pg_strcasecmp(value, "true") == 0;
	return *result || pg_strcasecmp(value, "false") == 0;
}

/* Reads a whole number: digits, with a sign at most. */
bool
parse_integer(const char *value, int32 *result)
{
	const char *digits = value + (*value == '-');
	char	   *end;
	long		number;

	if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
		return false;
	errno = 0;
	number = strtol(value, &end, 10);
	if (errno != 0 || number < PG_INT32_MIN || number > PG_INT32_MAX)
		return false;
	*result = number;
	return true;
}

/* Raises the error for a value that an attribute cannot have. */
pg_noreturn static void
report_value(const Attribute *a, const char *hint)
{
	sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE, hint,
			  "Invalid value for the parameter %s.", a->name);
}

/* Reads an integer attribute. */
static char *
parse_integer_value(const Attribute *a, const char *input)
{
	int32		value;

	if (!parse_integer(input, &value) || value < a->min || value > a->max)
		report_value(a, psprintf("%s is a whole number from %d to %d.",
								 a->name, a->min, a->max));
	return psprintf("%d", value);
}

/* Reads a boolean attribute. */
static char *
parse_boolean_value(const Attribute *a, const char *input)
{
	bool		value;

	if (!parse_boolean(input, &value))
		report_value(a, psprintf("%s is true or false.", a->name));
	return value ? "true" : "false";
}

/* Reads an attribute that is one of two words. */
static char *
parse_choice_value(const Attribute *a, const char *input)
{
	if (strcmp(input, a->choices[0]) != 0 && strcmp(input, a->choices[1]) != 0)
		report_value(a, psprintf("%s is \"%s\" or \"%s\".", a->name,
								 a->choices[0], a->choices[1]));
	return pstrdup(input);
}

/* Reads the name of a key; "" = none. */
static char *
parse_key_value(const Attribute *a, const char *input)
{
	if (strlen(input) > MAX_KEY_LENGTH)
		report_value(a, psprintf("%s has at most %d bytes.", a->name,
								 MAX_KEY_LENGTH));
	return *input ? pstrdup(input) : NULL;
}

/* Reads the value of an attribute into the form of its columns. */
static void
parse_value(const Attribute *a, const char *input, char **columns)
{
	switch (a->kind)
	{
		case KIND_INTEGER:
			columns[0] = parse_integer_value(a, input);
			break;
		case KIND_BOOLEAN:
		case KIND_STORAGE:
			columns[0] = parse_boolean_value(a, input);
			break;
		case KIND_CHOICE:
			columns[0] = parse_choice_value(a, input);
			break;
		case KIND_KEY:
			columns[0] = parse_key_value(a, input);
			break;
		case KIND_POLICY:
			if (*input)
				policy_check(input);
			columns[0] = *input ? pstrdup(input) : NULL;
			break;
		case KIND_REDRIVE_POLICY:
			redrive_policy_parse(input, columns);
			break;
		case KIND_REDRIVE_ALLOW_POLICY:
			redrive_allow_policy_parse(input, columns);
			break;
		default:
			report_unknown_attribute(a->name);
	}
}

/* Refuses what cannot be given, or not to this kind of queue. */
static void
check_use(const Attribute *a, bool creating, bool fifo)
{
	if (a->fifo && !fifo)
	{
		if (a->kind == KIND_CHOICE)
			sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_NAME, NULL,
					  "You can specify the %s only when FifoQueue is set to true.",
					  a->name);
		report_unknown_attribute(a->name);
	}
	if (a->use == USE_GET ||
		(a->use == USE_CREATE && !creating && !(a->fifo && fifo)))
		report_unknown_attribute(a->name);
}

/* The text of a JSON value: of an object or array its JSON; NULL for null. */
static char *
value_text(const Attribute *a, JsonbValue *value)
{
	char	   *text = json_scalar(value);

	if (value->type == jbvBinary &&
		(a->kind == KIND_POLICY || a->kind == KIND_REDRIVE_POLICY ||
		 a->kind == KIND_REDRIVE_ALLOW_POLICY))
		text = json_text(value);

	if (text == NULL)
		report_value(a, "A value is a JSON string, number or boolean; of a policy, an object.");
	return text;
}

/* Reads one member of the attributes given. */
static void
parse_attribute(const char *name, JsonbValue *value, bool creating, bool fifo,
				AttributeSet *set)
{
	int			i = attribute_find(name);
	const Attribute *a;

	if (i < 0)
		report_unknown_attribute(name);
	a = &attribute_table[i];
	check_use(a, creating, fifo);
	set->given[i] = true;
	set->input[i] = value_text(a, value);
	parse_value(a, set->input[i], set->columns[i]);
}

/* Whether the attributes of a queue to create ask for a FIFO queue. */
bool
attributes_want_fifo(Jsonb *input)
{
	JsonbValue	value;
	char	   *text;
	bool		fifo = false;

	if (input == NULL || !JB_ROOT_IS_OBJECT(input) ||
		json_member(input, attribute_table[ATTRIBUTE_FIFO_QUEUE].name,
					&value) == NULL)
		return false;
	text = json_scalar(&value);
	return text != NULL && parse_boolean(text, &fifo) && fifo;
}

/* Reads the attributes that a call gives to a queue; NULL = none. */
void
attributes_parse(Jsonb *input, bool creating, bool fifo, AttributeSet *set)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;

	memset(set, 0, sizeof(*set));
	if (input == NULL)
		return;
	if (!JB_ROOT_IS_OBJECT(input))
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "Give an object like {\"VisibilityTimeout\": 60}.",
				  "Value for parameter Attributes is invalid. Reason: Must be a JSON object.");
	it = JsonbIteratorInit(&input->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		char	   *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(value.val.string.val, value.val.string.len);
		(void) JsonbIteratorNext(&it, &value, true);
		parse_attribute(name, &value, creating, fifo, set);
	}
}

/* The value an attribute will have: the one given, or the current one. */
static const char *
new_value(AttributeId i, const AttributeSet *set, const AttributeSet *current)
{
	return set->given[i] ? set->columns[i][0] : current->columns[i][0];
}

/* Makes one kind of encryption end the other, and refuses both at once. */
static void
check_encryption(AttributeSet *set)
{
	const char *key = set->columns[ATTRIBUTE_KMS_MASTER_KEY_ID][0];
	const char *managed = set->columns[ATTRIBUTE_SQS_MANAGED_SSE_ENABLED][0];
	bool		enable = managed != NULL && strcmp(managed, "true") == 0;

	if (key != NULL && enable)
		sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_NAME, NULL,
				  "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.");
	if (key != NULL)
	{
		set->given[ATTRIBUTE_SQS_MANAGED_SSE_ENABLED] = true;
		set->columns[ATTRIBUTE_SQS_MANAGED_SSE_ENABLED][0] = "false";
	}
	else if (enable)
		set->given[ATTRIBUTE_KMS_MASTER_KEY_ID] = true;
}

/* Refuses a throughput limit per group where deduplication is per queue. */
static void
check_throughput(const AttributeSet *set, const AttributeSet *current)
{
	const char *scope = new_value(ATTRIBUTE_DEDUPLICATION_SCOPE, set, current);
	const char *limit = new_value(ATTRIBUTE_FIFO_THROUGHPUT_LIMIT, set, current);

	if (limit != NULL && strcmp(limit, "perMessageGroupId") == 0 &&
		(scope == NULL || strcmp(scope, "messageGroup") != 0))
		sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE,
				  "Set DeduplicationScope to messageGroup as well.",
				  "Invalid value for the parameter FifoThroughputLimit. Reason: perMessageGroupId is allowed only when DeduplicationScope is messageGroup.");
}

/*
 * Checks what is given against the other attributes and against other queues,
 * and adds what it implies.  An empty current is a queue to be created.
 */
void
attributes_check(AttributeSet *set, const AttributeSet *current,
				 const char *queue_name, bool fifo)
{
	const char *type = new_value(ATTRIBUTE_FIFO_QUEUE, set, current);

	if (fifo && type != NULL && strcmp(type, "true") != 0)
		sqs_error(ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE, NULL,
				  "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.");
	check_encryption(set);
	check_throughput(set, current);
	if (set->given[ATTRIBUTE_REDRIVE_POLICY])
		redrive_policy_check(set->input[ATTRIBUTE_REDRIVE_POLICY],
							 set->columns[ATTRIBUTE_REDRIVE_POLICY],
							 queue_name, fifo);
}

/* Whether two values are the same; NULL equals NULL only. */
static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The first attribute given whose current value is another; -1 = none. */
int
attributes_compare(const AttributeSet *set, const AttributeSet *current)
{
	for (int i = 0; i < ATTRIBUTES; i++)
		for (int c = 0; set->given[i] && c < ATTRIBUTE_COLUMNS; c++)
			if (!same_text(set->columns[i][c], current->columns[i][c]))
				return i;
	return -1;
}
