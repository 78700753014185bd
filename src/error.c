/*-------------------------------------------------------------------------
 *
 * error.c
 *	  Raises or records the errors of the SQS API.
 *
 * A message's text is AWS's own where AWS has one, so it may start with a
 * capital and end with a full stop; programs match on it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "errors.h"

/* AWS error codes by the last two digits of the SQLSTATE, from SQ001 */
static const char *const error_codes[] = {
	"AWS.SimpleQueueService.NonExistentQueue",
	"QueueAlreadyExists",
	"AWS.SimpleQueueService.QueueDeletedRecently",
	"AWS.SimpleQueueService.PurgeQueueInProgress",
	"AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
	"AWS.SimpleQueueService.EmptyBatchRequest",
	"AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
	"AWS.SimpleQueueService.InvalidBatchEntryId",
	"AWS.SimpleQueueService.BatchRequestTooLong",
	"AWS.SimpleQueueService.MessageNotInflight",
	"AWS.SimpleQueueService.UnsupportedOperation",
	"ReceiptHandleIsInvalid",
	"InvalidParameterValue",
	"MissingParameter",
	"InvalidAttributeName",
	"InvalidAttributeValue",
	"InvalidMessageContents",
	"OverLimit",
	"ResourceNotFoundException"
};

/* Raises the error, or records it where the caller wants to go on; returns false. */
bool
sqs_fail(Failure *failure, int sqlstate, const char *hint,
		 const char *format,...)
{
	va_list		args;
	StringInfoData message;
	int			needed;

	initStringInfo(&message);
	do
	{
		va_start(args, format);
		needed = appendStringInfoVA(&message, format, args);
		va_end(args);
		if (needed != 0)
			enlargeStringInfo(&message, needed);
	} while (needed != 0);

	if (failure == NULL)
		ereport(ERROR, errcode(sqlstate), errmsg_internal("%s", message.data),
				hint ? errhint("%s", hint) : 0);
	failure->sqlstate = sqlstate;
	failure->message = message.data;
	failure->hint = hint;
	return false;
}

/* The AWS error code that a SQLSTATE of ours stands for. */
const char *
sqs_error_code(int sqlstate)
{
	int			tens = PGUNSIXBIT(sqlstate >> 18) - '0';
	int			ones = PGUNSIXBIT(sqlstate >> 24) - '0';
	int			n = tens * 10 + ones;

	Assert(n >= 1 && n <= (int) lengthof(error_codes));
	return error_codes[n - 1];
}

/* Fails for a required parameter that is missing. */
bool
fail_missing_parameter(Failure *failure, const char *name)
{
	return sqs_fail(failure, ERRCODE_SQS_MISSING_PARAMETER, NULL,
					"The request must contain the parameter %s.", name);
}

/* Raises the error for one. */
void
report_missing_parameter(const char *name)
{
	(void) fail_missing_parameter(NULL, name);
	pg_unreachable();
}

/* Raises the error for one that is an array. */
void
report_missing_array(const char *name)
{
	sqs_error(ERRCODE_SQS_MISSING_PARAMETER,
			  "The array is null, as array_agg() over no rows is; ARRAY(SELECT ...) makes an empty one of them.",
			  "The request must contain the parameter %s.", name);
}
