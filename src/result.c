/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Returns the rows of a set-returning function.
 *
 * All rows go into a tuplestore at once.  The executor makes one anyway for a
 * function in FROM, and for one in the SELECT list a row at a time saved too
 * little (0.15 us of 1.7 us) to have two ways.  What InitMaterializedSRF()
 * does beyond this, looking up and copying the row type, is left out: the
 * executor passes the row type it expects, and takes a result that names none
 * to be of that.  Without a row not even a tuplestore is made; the executor
 * takes that for an empty set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "pg_sqs.h"

/* Announces a set of rows of natts columns to the caller of a function. */
void
result_begin(FunctionCallInfo fcinfo, int natts)
{
	ReturnSetInfo *info = (ReturnSetInfo *) fcinfo->resultinfo;

	if (info == NULL || !IsA(info, ReturnSetInfo))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("set-valued function called in context that cannot accept a set"));
	if (!(info->allowedModes & SFRM_Materialize) || info->expectedDesc == NULL)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("materialize mode required, but it is not allowed in this context"));
	if (info->expectedDesc->natts != natts)
		ereport(ERROR,
				errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("row type of the function has %d columns instead of %d",
					   info->expectedDesc->natts, natts),
				errhint("The row types of extension pg_sqs cannot be altered."));
	info->returnMode = SFRM_Materialize;
}

/* Adds a row to the set that result_begin announced. */
void
result_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	ReturnSetInfo *info = (ReturnSetInfo *) fcinfo->resultinfo;

	if (info->setResult == NULL)
	{
		MemoryContext caller;
		bool		random;

		random = (info->allowedModes & SFRM_Materialize_Random) != 0;
		caller = MemoryContextSwitchTo(info->econtext->ecxt_per_query_memory);
		info->setResult = tuplestore_begin_heap(random, false, work_mem);
		MemoryContextSwitchTo(caller);
	}
	tuplestore_putvalues(info->setResult, info->expectedDesc, values, nulls);
}

/* Returns a set of names. */
void
result_names(FunctionCallInfo fcinfo, const List *names)
{
	ListCell   *lc;

	result_begin(fcinfo, 1);
	foreach(lc, names)
	{
		Datum		value = CStringGetTextDatum(lfirst(lc));
		bool		null = false;

		result_row(fcinfo, &value, &null);
	}
}
