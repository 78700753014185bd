/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  SQLSTATEs of pg_sqs, and failures that are not errors yet.
 *
 * Each AWS error code has a SQLSTATE of its own; error.c has the table that
 * turns one into the other.  A check takes a Failure *: NULL makes it raise
 * the error, otherwise it fills the struct and returns false, which is how
 * one bad entry of a batch fails alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ERRORS_H
#define ERRORS_H

#include "compat.h"

#define ERRCODE_SQS(n1, n2) MAKE_SQLSTATE('S', 'Q', '0', n1, n2)

#define ERRCODE_SQS_NON_EXISTENT_QUEUE			ERRCODE_SQS('0', '1')
#define ERRCODE_SQS_QUEUE_ALREADY_EXISTS		ERRCODE_SQS('0', '2')
#define ERRCODE_SQS_QUEUE_DELETED_RECENTLY		ERRCODE_SQS('0', '3')
#define ERRCODE_SQS_PURGE_QUEUE_IN_PROGRESS		ERRCODE_SQS('0', '4')
#define ERRCODE_SQS_TOO_MANY_ENTRIES			ERRCODE_SQS('0', '5')
#define ERRCODE_SQS_EMPTY_BATCH					ERRCODE_SQS('0', '6')
#define ERRCODE_SQS_BATCH_IDS_NOT_DISTINCT		ERRCODE_SQS('0', '7')
#define ERRCODE_SQS_INVALID_BATCH_ENTRY_ID		ERRCODE_SQS('0', '8')
#define ERRCODE_SQS_BATCH_TOO_LONG				ERRCODE_SQS('0', '9')
#define ERRCODE_SQS_MESSAGE_NOT_INFLIGHT		ERRCODE_SQS('1', '0')
#define ERRCODE_SQS_UNSUPPORTED_OPERATION		ERRCODE_SQS('1', '1')
#define ERRCODE_SQS_RECEIPT_HANDLE_IS_INVALID	ERRCODE_SQS('1', '2')
#define ERRCODE_SQS_INVALID_PARAMETER_VALUE		ERRCODE_SQS('1', '3')
#define ERRCODE_SQS_MISSING_PARAMETER			ERRCODE_SQS('1', '4')
#define ERRCODE_SQS_INVALID_ATTRIBUTE_NAME		ERRCODE_SQS('1', '5')
#define ERRCODE_SQS_INVALID_ATTRIBUTE_VALUE		ERRCODE_SQS('1', '6')
#define ERRCODE_SQS_INVALID_MESSAGE_CONTENTS	ERRCODE_SQS('1', '7')
#define ERRCODE_SQS_OVER_LIMIT					ERRCODE_SQS('1', '8')
#define ERRCODE_SQS_RESOURCE_NOT_FOUND			ERRCODE_SQS('1', '9')

/* why a check failed; sqlstate 0 = it did not */
typedef struct Failure
{
	int			sqlstate;
	char	   *message;
	const char *hint;			/* NULL = none */
} Failure;

/* in error.c */
extern bool sqs_fail(Failure *failure, int sqlstate, const char *hint,
					 const char *format,...) pg_attribute_printf(4, 5);
extern const char *sqs_error_code(int sqlstate);
#define sqs_error(...) \
	do { \
		(void) sqs_fail(NULL, __VA_ARGS__); \
		pg_unreachable(); \
	} while (0)
extern bool fail_missing_parameter(Failure *failure, const char *name);
pg_noreturn extern void report_missing_parameter(const char *name);
pg_noreturn extern void report_missing_array(const char *name);

#endif							/* ERRORS_H */
