/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  The calls that take up to ten entries and answer each by itself.
 *
 * What makes entries indistinguishable or is a slip of the program that wrote
 * them (no array, an Id missing, malformed or repeated, a member there is
 * not) fails the whole call.  A member's value fails its entry alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "pg_sqs.h"

#define MAX_ENTRY_ID 80
#define ENTRY_ID_CHARACTERS \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* What the entries of a call are checked for. */
typedef struct EntryKind
{
	const char *name;			/* such as SendMessageBatchRequestEntry */
	const char *const *members; /* ends with a NULL */
} EntryKind;

static void parse_entry(const EntryKind *kind, int number, JsonbValue *value,
						BatchEntry *entry);

/* Raises the error of more entries than the setting allows. */
pg_noreturn static void
report_too_many(int n)
{
	sqs_error(ERRCODE_SQS_TOO_MANY_ENTRIES,
			  "The setting pg_sqs.max_batch_size is the most entries of a batch.",
			  "Maximum number of entries per request are %d. You have sent %d.",
			  sqs_max_batch_size, n);
}

/*
 * Raises an error unless a parameter is an array with something in it.  More
 * entries than any setting allows are refused here, lest they take memory.
 */
static void
check_array(Jsonb *entries, const EntryKind *kind)
{
	JsonbValue	scalar;

	if (entries == NULL ||
		(JB_ROOT_IS_SCALAR(entries) &&
		 JsonbExtractScalar(&entries->root, &scalar) &&
		 scalar.type == jbvNull))
		report_missing_parameter("Entries");
	if (!JB_ROOT_IS_ARRAY(entries) || JB_ROOT_IS_SCALAR(entries))
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value for parameter Entries is invalid. Reason: Must be a JSON array of objects.");
	if (JB_ROOT_COUNT(entries) == 0)
		sqs_error(ERRCODE_SQS_EMPTY_BATCH, NULL,
				  "There should be at least one %s in the request.", kind->name);
	if (JB_ROOT_COUNT(entries) > SQS_MAX_BATCH_SIZE)
		report_too_many(JB_ROOT_COUNT(entries));
}

/* Takes the entries of a call apart, raising the errors that are the call's. */
BatchEntry *
batch_parse(Jsonb *entries, const char *request_entry,
			const char *const *members, int *n)
{
	EntryKind	kind = {request_entry, members};
	BatchEntry *parsed;
	JsonbIterator *it;
	JsonbValue	value;

	check_array(entries, &kind);
	*n = JB_ROOT_COUNT(entries);
	parsed = palloc0(*n * sizeof(BatchEntry));
	it = JsonbIteratorInit(&entries->root);
	JsonbIteratorNext(&it, &value, true);
	for (int i = 0; i < *n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		JsonbIteratorNext(&it, &value, true);
		parse_entry(&kind, i + 1, &value, &parsed[i]);
	}
	return parsed;
}

/* Whether a string of a jsonb is one of these. */
static bool
is_member(const JsonbValue *key, const char *const *members)
{
	for (; *members != NULL; members++)
	{
		if (key->val.string.len == strlen(*members) &&
			memcmp(key->val.string.val, *members, key->val.string.len) == 0)
			return true;
	}
	return false;
}

/* Names the members that an entry may have, for a hint. */
static const char *
list_members(const char *const *members)
{
	StringInfoData list;

	initStringInfo(&list);
	appendStringInfo(&list, "Its members are %s", *members);
	while (*++members != NULL)
		appendStringInfo(&list, ", %s", *members);
	appendStringInfoChar(&list, '.');
	return list.data;
}

/* Raises an error for a member that entries of this kind do not have. */
static void
check_members(const EntryKind *kind, int number, JsonbContainer *object)
{
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue	key;
	JsonbValue	value;

	JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		JsonbIteratorNext(&it, &value, true);
		if (!is_member(&key, kind->members))
			sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
					  list_members(kind->members),
					  "Value for parameter %s.%d is invalid. Reason: It has no member '%s'.",
					  kind->name, number,
					  excerpt(key.val.string.val, key.val.string.len));
	}
}

/* Raises an error unless an Id is well formed. */
static void
check_entry_id(const char *id)
{
	size_t		length = strlen(id);

	if (length < 1 || length > MAX_ENTRY_ID ||
		strspn(id, ENTRY_ID_CHARACTERS) != length)
		sqs_error(ERRCODE_SQS_INVALID_BATCH_ENTRY_ID, NULL,
				  "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most %d letters long.",
				  MAX_ENTRY_ID);
}

/* Takes one entry, raising the errors that are the call's. */
static void
parse_entry(const EntryKind *kind, int number, JsonbValue *value,
			BatchEntry *entry)
{
	JsonbValue	id;

	if (value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data))
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value for parameter %s.%d is invalid. Reason: Must be a JSON object.",
				  kind->name, number);
	entry->object = value->val.binary.data;
	check_members(kind, number, entry->object);
	if (getKeyJsonValueFromContainer(entry->object, "Id", 2, &id) == NULL ||
		id.type == jbvNull)
		report_missing_parameter(psprintf("%s.%d.Id", kind->name, number));
	if (id.type != jbvString)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value for parameter %s.%d.Id is invalid. Reason: Must be a string.",
				  kind->name, number);
	entry->id = pnstrdup(id.val.string.val, id.val.string.len);
	check_entry_id(entry->id);
}

