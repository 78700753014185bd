/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of a database: when to do what.
 *
 * What there is to do is maintain.c's.  This file gives each piece of work a
 * transaction of its own, goes on after errors, sleeps in between, and leaves
 * when it must.
 *
 * Each transaction begins with a lock of the database that is taken only if
 * it is free: RowExclusiveLock, which every session takes while it starts,
 * and which DROP DATABASE and its kind exclude.  If it is not free, someone
 * wants the database for himself and waits for all others to go, for five
 * seconds, so the worker goes.  That is why it looks each second even where
 * there is nothing else to do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "launcher.h"
#include "pg_sqs.h"
#include "worker.h"

#define MAX_SLEEP_MS 1000		/* see the head of this file */
#define MIN_SLEEP_MS 10
#define MIN_RETRY_MS 1000		/* before what failed is tried again */
#define MAX_RETRY_MS 60000

PGDLLEXPORT pg_noreturn void sqs_worker_main(Datum arg);

/*
 * Locks a database as a session that starts does, to the end of the
 * transaction; false if another session wants it to itself.
 */
bool
worker_lock_database(Oid dboid)
{
	return ConditionalLockSharedObject(DatabaseRelationId, dboid, 0,
									   RowExclusiveLock);
}

/* Whether sessions may use this database, unless it is a template. */
static bool
database_is_in_use(void)
{
	HeapTuple	tuple;
	Form_pg_database form;
	bool		result;

	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_database) GETSTRUCT(tuple);
	result = form->datallowconn && !form->datistemplate;
	ReleaseSysCache(tuple);
	return result;
}

/* Ends the worker. */
static void
leave(WorkerState how, const char *reason)
{
	ereport(DEBUG1,
			errmsg_internal("pg_sqs worker for database %u leaves: %s",
							MyDatabaseId, reason));
	worker_slot_ending(how);
	proc_exit(0);
}

/* Does what signals asked for; not in a transaction. */
static void
attend_to_signals(void)
{
	QueryCancelPending = false; /* there is nothing to cancel */
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (!sqs_worker)
		leave(WORKER_LEFT, "pg_sqs.worker is off");
}

/*
 * Begins a transaction, unless there is a reason to leave.  False if the
 * extension is being changed: whoever changes it has its locks in an order
 * that is not ours, so do not wait.
 */
static bool
begin_work(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	if (!worker_lock_database(MyDatabaseId))
		leave(WORKER_LEFT, "another session wants it for itself");
	if (!database_is_in_use())
		leave(WORKER_LEFT, "it is a template or allows no connections");
	if (!OidIsValid(get_extension_oid("pg_sqs", true)))
		leave(WORKER_ABSENT, "it has no pg_sqs");
	PushActiveSnapshot(GetTransactionSnapshot());
	return ConditionalLockRelationOid(catalog_relation("queue"),
									  AccessShareLock);
}

/* Commits it. */
static void
end_work(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Says that something failed, the first time it does. */
static void
report_failure(const Trouble *trouble, const char *queue, ErrorData *error)
{
	if (trouble->failures > 1)
		return;
	ereport(LOG,
			errcode(error->sqlerrcode),
			queue ?
			errmsg("could not maintain queue \"%s\": %s", queue,
				   error->message) :
			errmsg("could not maintain queues: %s", error->message),
			error->detail ? errdetail_internal("%s", error->detail) : 0,
			error->hint ? errhint("%s", error->hint) :
			errhint("It is tried again, and said again only after it has succeeded; SELECT sqs_maintain() shows the current state."),
			error->context ? errcontext("%s", error->context) : 0);
}

/* Puts off the next try of something that failed, longer each time. */
static void
note_failure(Trouble *trouble)
{
	int			shift = Min(trouble->failures, 6);
	int			delay = Min(MIN_RETRY_MS << shift, MAX_RETRY_MS);

	trouble->failures++;
	trouble->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													delay);
}

/* Ends the transaction in which an error was raised; returns the error. */
static ErrorData *
recover_from_error(MemoryContext context)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	RESUME_INTERRUPTS();
	return error;
}

/*
 * Does a piece of work in a transaction of its own; false if that failed.
 * The name of a queue says whose it is, NULL all queues'.
 */
bool
worker_run(void (*work) (void *), void *arg, Trouble *trouble,
		   const char *queue)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool done = false;

	attend_to_signals();
	pgstat_report_activity(STATE_RUNNING, queue ?
						   psprintf("maintaining queue \"%s\"", queue) :
						   "maintaining queues");
	PG_TRY();
	{
		if (begin_work())
		{
			work(arg);
			done = true;
		}
		end_work();
	}
	PG_CATCH();
	{
		done = false;
		error = recover_from_error(context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	if (error != NULL)
	{
		note_failure(trouble);
		report_failure(trouble, queue, error);
	}
	else if (done)
		memset(trouble, 0, sizeof(Trouble));
	else
		trouble->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
														MIN_RETRY_MS);
	return done;
}

/* Sees that this database still wants a worker. */
static void
look_around(void)
{
	(void) begin_work();
	end_work();
	worker_slot_running();
}

/* Sleeps until a time, or something to look at. */
static void
worker_sleep(TimestampTz until)
{
	static uint32 wait_event = 0;
	long		milliseconds;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("PgSqsWorkerMain");
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	milliseconds = until == DT_NOEND ? MAX_SLEEP_MS :
		TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
	milliseconds = Min(milliseconds,
					   Min(sqs_maintenance_interval, MAX_SLEEP_MS));
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Max(milliseconds, MIN_SLEEP_MS), wait_event);
	ResetLatch(MyLatch);
}

/*
 * Sets what a session of this database would have set, but a worker must not:
 * nothing may stop it or make it wait, and it must be able to write.  A commit
 * need not wait for the disk, since what is lost in a crash is done again.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"synchronous_commit", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"transaction_timeout", "0"},	/* since PG17 */
		{"idle_in_transaction_session_timeout", "0"},
		{"row_security", "on"}
	};

	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
							PGC_S_OVERRIDE);
}

/* Main function of a worker; its argument is the database. */
void
sqs_worker_main(Datum arg)
{
	Oid			dboid = DatumGetObjectId(arg);
	MemoryContext context;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	if (!worker_slot_claim(dboid))
		proc_exit(0);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(dboid, InvalidOid, 0);
	override_settings();
	worker_queues_init();
	context = AllocSetContextCreate(TopMemoryContext, "pg_sqs worker",
									ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		attend_to_signals();
		look_around();
		MemoryContextSwitchTo(context);
		worker_sleep(worker_queues_round());
	}
}
