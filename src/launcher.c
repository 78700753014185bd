/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  Starts a background worker in every database that has the extension.
 *
 * The launcher is connected to no database, so it sees pg_database but not
 * what is inside one.  It starts a worker in each database it has not asked
 * yet, a few at a time; a worker that does not find the extension leaves, and
 * is not started again before the database is announced (worker_slot.c) or a
 * new one takes its name.  So a cluster of a thousand databases costs a
 * thousand short starts once, and nothing after.
 *
 *		new       -> STARTING
 *		STARTING  -> RUNNING		it has the extension
 *		STARTING  -> ABSENT			it has not; till it is announced
 *		any		  -> LEFT			it is wanted by others, or switched off;
 *									till that is over
 *		any		  -> FAILED			for a time, longer at each failure
 *
 * Workers never restart by themselves (BGW_NEVER_RESTART), or those of a
 * dropped database would for ever.  A worker and the launcher both keep out
 * of the way of DROP, RENAME, SET TABLESPACE and CREATE ... TEMPLATE, which
 * need the database to themselves: they try the lock that every session takes
 * on its database while it starts, and which these commands hold.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "launcher.h"
#include "pg_sqs.h"

#define MAX_STARTING 4			/* workers started and not heard of yet */
#define MIN_DELAY_MS 1000		/* before a failed worker starts again */
#define MAX_DELAY_MS 60000
#define LAUNCHER_RESTART_S 5

typedef struct DatabaseEntry
{
	Oid			dboid;			/* hash key */
	char		name[NAMEDATALEN];
	bool		exists;
	bool		listed;			/* and wants a worker */
	bool		absent;			/* has no pg_sqs */
	bool		announced;		/* since its worker was started */
	WorkerState state;
	BackgroundWorkerHandle *handle; /* of the worker started last */
	TimestampTz running_since;	/* 0 = it is not */
	TimestampTz not_before;		/* next start */
	int			delay_ms;		/* that made not_before */
} DatabaseEntry;

static HTAB *databases = NULL;
static bool databases_changed = true;
static bool start_refused = false;	/* and said so */

PGDLLEXPORT pg_noreturn void sqs_launcher_main(Datum arg);

/* Registers the launcher, when the server preloads the library. */
void
launcher_init(void)
{
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress)
		return;
	worker_slot_init();
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = LAUNCHER_RESTART_S;
	strlcpy(worker.bgw_library_name, "pg_sqs", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "sqs_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "pg_sqs launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "pg_sqs launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/* Syscache callback: a row of pg_database changed. */
static void
database_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	databases_changed = true;
}

/* The entry of a database, a new one if need be. */
static DatabaseEntry *
enter_database(Oid dboid)
{
	bool		found;
	DatabaseEntry *entry;

	entry = hash_search(databases, &dboid, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, sizeof(DatabaseEntry));
		entry->dboid = dboid;
	}
	return entry;
}

/* Forgets the handle of an entry's worker. */
static void
forget_handle(DatabaseEntry *entry)
{
	if (entry->handle != NULL)
		pfree(entry->handle);
	entry->handle = NULL;
}

/*
 * Asks the postmaster which workers are no more.  Comes before the reports
 * are collected: one that ended without a report has failed.
 */
static void
check_handles(void)
{
	HASH_SEQ_STATUS seq;
	DatabaseEntry *entry;

	hash_seq_init(&seq, databases);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		pid_t		pid;

		entry->state = WORKER_NONE;
		if (entry->handle == NULL)
			continue;
		if (GetBackgroundWorkerPid(entry->handle, &pid) == BGWH_STOPPED)
		{
			forget_handle(entry);
			entry->state = WORKER_FAILED;
		}
		else
			entry->state = WORKER_STARTING;
	}
}

/* Takes in the reports of the workers and the announcements of sessions. */
static void
read_news(void)
{
	WorkerNews *news = launcher_collect();

	for (int i = 0; i < news->nreports; i++)
		enter_database(news->reports[i].dboid)->state = news->reports[i].state;
	for (int i = 0; i < news->nannounced; i++)
	{
		DatabaseEntry *entry = enter_database(news->announced[i]);

		entry->absent = false;
		entry->announced = true;
		databases_changed = true;
	}
	if (news->overflow)
	{
		HASH_SEQ_STATUS seq;
		DatabaseEntry *entry;

		hash_seq_init(&seq, databases);
		while ((entry = hash_seq_search(&seq)) != NULL)
		{
			entry->absent = false;
			entry->announced = true;
		}
	}
}

/* Puts off the next start of a worker that failed, longer each time. */
static void
back_off(DatabaseEntry *entry, TimestampTz now)
{
	bool		ran_well = entry->running_since != 0 &&
		TimestampDifferenceExceeds(entry->running_since, now, MAX_DELAY_MS);

	if (entry->delay_ms == 0 || ran_well)
		entry->delay_ms = MIN_DELAY_MS;
	else
		entry->delay_ms = Min(2 * entry->delay_ms, MAX_DELAY_MS);
	entry->not_before = TimestampTzPlusMilliseconds(now, entry->delay_ms);
}