/* Order of entries by id, and of those of the same id by place. */
static int
compare_ids(const void *left, const void *right)
{
	const BatchEntry *a = *(const BatchEntry *const *) left;
	const BatchEntry *b = *(const BatchEntry *const *) right;
	int			order = strcmp(a->id, b->id);

	return order != 0 ? order : (a > b) - (a < b);
}

/* The first entry whose id an earlier one has, or NULL. */
static const BatchEntry *
find_repeated(const BatchEntry *entries, int n)
{
	const BatchEntry **sorted;
	const BatchEntry *first = NULL;

	sorted = palloc(n * sizeof(*sorted));
	for (int i = 0; i < n; i++)
		sorted[i] = &entries[i];
	qsort(sorted, n, sizeof(*sorted), compare_ids);
	for (int i = 1; i < n; i++)
	{
		if (strcmp(sorted[i]->id, sorted[i - 1]->id) == 0 &&
			(first == NULL || sorted[i] < first))
			first = sorted[i];
	}
	pfree(sorted);
	return first;
}

/* Raises an error where ids are not distinct or entries too many. */
void
batch_check(const BatchEntry *entries, int n)
{
	const BatchEntry *repeated = find_repeated(entries, n);

	if (repeated != NULL)
		sqs_error(ERRCODE_SQS_BATCH_IDS_NOT_DISTINCT, NULL,
				  "Id %s repeated.", repeated->id);
	if (n > sqs_max_batch_size)
		report_too_many(n);
}

/* Finds a member that an entry has, other than null. */
static bool
find_member(const BatchEntry *entry, const char *member, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(entry->object, member, strlen(member),
										value) != NULL &&
		value->type != jbvNull;
}

/* Takes a text member, NULL where there is none. */
bool
batch_text(BatchEntry *entry, const char *member, text **value)
{
	JsonbValue	found;

	*value = NULL;
	if (!find_member(entry, member, &found))
		return true;
	if (found.type != jbvString)
		return sqs_fail(&entry->failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						NULL,
						"Value for parameter %s is invalid. Reason: Must be a string.",
						member);
	*value = cstring_to_text_with_len(found.val.string.val,
									  found.val.string.len);
	return true;
}

/* Takes an integer member, a JSON number or the text of one. */
bool
batch_int(BatchEntry *entry, const char *member, int32 *value, bool *isnull)
{
	JsonbValue	found;
	const char *digits = NULL;

	*value = 0;
	*isnull = !find_member(entry, member, &found);
	if (*isnull)
		return true;
	if (found.type == jbvString)
		digits = pnstrdup(found.val.string.val, found.val.string.len);
	else if (found.type == jbvNumeric)
		digits = DatumGetCString(DirectFunctionCall1(numeric_out,
													 NumericGetDatum(found.val.numeric)));
	if (digits == NULL)
		return sqs_fail(&entry->failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						NULL,
						"Value for parameter %s is invalid. Reason: Must be an integer.",
						member);
	if (!parse_integer(digits, value))
		return sqs_fail(&entry->failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						NULL,
						"Value %s for parameter %s is invalid. Reason: Must be an integer.",
						excerpt(digits, strlen(digits)), member);
	return true;
}

/* Takes a member of any type, NULL where there is none. */
bool
batch_jsonb(BatchEntry *entry, const char *member, Jsonb **value)
{
	JsonbValue	found;

	*value = find_member(entry, member, &found) ? JsonbValueToJsonb(&found) :
		NULL;
	return true;
}

/* A pointer as a column of a row, NULL where there is none. */
static void
set_column(Datum *value, bool *isnull, const void *pointer)
{
	*value = PointerGetDatum(pointer);
	*isnull = pointer == NULL;
}

/* Returns a row for each entry, in their order; results may be NULL. */
void
batch_return(FunctionCallInfo fcinfo, const BatchEntry *entries,
			 const BatchResult *results, int n)
{
	for (int i = 0; i < n; i++)
	{
		const Failure *failure = &entries[i].failure;
		BatchResult result = {0};
		const char *code = NULL;
		Datum		values[BATCH_RESULT_COLUMNS];
		bool		nulls[BATCH_RESULT_COLUMNS];

		if (failure->sqlstate != 0)
			code = sqs_error_code(failure->sqlstate);
		else if (results != NULL)
			result = results[i];
		set_column(&values[0], &nulls[0], cstring_to_text(entries[i].id));
		set_column(&values[1], &nulls[1], result.message_id);
		set_column(&values[2], &nulls[2], result.sequence_number);
		set_column(&values[3], &nulls[3], result.md5_of_message_body);
		set_column(&values[4], &nulls[4], result.md5_of_message_attributes);
		set_column(&values[5], &nulls[5], code ? cstring_to_text(code) : NULL);
		set_column(&values[6], &nulls[6],
				   code ? cstring_to_text(failure->message) : NULL);
		result_row(fcinfo, values, nulls);
	}
}
