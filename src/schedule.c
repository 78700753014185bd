/*-------------------------------------------------------------------------
 *
 * schedule.c
 *	  Has pg_cron call sqs_maintain() where no background worker runs.
 *
 * pg_cron keeps its jobs in one database of the server and can be called
 * there only.  From another database a job cannot be made; the error's hint
 * has the statement that makes it.  So a job's name holds the database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "maintain.h"
#include "sql.h"

#define DEFAULT_SCHEDULE "* * * * *"

PG_FUNCTION_INFO_V1(sqs_schedule_maintenance);
PG_FUNCTION_INFO_V1(sqs_unschedule_maintenance);

/* The name of this database. */
static char *
database_name(void)
{
	return get_database_name(MyDatabaseId);
}

/* The name of this database's job. */
static char *
job_name(void)
{
	return psprintf("pg_sqs maintenance of %s", database_name());
}

/* What the job runs; the functions are in the schema of the one called. */
static char *
job_command(FunctionCallInfo fcinfo)
{
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);

	return psprintf("SELECT %s.sqs_maintain()",
					quote_identifier(get_namespace_name(schema)));
}

/* Raises the error for a database without pg_cron. */
pg_noreturn static void
report_no_cron(const char *statement)
{
	const char *database = GetConfigOption("cron.database_name", true, false);

	if (database != NULL &&
		strcmp(database, database_name()) != 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("extension \"pg_cron\" is not installed in this database"),
				errdetail("The jobs of pg_cron are kept in database \"%s\".",
						  database),
				errhint("Run this in database \"%s\": %s", database,
						statement));
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("extension \"pg_cron\" is not installed in this database"),
			database != NULL ?
			errhint("Run CREATE EXTENSION pg_cron.") :
			errhint("Install pg_cron, add it to shared_preload_libraries, restart the server, and run CREATE EXTENSION pg_cron."));
	pg_unreachable();
}

/* Whether jobs can be made from here. */
static bool
have_cron(void)
{
	return OidIsValid(get_extension_oid("pg_cron", true));
}

/* sqs_schedule_maintenance(schedule): returns the id of the job */
Datum
sqs_schedule_maintenance(PG_FUNCTION_ARGS)
{
	const char *args[3];
	SqlResult	result;

	PreventCommandIfReadOnly("sqs_schedule_maintenance()");
	check_extension_owner();
	args[0] = job_name();
	args[1] = PG_ARGISNULL(0) ? DEFAULT_SCHEDULE : string_argument(fcinfo, 0);
	args[2] = job_command(fcinfo);
	if (!have_cron())
		report_no_cron(psprintf("SELECT cron.schedule_in_database(%s, %s, %s, %s)",
								quote_literal_cstr(args[0]),
								quote_literal_cstr(args[1]),
								quote_literal_cstr(args[2]),
								quote_literal_cstr(database_name())));
	result = sql_run(SQL_DDL, "SELECT cron.schedule($1, $2, $3)", 3, args);
	PG_RETURN_INT64(strtoi64(sql_value(&result, 0, 0), NULL, 10));
}

/* sqs_unschedule_maintenance(): whether there was a job */
Datum
sqs_unschedule_maintenance(PG_FUNCTION_ARGS)
{
	const char *name = job_name();

	PreventCommandIfReadOnly("sqs_unschedule_maintenance()");
	check_extension_owner();
	if (!have_cron())
		report_no_cron(psprintf("SELECT cron.unschedule(%s)",
								quote_literal_cstr(name)));
	PG_RETURN_BOOL(sql_run(SQL_DDL,
						   "SELECT cron.unschedule(jobid) FROM cron.job"
						   " WHERE jobname = $1", 1, &name).rows > 0);
}
