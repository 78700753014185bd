/*-------------------------------------------------------------------------
 *
 * sql.c
 *	  Runs SQL for the calls that manage queues.
 *
 * Managing queues is rare, so it is written in SQL.  A statement runs either
 * as the catalog's owner, because callers have no right to sqs.queue, or as
 * the caller, because a queue's table is the caller's own; never with a
 * search_path of the caller's.
 *
 * As DDL does, these calls look at what is committed now, whatever the
 * isolation level, or a queue made a moment ago would be there for one call
 * and not for the next.  READ COMMITTED gives that by itself.  REPEATABLE
 * READ takes the latest snapshot.  At SERIALIZABLE an MVCC snapshot would
 * enter what it reads into the search for conflicts and let two sessions fail
 * that create different queues.  SnapshotSelf does not; for the one row of a
 * queue it is as good, above all under the queue's lock (queue_lock).  Only
 * plain scans know it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "pg_sqs.h"
#include "sql.h"

/* Changes a setting up to the end of the statement. */
static void
set_locally(const char *setting, const char *value)
{
	(void) set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* Whether a statement runs with SnapshotSelf. */
static bool
needs_snapshot_self(SqlMode mode)
{
	return IsolationIsSerializable() && mode == SQL_ROW;
}

/* Keeps the planner from scans that SnapshotSelf cannot be used for. */
static void
allow_plain_scans(void)
{
	set_locally("enable_seqscan", "on");
	set_locally("enable_indexscan", "on");
	set_locally("enable_indexonlyscan", "off");
	set_locally("enable_bitmapscan", "off");
}

/* Which snapshot shows what is committed now; InvalidSnapshot = SPI's own. */
static Snapshot
choose_snapshot(SqlMode mode)
{
	if (needs_snapshot_self(mode))
		return SnapshotSelf;
	if (mode == SQL_DDL || !IsolationUsesXactSnapshot())
		return InvalidSnapshot;
	return GetLatestSnapshot();
}

/* Copies what SPI returned, as strings, into the caller's memory. */
static SqlResult
copy_result(MemoryContext caller)
{
	MemoryContext old = MemoryContextSwitchTo(caller);
	SqlResult	result = {0};
	SPITupleTable *table = SPI_tuptable;

	result.rows = SPI_processed;
	if (table != NULL)
	{
		result.columns = table->tupdesc->natts;
		result.values = palloc0(sizeof(char *) *
								Max(result.rows * result.columns, 1));
		for (int i = 0; i < result.rows * result.columns; i++)
			result.values[i] = SPI_getvalue(table->vals[i / result.columns],
											table->tupdesc,
											i % result.columns + 1);
	}
	MemoryContextSwitchTo(old);
	return result;
}

/* Prepares and runs a statement whose n parameters are all text. */
static void
execute(SqlMode mode, const char *statement, int n, const char *const *args)
{
	Oid			types[SQL_MAX_ARGS];
	Datum		values[SQL_MAX_ARGS];
	char		nulls[SQL_MAX_ARGS];
	SPIPlanPtr	plan;
	int			code;

	Assert(n <= SQL_MAX_ARGS);
	for (int i = 0; i < n; i++)
	{
		types[i] = TEXTOID;
		values[i] = args[i] ? CStringGetTextDatum(args[i]) : (Datum) 0;
		nulls[i] = args[i] ? ' ' : 'n';
	}
	if (needs_snapshot_self(mode))
		allow_plain_scans();
	plan = SPI_prepare(statement, n, types);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", statement,
			 SPI_result_code_string(SPI_result));
	code = SPI_execute_snapshot(plan, values, nulls, choose_snapshot(mode),
								InvalidSnapshot, false, true, 0);
	if (code < 0)
		elog(ERROR, "could not execute \"%s\": %s", statement,
			 SPI_result_code_string(code));
}

/*
 * Runs a statement; cast each of the n parameters, they are text.  Returns
 * its rows as strings.
 */
SqlResult
sql_run(SqlMode mode, const char *statement, int n, const char *const *args)
{
	MemoryContext caller = CurrentMemoryContext;
	Identity	own;
	SqlResult	result;

	identity_assume(mode == SQL_DDL ? InvalidOid : catalog_owner(), &own);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	execute(mode, statement, n, args);
	result = copy_result(caller);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	identity_resume(&own);
	CommandCounterIncrement();
	return result;
}

/*
 * Reads the row of a queue; its number is the statement's only parameter.
 * SnapshotSelf without the lock can miss a row that is just being updated.
 */
SqlResult
sql_queue_row(const char *statement, int32 queue_id)
{
	const char *id = psprintf("%d", queue_id);
	SqlResult	row;
	int			tries = 0;

	do
		row = sql_run(SQL_ROW, statement, 1, &id);
	while (row.rows == 0 && ++tries < 3);
	if (row.rows == 0)
		report_missing_queue(NULL);
	return row;
}

/* An array of text as a parameter. */
char *
sql_array(ArrayType *array)
{
	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}