/* Draws the conclusions from how far the worker of a database is. */
static void
follow_worker(DatabaseEntry *entry, TimestampTz now)
{
	if (entry->state == WORKER_RUNNING && entry->running_since == 0)
		entry->running_since = now;
	if (entry->state == WORKER_STARTING || entry->state == WORKER_RUNNING)
		return;
	if (entry->state == WORKER_FAILED)
		back_off(entry, now);
	else if (entry->state == WORKER_ABSENT && !entry->announced)
		entry->absent = true;
	if (entry->state != WORKER_NONE)
		forget_handle(entry);
	entry->state = WORKER_NONE;
	entry->running_since = 0;
}

/* Looks after every worker there is or was; returns how many are starting. */
static int
follow_workers(TimestampTz now)
{
	HASH_SEQ_STATUS seq;
	DatabaseEntry *entry;
	int			starting = 0;

	check_handles();
	read_news();
	hash_seq_init(&seq, databases);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		follow_worker(entry, now);
		if (entry->state == WORKER_STARTING)
			starting++;
	}
	return starting;
}

/* Removes the databases that are gone, unless a worker is still there. */
static void
remove_dropped(void)
{
	HASH_SEQ_STATUS seq;
	DatabaseEntry *entry;

	hash_seq_init(&seq, databases);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (entry->exists || entry->state != WORKER_NONE)
			continue;
		shmem_forget_database(entry->dboid);
		hash_search(databases, &entry->dboid, HASH_REMOVE, NULL);
	}
}

/* Reads pg_database; in a transaction. */
static void
list_databases(void)
{
	HASH_SEQ_STATUS seq;
	DatabaseEntry *entry;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	databases_changed = false;
	hash_seq_init(&seq, databases);
	while ((entry = hash_seq_search(&seq)) != NULL)
		entry->exists = entry->listed = false;
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		entry = enter_database(form->oid);
		entry->exists = true;
		entry->listed = form->datallowconn && !form->datistemplate &&
			!database_is_invalid_form(form);
		strlcpy(entry->name, NameStr(form->datname), NAMEDATALEN);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	remove_dropped();
}

/*
 * Whether a worker may be started: nobody wants the database to himself, and
 * it is there still, now that its lock is ours until the transaction ends.
 */
static bool
database_is_free(Oid dboid)
{
	return worker_lock_database(dboid) &&
		SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(dboid));
}

/* Says once that the server has no room for a worker. */
static void
report_refusal(DatabaseEntry *entry)
{
	if (!start_refused)
		ereport(LOG,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not start pg_sqs worker for database \"%s\"",
					   entry->name),
				errdetail("All worker processes of the server are in use; the start is tried again silently."),
				errhint("Increase max_worker_processes by the number of databases that have pg_sqs."));
	start_refused = true;
}

/* Starts the worker of a database; false if the server has no room for it. */
static bool
start_worker(DatabaseEntry *entry)
{
	BackgroundWorker worker = {0};
	MemoryContext old_context;
	bool		started;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(entry->dboid);
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "pg_sqs", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "sqs_worker_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "pg_sqs worker for database %s",
			 entry->name);
	strlcpy(worker.bgw_type, "pg_sqs worker", BGW_MAXLEN);
	entry->announced = false;
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &entry->handle);
	MemoryContextSwitchTo(old_context);
	if (!started)
		entry->handle = NULL;
	return started;
}

/*
 * Starts the workers that are due; in a transaction.  Returns when to look
 * again, 0 if no start is pending.
 */
static TimestampTz
start_workers(int starting, TimestampTz now)
{
	HASH_SEQ_STATUS seq;
	DatabaseEntry *entry;
	TimestampTz next = 0;
	bool		refused = false;

	hash_seq_init(&seq, databases);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		TimestampTz again = TimestampTzPlusMilliseconds(now, MIN_DELAY_MS);

		if (!entry->listed || entry->absent || entry->state != WORKER_NONE)
			continue;
		if (entry->not_before > now)
			again = entry->not_before;
		else if (!refused && starting < MAX_STARTING &&
				 database_is_free(entry->dboid))
		{
			starting++;
			if (start_worker(entry))
				continue;
			report_refusal(entry);
			refused = true;
		}
		if (next == 0 || again < next)
			next = again;
	}
	start_refused = refused;
	return next;
}

/* One round; returns the milliseconds to sleep. */
static long
launch_round(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = 0;
	int			starting = follow_workers(now);

	if (!sqs_worker)
		return -1;
	StartTransactionCommand();
	if (databases_changed)
		list_databases();
	next = start_workers(starting, now);
	CommitTransactionCommand();
	if (next == 0)
		return sqs_maintenance_interval;
	return Min(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next),
			   sqs_maintenance_interval);
}

/* Sleeps until there is news or the time has come. */
static void
launcher_sleep(long milliseconds)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("PgSqsLauncherMain");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
					 (milliseconds >= 0 ? WL_TIMEOUT : 0),
					 milliseconds, wait_event);
	ResetLatch(MyLatch);
	QueryCancelPending = false; /* there is nothing to cancel */
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Main function of the launcher. */
void
sqs_launcher_main(Datum arg)
{
	HASHCTL		ctl = {0};
	MemoryContext context;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	launcher_attach();
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	CacheRegisterSyscacheCallback(DATABASEOID, database_changed, (Datum) 0);
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(DatabaseEntry);
	databases = hash_create("pg_sqs databases", 64, &ctl,
							HASH_ELEM | HASH_BLOBS);
	context = AllocSetContextCreate(TopMemoryContext, "pg_sqs launcher",
									ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		launcher_sleep(launch_round());
	}
}
