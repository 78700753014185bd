/*-------------------------------------------------------------------------
 *
 * backoff.c
 *	  The delay before a message that failed is tried again.
 *
 * Only arithmetic, with no jitter, so that the function is IMMUTABLE; the
 * result goes to sqs_change_visibility.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pg_sqs.h"

#define BACKOFF_BASE_SECONDS 1
#define BACKOFF_MAX_SECONDS 900

/* Raises an error unless a number is at least 1. */
static void
check_positive(const char *parameter, int32 value)
{
	if (value < 1)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value %d for parameter %s is invalid. Reason: Must be >= 1.",
				  value, parameter);
}

/* Raises an error unless a delay is one that a visibility timeout can have. */
static void
check_max_seconds(int32 value)
{
	if (value < 1 || value > SQS_MAX_VISIBILITY_TIMEOUT)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value %d for parameter max_seconds is invalid. Reason: Must be >= 1 and <= %d, if provided.",
				  value, SQS_MAX_VISIBILITY_TIMEOUT);
}

PG_FUNCTION_INFO_V1(sqs_backoff);

/* sqs_backoff: base, doubled with each receive after the first, at most max. */
Datum
sqs_backoff(PG_FUNCTION_ARGS)
{
	int32		receive_count;
	int32		base = int_argument(fcinfo, 1, BACKOFF_BASE_SECONDS);
	int32		max = int_argument(fcinfo, 2, BACKOFF_MAX_SECONDS);
	int64		delay;

	if (PG_ARGISNULL(0))
		report_missing_parameter("receive_count");
	receive_count = PG_GETARG_INT32(0);
	check_positive("receive_count", receive_count);
	check_positive("base_seconds", base);
	check_max_seconds(max);

	/* a base of 31 bits shifted by 31 still fits, and is beyond every max */
	delay = (int64) base << Min(receive_count - 1, 31);
	PG_RETURN_INT32((int32) Min(delay, max));
}
