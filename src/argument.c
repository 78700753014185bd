/*-------------------------------------------------------------------------
 *
 * argument.c
 *	  Arguments of the SQL functions, which may all be NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "pg_sqs.h"

/* A text argument, NULL for NULL. */
text *
text_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_TEXT_PP(n);
}

/* The same as a C string. */
char *
string_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* A JSON argument, NULL for NULL. */
Jsonb *
jsonb_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_JSONB_P(n);
}

/* An integer argument, or what stands for NULL. */
int32
int_argument(FunctionCallInfo fcinfo, int n, int32 otherwise)
{
	return PG_ARGISNULL(n) ? otherwise : PG_GETARG_INT32(n);
}

/*
 * The elements of an argument that is an array of text, (Datum) 0 for NULL.
 * An error if the whole array is NULL: a parameter of this name is missing.
 */
Datum *
array_argument(FunctionCallInfo fcinfo, int n, const char *parameter,
			   int *count)
{
	Datum	   *elements;
	bool	   *nulls;

	if (PG_ARGISNULL(n))
		report_missing_array(parameter);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false,
					  TYPALIGN_INT, &elements, &nulls, count);
	for (int i = 0; i < *count; i++)
		if (nulls[i])
			elements[i] = (Datum) 0;
	return elements;
}

/* An element of such an array: NULL for NULL. */
text *
text_element(Datum element)
{
	return DatumGetPointer(element) == NULL ? NULL : DatumGetTextPP(element);
}

/* The same as a C string, "" for NULL. */
char *
string_element(Datum element)
{
	return DatumGetPointer(element) == NULL ? pstrdup("") :
		TextDatumGetCString(element);
}

/* Checks a number of seconds that may be left out. */
void
check_seconds(const char *parameter, int32 value, int32 max)
{
	if (value < 0 || value > max)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
				  "Value %d for parameter %s is invalid. Reason: Must be >= 0 and <= %d, if provided.",
				  value, parameter, max);
}
