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

#define MAX_SLEEP_MS 1000		/* see the head of this file */

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

/* Begins a transaction, unless there is a reason to leave. */
static void
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
}

/* Commits it. */
static void
end_work(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* One round. */
static void
work_round(void)
{
	begin_work();
	end_work();
	worker_slot_running();
}

/* Sleeps until the time has come or something is to be looked at. */
static void
worker_sleep(long milliseconds)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("PgSqsWorkerMain");
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 milliseconds, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (!sqs_worker)
		leave(WORKER_LEFT, "pg_sqs.worker is off");
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
	context = AllocSetContextCreate(TopMemoryContext, "pg_sqs worker",
									ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		work_round();
		worker_sleep(Min(sqs_maintenance_interval, MAX_SLEEP_MS));
	}
}
